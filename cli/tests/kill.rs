//! `kill -9` at random moments, then --resume: nothing lost, nothing twice.
//!
//! `GROUPCOMMIT_KILLS` sets the number of kills (3 unless told), `GROUPCOMMIT_KILL_RECORDS` the
//! number of records of the input (20,000 unless told), `GROUPCOMMIT_KILL_SEED` repeats a run.

mod common;

use std::fmt::Write as _;
use std::str::FromStr;

use common::{Place, assert_equal_to_csv, flights_sample, wait_for_position};

fn setting<T: FromStr>(name: &str, otherwise: T) -> T {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")),
        Err(_) => otherwise,
    }
}

/// Real records, numbered; every thousandth repeats a number and will be rejected.
fn input(records: u64) -> (String, Vec<u64>) {
    let sample = std::fs::read_to_string(flights_sample()).expect("reads");
    let (header, body) = sample.split_once('\n').expect("a header");
    let mut text = format!("number,{header}\n");
    let mut rejected = Vec::new();
    for (number, line) in (1..=records).zip(body.lines().cycle()) {
        let repeated = number % 1_000 == 0;
        if repeated {
            rejected.push(number);
        }
        writeln!(text, "{},{line}", if repeated { number - 1 } else { number }).expect("writes");
    }
    (text, rejected)
}

#[test]
fn any_moment_can_be_the_last() {
    let kills: u32 = setting("GROUPCOMMIT_KILLS", 3);
    let records: u64 = setting("GROUPCOMMIT_KILL_RECORDS", 20_000);
    let seed: u64 = setting("GROUPCOMMIT_KILL_SEED", fastrand::u64(..));
    println!("GROUPCOMMIT_KILL_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (text, rejected) = input(records);
    let arguments =
        ["-t", "t", "--null", "NA", "--rejects", "bad.csv", "--quiet", "--resume", "in.csv"];
    let mut done = 0;
    let mut within = 0;
    while done < kills {
        let place = Place::new();
        place.write("in.csv", &text);
        // Created by a first ingest of nothing, so that a repeated number violates a constraint.
        let header = text.split_inclusive('\n').next().expect("a header");
        place.run_with(&["-t", "t"], header.as_bytes()).expect(0);
        place
            .database()
            .execute_batch(
                "CREATE UNIQUE INDEX numbers ON t (number); DELETE FROM _groupcommit_ingest",
            )
            .expect("prepares");
        // One ingest may be killed several times, at its very beginning and at its end too.
        let mut position = 0;
        for _ in 0..random.u32(1..=3).min(kills - done) {
            let target = random.u64(position..=records);
            let mut child = place.ingest(&arguments).spawn().expect("starts");
            if random.u8(0..8) > 0 {
                position = wait_for_position(&place, &mut child, target);
            }
            child.kill().expect("kills");
            let status = child.wait().expect("ends");
            // Nobody opens the database now: --resume is to find it as the kill left it.
            done += 1;
            within += u32::from(status.code().is_none() && position > 0 && position < records);
        }
        place.run(&arguments).expect(1);
        assert_equal_to_csv(&place, "t", text.as_bytes(), &rejected);
        let numbers: Vec<u64> = place
            .rejects("bad.csv")
            .iter()
            .map(|reject| reject[0].parse().expect("a number"))
            .collect();
        assert_eq!(numbers, rejected, "each rejected record once");
        assert_eq!(place.column("PRAGMA integrity_check"), ["'ok'"]);
    }
    println!("{done} kills, {within} of them amid the records");
}
