//! Fuzzing of what comes from outside: hostile inputs, made of a kept corpus by seeded mutation,
//! against what is independently known of them.
//!
//! | input | held against |
//! |---|---|
//! | CSV | the `csv` crate, and itself read in pieces |
//! | NDJSON | `serde_json`, and itself read in pieces |
//! | SQL | a plain splitting into lines, and itself read in pieces |
//! | command line | it is parsed or refused, never a panic |
//!
//! `GROUPCOMMIT_FUZZ_INPUTS` says how many inputs of each, `GROUPCOMMIT_FUZZ_SEED` where their
//! numbers begin; the same number is the same input. Nothing here looks at a clock.

mod mutate;
mod oracle;

use std::panic::{AssertUnwindSafe, catch_unwind};

use clap::Parser as _;

use mutate::Mutator;

fn from_environment(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(value) => value.parse().unwrap_or_else(|_| panic!("{name} is no number: {value}")),
        Err(_) => default,
    }
}

/// Gives the corpus in `folder` as it is, and then its mutants, to `check`.
fn fuzz(folder: &str, check: impl Fn(&[u8], &mut fastrand::Rng)) {
    let inputs = from_environment("GROUPCOMMIT_FUZZ_INPUTS", 3_000);
    let first = from_environment("GROUPCOMMIT_FUZZ_SEED", 0);
    let mutator = Mutator::load(folder);
    let mut bytes = 0;
    let mut try_one = |what: &str, seed: u64, input: &[u8]| {
        bytes += input.len();
        let mut rng = fastrand::Rng::with_seed(seed);
        let held = catch_unwind(AssertUnwindSafe(|| check(input, &mut rng)));
        assert!(
            held.is_ok(),
            "{folder} input {what} breaks: replay with GROUPCOMMIT_FUZZ_INPUTS=1 \
             GROUPCOMMIT_FUZZ_SEED={seed}; it is\n{}",
            input.escape_ascii()
        );
    };
    for (name, content) in &mutator.corpus {
        (0..20).for_each(|seed| try_one(name, seed, content));
    }
    for seed in first..first + inputs {
        let input = mutator.input(seed);
        try_one(&format!("number {seed}"), seed, &input);
    }
    // For `cargo xtask fuzz`, which reads it.
    println!("\nfuzz: {{\"inputs\":{inputs},\"bytes\":{bytes}}}");
}

#[test]
fn csv() {
    fuzz("csv", oracle::csv);
}

#[test]
fn ndjson() {
    fuzz("ndjson", oracle::ndjson);
}

#[test]
fn sql() {
    fuzz("sql", oracle::sql);
}

#[test]
fn numbers() {
    fuzz("csv", oracle::numbers);
}

#[test]
fn command_line() {
    fuzz("words", |input, rng| {
        let text = String::from_utf8_lossy(input);
        let words: Vec<&str> = text.lines().collect();
        let mut line = vec!["groupcommit"];
        line.extend((0..rng.usize(0..8)).filter_map(|_| rng.choice(&words)));
        if rng.bool() {
            line.splice(1..1, ["ingest", "app.db", "a.csv"]);
        }
        match crate::Arguments::try_parse_from(&line) {
            Ok(crate::Arguments { command: crate::Command::Ingest(options) }) => {
                let layout = options.destination().and_then(|to| options.layout(&to, b""));
                if let Err(problem) = layout {
                    let sentence = problem.to_string();
                    let is_named = sentence.contains("--") || sentence.starts_with("cannot use");
                    assert!(is_named, "does not name the option: {sentence}");
                }
                assert!(options.in_flight >= 1 && options.sample >= 1);
            }
            #[cfg(feature = "serve")]
            Ok(crate::Arguments { command: crate::Command::Serve(_) }) => {}
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    });
}
