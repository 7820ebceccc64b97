//! Ctrl-C and termination signals: the first asks the ingest to drain, the second ends the program.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::exit::{Exit, Problem};

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Installs the handler for SIGINT, SIGTERM and SIGHUP.
pub(crate) fn install() -> Result<(), Problem> {
    ctrlc::set_handler(|| {
        if REQUESTED.swap(true, Ordering::SeqCst) {
            let told = writeln!(
                std::io::stderr(),
                "groupcommit: stopped without draining; --resume continues exactly where the database is"
            );
            drop(told); // nobody left to tell when standard error is closed
            std::process::exit(i32::from(Exit::Interrupted.code()));
        }
    })
    .map_err(|error| Problem::environment(format!("cannot install the Ctrl-C handler: {error}")))
}

/// Whether a signal has asked for a stop.
pub(crate) fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}
