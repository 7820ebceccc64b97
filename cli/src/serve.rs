//! `groupcommit serve`: a database over HTTP, for the clients of libSQL and Turso.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use groupcommit::{TokenLimits, sqlite::Database};
use groupcommit_serve::{Serving, bind};
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::{Exit, Problem, explain};

/// Serve a SQLite database over HTTP to the clients of libSQL and Turso
///
/// Every write is durable before it is answered, and writes that arrive together share one flush. The
/// server has no login: keep it on this machine, or put a proxy with one in front of it. Ctrl-C or a
/// termination signal finishes the requests that have begun and closes the database.
///
/// Exit codes: 0 stopped by a signal; 2 usage, or the database or address cannot be used; 3 a commit
/// or its flush could not be confirmed.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The database; created if it is missing
    #[arg(value_name = "DATABASE")]
    database: PathBuf,

    /// Address and port to listen on; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    listen: String,

    /// Seconds that a transaction over several requests may last
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    transaction_timeout: Duration,

    /// Seconds that such a transaction may wait for its next request
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    transaction_idle_timeout: Duration,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() && duration <= LONGEST => Ok(duration),
        _ => Err(format!("expected more than 0 and at most {} seconds", LONGEST.as_secs())),
    }
}

/// The longest time that an option takes.
const LONGEST: Duration = Duration::from_hours(24);

/// Idempotency keys that are kept at most, each with up to 64 KiB of its response.
const KEYS_MAX: u64 = 1_000_000;

/// Serves until a signal arrives.
pub(crate) fn run(options: &Options) -> Result<Exit, Problem> {
    let tokens = TokenLimits { tokens: KEYS_MAX, ..TokenLimits::default() };
    let database = Database::options()
        .tokens(tokens)
        .open(&options.database)
        .map_err(|error| Problem::environment(explain(&error)))?;
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Problem::environment(format!("cannot start threads: {error}")))?;
    runtime.block_on(async {
        let cannot =
            |error| Problem::environment(format!("cannot listen on {}: {error}", options.listen));
        let mut terms = groupcommit_serve::Options::default();
        terms.transaction_timeout = options.transaction_timeout;
        terms.transaction_idle_timeout = options.transaction_idle_timeout;
        let (mut interrupt, mut terminate) = (
            signal(SignalKind::interrupt()).map_err(cannot)?,
            signal(SignalKind::terminate()).map_err(cannot)?,
        );
        let serving = bind(database.clone(), &options.listen, terms).await.map_err(cannot)?;
        announce(options, &database, &serving).map_err(cannot)?;
        serving
            .run(async {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
            })
            .await;
        Ok(())
    })?;
    database.close().map_err(|error| Problem::unknown(explain(&error)))?;
    Ok(Exit::Durable)
}

/// Says where to connect, once that is possible.
fn announce(options: &Options, database: &Database, serving: &Serving) -> std::io::Result<()> {
    let address = serving.address()?;
    for warning in database.warnings() {
        drop(writeln!(std::io::stderr(), "groupcommit: {warning}"));
    }
    if !address.ip().is_loopback() {
        drop(writeln!(
            std::io::stderr(),
            "groupcommit: warning: no authentication; any client that reaches {address} can read and write the database"
        ));
    }
    // A closed standard output does not keep the server from serving.
    drop(writeln!(
        std::io::stdout(),
        "serving {} at http://{address}; connect with any libSQL or Turso client, or: \
         curl -d '{{\"requests\":[{{\"type\":\"execute\",\"stmt\":{{\"sql\":\"SELECT 1\"}}}}]}}' http://{address}/v2/pipeline",
        options.database.display()
    ));
    Ok(())
}
