//! Ctrl-C and termination signals: the first asks the ingest to drain, the second ends the program.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::exit::{Exit, Problem};
use crate::ingest::progress::say;

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Installs the handler for SIGINT, SIGTERM and SIGHUP.
pub(crate) fn install() -> Result<(), Problem> {
    ctrlc::set_handler(|| {
        if REQUESTED.swap(true, Ordering::SeqCst) {
            leave("stopped at once; --resume continues exactly where the database is");
        }
        say("stopping as soon as the records in flight are durable; Ctrl-C again stops at once");
    })
    .map_err(|error| Problem::environment(format!("cannot install the Ctrl-C handler: {error}")))
}

/// Whether a signal has asked for a stop.
pub(crate) fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Ends the program at once, with the exit code of an interruption.
pub(crate) fn leave(why: &str) -> ! {
    say(why);
    std::process::exit(i32::from(Exit::Interrupted.code()))
}
