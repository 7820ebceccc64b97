//! What only shows after minutes: eight writers and eight readers under the history checker, and twice
//! the load that the database can take. `cargo test` runs each in short.
//!
//! `GROUPCOMMIT_ENDURE_SECONDS` sets how long each goes on, `GROUPCOMMIT_ENDURE_SEED` what the random
//! choices follow from. `cargo xtask endure` reads the line of figures that each prints.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod history;
mod overload;

use std::time::Duration;

use serde::Serialize;

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("a number"))
}

/// How long a long form goes on; `None` in the short form.
fn long_form() -> Option<Duration> {
    number("GROUPCOMMIT_ENDURE_SECONDS").map(Duration::from_secs)
}

fn say(name: &str, figures: &impl Serialize) {
    println!("\n{name}: {}", serde_json::to_string(figures).unwrap());
}
