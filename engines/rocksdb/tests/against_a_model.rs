//! Transactions of every kind of operation, in groups, against a map: what each saw and what is
//! left equal those of running them one by one.

use std::{collections::BTreeMap, sync::mpsc};

use groupcommit_rocksdb::{Database, Error, Failure, Rejected, Transaction, rocksdb};
use proptest::prelude::*;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Debug, Clone)]
enum Step {
    Put(u8, u8),
    Delete(u8),
    Append(u8, u8),
    DeleteRange(u8, u8),
    Swap(u8, Option<u8>, Option<u8>),
    Get(u8),
    Range(u8, u8),
    /// Steps that are kept or undone.
    Savepoint(Vec<Step>, bool),
}

/// The steps of a transaction, and whether it returns a value in the end.
type Script = (Vec<Step>, bool);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0..12_u8;
    let leaf = prop_oneof![
        (key.clone(), any::<u8>()).prop_map(|(k, v)| Step::Put(k, v)),
        key.clone().prop_map(Step::Delete),
        (key.clone(), any::<u8>()).prop_map(|(k, v)| Step::Append(k, v)),
        (key.clone(), key.clone()).prop_map(|(a, b)| Step::DeleteRange(a.min(b), a.max(b))),
        (key.clone(), any::<Option<u8>>(), any::<Option<u8>>())
            .prop_map(|(k, a, b)| Step::Swap(k, a, b)),
        key.clone().prop_map(Step::Get),
        (key.clone(), key).prop_map(|(a, b)| Step::Range(a.min(b), a.max(b))),
    ];
    let step = leaf.prop_recursive(2, 8, 4, |inner| {
        (prop::collection::vec(inner, 0..4), any::<bool>())
            .prop_map(|(steps, keep)| Step::Savepoint(steps, keep))
    });
    prop::collection::vec(step, 0..6)
}

/// What a step saw.
type Seen = Vec<(Vec<u8>, Vec<u8>)>;

fn entry(key: u8, value: Option<Vec<u8>>) -> Seen {
    value.into_iter().map(|value| (vec![key], value)).collect()
}

fn in_rocksdb(tx: &mut Transaction<'_>, step: &Step, seen: &mut Vec<Seen>) -> Result<(), Error> {
    match step {
        Step::Put(k, v) => tx.put([*k], [*v])?,
        Step::Delete(k) => tx.delete([*k])?,
        Step::Append(k, v) => tx.merge([*k], [*v])?,
        Step::DeleteRange(from, to) => tx.delete_range([*from], [*to])?,
        Step::Swap(k, expected, new) => {
            let (expected, new) = (expected.map(|v| [v]), new.map(|v| [v]));
            let (expected, new) = (expected.as_ref(), new.as_ref());
            let swapped =
                tx.compare_and_swap([*k], expected.map(|v| &v[..]), new.map(|v| &v[..]))?;
            seen.push(entry(u8::from(swapped), Some(Vec::new())));
        }
        Step::Get(k) => seen.push(entry(*k, tx.get([*k])?)),
        Step::Range(from, to) => {
            seen.push(tx.range([*from], Some(&[*to]))?.collect::<Result<_, _>>()?);
        }
        Step::Savepoint(steps, keep) => {
            let result = tx.savepoint(|tx| {
                steps.iter().try_for_each(|step| in_rocksdb(tx, step, seen)).map_err(Some)?;
                if *keep { Ok(()) } else { Err(None) }
            });
            if let Err(Some(error)) = result {
                return Err(error);
            }
        }
    }
    Ok(())
}

fn in_map(map: &mut Map, step: &Step, seen: &mut Vec<Seen>) {
    match step {
        Step::Put(k, v) => drop(map.insert(vec![*k], vec![*v])),
        Step::Delete(k) => drop(map.remove(&vec![*k])),
        Step::Append(k, v) => map.entry(vec![*k]).or_default().push(*v),
        Step::DeleteRange(from, to) => map.retain(|key, _| key[0] < *from || key[0] >= *to),
        Step::Swap(k, expected, new) => {
            let swapped = map.get(&vec![*k]).cloned() == expected.map(|v| vec![v]);
            match (swapped, new) {
                (false, _) => {}
                (true, Some(new)) => drop(map.insert(vec![*k], vec![*new])),
                (true, None) => drop(map.remove(&vec![*k])),
            }
            seen.push(entry(u8::from(swapped), Some(Vec::new())));
        }
        Step::Get(k) => seen.push(entry(*k, map.get(&vec![*k]).cloned())),
        Step::Range(from, to) => {
            let range = map.range(vec![*from]..vec![*to]);
            seen.push(range.map(|(k, v)| (k.clone(), v.clone())).collect());
        }
        Step::Savepoint(steps, keep) => {
            let before = map.clone();
            steps.iter().for_each(|step| in_map(map, step, seen));
            if !keep {
                *map = before;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_group_is_as_one_by_one(
        groups in prop::collection::vec(prop::collection::vec((steps(), any::<bool>()), 1..8), 1..4)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut options = rocksdb::Options::default();
        options.set_merge_operator_associative("append", |_, existing, operands| {
            let mut value = existing.map_or_else(Vec::new, <[u8]>::to_vec);
            operands.iter().for_each(|operand| value.extend_from_slice(operand));
            Some(value)
        });
        let db = Database::options().rocksdb(options).open(folder.path().join("store")).unwrap();
        let mut map = Map::new();
        for group in groups {
            let (release, held) = mpsc::channel::<()>();
            let hold = db.submit(move |_| {
                held.recv().ok();
                Ok::<_, Error>(())
            });
            let tickets: Vec<_> = group.iter().cloned().map(|(steps, returns): Script| {
                db.submit(move |tx| {
                    let mut seen = Vec::new();
                    steps.iter().try_for_each(|step| in_rocksdb(tx, step, &mut seen)).map_err(Err)?;
                    if returns { Ok(seen) } else { Err(Ok(seen)) }
                })
            }).collect();
            drop(release);
            hold.wait().unwrap();
            for (ticket, (steps, returns)) in tickets.into_iter().zip(group) {
                let (before, mut expected) = (map.clone(), Vec::new());
                steps.iter().for_each(|step| in_map(&mut map, step, &mut expected));
                let seen: Vec<Seen> = match ticket.wait() {
                    Ok(seen) => { prop_assert!(returns); seen }
                    Err(Failure::Rejected(Rejected::Caller(Ok(seen)))) => {
                        prop_assert!(!returns);
                        map = before;
                        seen
                    }
                    Err(other) => return Err(TestCaseError::fail(format!("{other:?}"))),
                };
                prop_assert_eq!(seen, expected);
            }
        }
        let left = db.read(|snapshot| {
            let entries = snapshot.iterator(rocksdb::IteratorMode::Start);
            entries.map(|entry| entry.map(|(k, v)| (k.to_vec(), v.to_vec()))).collect::<Result<Map, _>>()
        });
        prop_assert_eq!(left.unwrap(), map);
    }
}
