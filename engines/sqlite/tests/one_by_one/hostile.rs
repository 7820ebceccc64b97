//! Transactions of people who mean harm, or do not know better: whatever they do, their neighbours
//! come out as if they had run one by one, and so do they.
//!
//! Each case follows from a seed. `GROUPCOMMIT_HOSTILE_SEEDS` sets how many there are and
//! `GROUPCOMMIT_HOSTILE_SEED` the first: a failure names its own, and is replayed with that one.

use std::{
    env, panic,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
};

use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

use crate::{
    End, common, content, end,
    generate::{hostile_members, hostile_schema},
    reference,
    steps::Member,
    submit,
};

/// A number from the environment.
pub(crate) fn number(name: &str, otherwise: u64) -> u64 {
    env::var(name).map_or(otherwise, |value| value.parse().expect("a number"))
}

fn may_not_run(member: &Member) -> bool {
    matches!(member, Member::Endless(..) | Member::Cancelled(_))
}

/// How often transactions ended how.
#[derive(Debug, Default)]
struct Counts([AtomicU64; 6]);

impl Counts {
    fn count(&self, end: &End) {
        let index = match end {
            End::Committed(_) => 0,
            End::Failed(_) => 1,
            End::Refused(_) => 2,
            End::Panicked => 3,
            End::NotRun => 4,
            End::Unseen => 5,
        };
        self.0[index].fetch_add(1, Relaxed);
    }

    /// For `cargo xtask hostile`, which reads it.
    fn say(&self, name: &str) {
        let [committed, failed, refused, panicked, not_run, unseen] =
            self.0.each_ref().map(|count| count.load(Relaxed));
        let transactions = committed + failed + refused + panicked + not_run + unseen;
        println!(
            "\n{name}: {{\"transactions\":{transactions},\"committed\":{committed},\
             \"failed\":{failed},\"refused\":{refused},\"panicked\":{panicked},\
             \"not_run\":{not_run},\"unseen\":{unseen}}}"
        );
    }
}

fn run(schema: &str, held: bool, members: &[Member], counts: &Counts) -> Result<(), TestCaseError> {
    let test = common::Scratch::new(schema);
    let all = held.then(|| common::hold(&test.db));
    let submitted: Vec<_> = members.iter().map(|member| submit(&test.db, member)).collect();
    if let Some(all) = all {
        all.release().wait().unwrap();
    }
    let ends: Vec<_> = submitted.into_iter().map(end).collect();
    test.db.flush().unwrap();
    let ran = |index: usize| ends[index] != End::NotRun;
    let (expected, expected_content) = reference::run(schema, members, ran);
    ends.iter().for_each(|end| counts.count(end));
    for ((member, end), expected) in members.iter().zip(&ends).zip(expected) {
        match (end, expected) {
            (End::Unseen, _) => {}
            (End::NotRun, _) => prop_assert!(may_not_run(member), "{:#?} was not run", member),
            (end, expected) => prop_assert_eq!(Some(end), expected.as_ref(), "of {:#?}", member),
        }
    }
    prop_assert_eq!(content(&test.plain()), expected_content);
    Ok(())
}

/// Runs cases of a strategy, each from a seed of its own, on all cores.
pub(crate) fn run_seeds<S>(name: &str, seeds: u64, strategy: fn() -> S)
where
    S: Strategy<Value = (String, (bool, Vec<Member>))>,
{
    let variable = format!("GROUPCOMMIT_{}_SEED", name.to_uppercase());
    let first = number(&variable, 1);
    let end = first + number(&format!("{variable}S"), seeds);
    let (counts, next) = (Counts::default(), AtomicU64::new(first));
    let run_some = || {
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= end {
                return;
            }
            if let Err(error) = run_seed(seed, &strategy(), &counts) {
                next.store(end, Relaxed); // the others need not go on
                panic!("{variable}={seed} {variable}S=1: {error}");
            }
        }
    };
    thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        // Each waits for its database half of the time.
        let threads: Vec<_> = (0..4 * cores).map(|_| scope.spawn(run_some)).collect();
        for thread in threads {
            if let Err(panicked) = thread.join() {
                panic::resume_unwind(panicked);
            }
        }
    });
    counts.say(name);
}

fn run_seed<S>(seed: u64, strategy: &S, counts: &Counts) -> Result<(), String>
where
    S: Strategy<Value = (String, (bool, Vec<Member>))>,
{
    let config =
        Config { cases: 1, max_shrink_iters: 300, failure_persistence: None, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    TestRunner::new_with_rng(config, rng)
        .run(strategy, |(schema, (held, members))| run(&schema, held, &members, counts))
        .map_err(|error| error.to_string())
}

#[test]
fn hostile_transactions_come_out_as_one_by_one() {
    run_seeds("hostile", 60, || (hostile_schema(), hostile_members()));
}
