//! Promise 4: a group of random transactions comes to the same results, and leaves the same
//! database, as the same transactions one at a time in a map.
//!
//! `PROPTEST_CASES` sets the number of cases.

use std::collections::BTreeMap;

use groupcommit_core::{Failure, Rejected};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};

use super::{Done, Scratch, Stop, Subject, Transaction, hold, submit};

/// One step of a transaction.
#[derive(Debug, Clone)]
enum Step {
    Put(u64, Vec<u8>),
    Delete(u64),
    Get(u64),
    /// Sets the second value if the first is there.
    Swap(u64, Option<Vec<u8>>, Vec<u8>),
    /// Puts the value of the first key under the second.
    Copy(u64, u64),
}

/// How a transaction ends after its steps.
#[derive(Debug, Clone, Copy)]
enum End {
    Returns,
    Fails,
    Panics,
}

/// What a step saw.
type Seen = Option<Vec<u8>>;

/// What became of a transaction.
#[derive(Debug, Clone, PartialEq)]
enum Outcome {
    Committed(Vec<Seen>),
    Failed,
    Panicked,
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    // Small ones repeat; large ones span pages.
    prop_oneof![
        4 => prop::collection::vec(0..3_u8, 1..3),
        1 => (any::<u8>(), 1_000..9_000_usize).prop_map(|(byte, length)| vec![byte; length]),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..12_u64;
    prop_oneof![
        3 => (key(), value()).prop_map(|(key, value)| Step::Put(key, value)),
        1 => key().prop_map(Step::Delete),
        1 => key().prop_map(Step::Get),
        1 => (key(), prop::option::of(value()), value())
            .prop_map(|(key, expected, new)| Step::Swap(key, expected, new)),
        1 => (key(), key()).prop_map(|(from, to)| Step::Copy(from, to)),
    ]
}

fn members() -> impl Strategy<Value = Vec<(Vec<Step>, End)>> {
    let end = prop_oneof![8 => Just(End::Returns), 1 => Just(End::Fails), 1 => Just(End::Panics)];
    prop::collection::vec((prop::collection::vec(step(), 0..5), end), 1..24)
}

/// What steps run on: the engine's transaction, or a map.
trait Store<E> {
    fn put(&mut self, key: u64, value: &[u8]) -> Result<(), E>;
    fn get(&mut self, key: u64) -> Result<Seen, E>;
    fn delete(&mut self, key: u64) -> Result<bool, E>;
}

impl Store<std::convert::Infallible> for BTreeMap<u64, Vec<u8>> {
    fn put(&mut self, key: u64, value: &[u8]) -> Result<(), std::convert::Infallible> {
        self.insert(key, value.to_vec());
        Ok(())
    }

    fn get(&mut self, key: u64) -> Result<Seen, std::convert::Infallible> {
        Ok(BTreeMap::get(self, &key).cloned())
    }

    fn delete(&mut self, key: u64) -> Result<bool, std::convert::Infallible> {
        Ok(self.remove(&key).is_some())
    }
}

struct Of<'a, 'g, S: Subject>(&'a mut Transaction<'g, S>);

impl<S: Subject> Store<S::Error> for Of<'_, '_, S> {
    fn put(&mut self, key: u64, value: &[u8]) -> Result<(), S::Error> {
        S::put(self.0, key, value)
    }

    fn get(&mut self, key: u64) -> Result<Seen, S::Error> {
        S::get(self.0, key)
    }

    fn delete(&mut self, key: u64) -> Result<bool, S::Error> {
        S::delete(self.0, key)
    }
}

fn run_steps<E>(store: &mut impl Store<E>, steps: &[Step]) -> Result<Vec<Seen>, E> {
    let run = |step: &Step| match step {
        Step::Put(key, value) => store.put(*key, value).map(|()| None),
        Step::Delete(key) => Ok(store.delete(*key)?.then(Vec::new)),
        Step::Get(key) => store.get(*key),
        Step::Swap(key, expected, new) => {
            let found = store.get(*key)?;
            if found == *expected {
                store.put(*key, new)?;
            }
            Ok(found)
        }
        Step::Copy(from, to) => {
            let found = store.get(*from)?;
            if let Some(value) = &found {
                store.put(*to, value)?;
            }
            Ok(found)
        }
    };
    steps.iter().map(run).collect()
}

fn expected(map: &mut BTreeMap<u64, Vec<u8>>, steps: &[Step], end: End) -> Outcome {
    let mut changed = map.clone();
    let Ok(seen) = run_steps(&mut changed, steps);
    match end {
        End::Returns => {
            *map = changed;
            Outcome::Committed(seen)
        }
        End::Fails => Outcome::Failed,
        End::Panics => Outcome::Panicked,
    }
}

fn run<S: Subject>(tx: &mut Transaction<'_, S>, steps: &[Step], end: End) -> Done<S, Vec<Seen>> {
    let seen = run_steps(&mut Of::<S>(tx), steps)?;
    match end {
        End::Returns => Ok(seen),
        End::Fails => Err(Stop::Asked(0)),
        End::Panics => panic!("a member was asked to panic"),
    }
}

/// A group of random transactions equals the same one by one.
pub fn a_group_equals_its_transactions_one_by_one<S: Subject>() {
    let default = Config::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { default.cases } else { 48 };
    let config = Config { cases, failure_persistence: None, ..default };
    let checked = TestRunner::new(config).run(&members(), |members| {
        let test = Scratch::<S>::new();
        let held = hold::<S>(&test.db);
        let tickets: Vec<_> = members
            .iter()
            .cloned()
            .map(|(steps, end)| submit::<S, _, _>(&test.db, move |tx| run::<S>(tx, &steps, end)))
            .collect();
        held.release();
        let mut map = BTreeMap::new();
        for ((steps, end), ticket) in members.iter().zip(tickets) {
            let outcome = match ticket.wait() {
                Ok(seen) => Outcome::Committed(seen),
                Err(Failure::Rejected(Rejected::Caller(Stop::Asked(_)))) => Outcome::Failed,
                Err(Failure::Rejected(Rejected::Panicked(_))) => Outcome::Panicked,
                Err(other) => panic!("another failure: {other:?}"),
            };
            prop_assert_eq!(outcome, expected(&mut map, steps, *end), "of {:?}", steps);
        }
        let rows: BTreeMap<_, _> = S::rows(&test.db).into_iter().collect();
        prop_assert_eq!(&rows, &map);
        let test = test.reopen();
        let rows: BTreeMap<_, _> = S::rows(&test.db).into_iter().collect();
        prop_assert_eq!(&rows, &map);
        Ok(())
    });
    checked.unwrap_or_else(|error| panic!("{error}"));
}
