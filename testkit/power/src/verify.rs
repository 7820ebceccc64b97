//! The judgement after a power cut: what was found, against what was promised.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use crate::{
    plan::{ACCOUNTS, Found, Planned},
    record::Record,
};

/// What was promised since the database was created.
#[derive(Debug, Clone, Default)]
pub(crate) struct Promised {
    acknowledged: BTreeSet<u64>,
    /// Said to have had no effect; what was submitted later has other numbers.
    without_effect: BTreeSet<u64>,
    /// The highest head that a durable read returned.
    read_durable: u64,
    wrong_outcomes: u64,
    pub(crate) unknown: u64,
    pub(crate) repeated: u64,
    /// Acknowledged while the power was being cut: see [`Promised::take_in`].
    late: BTreeSet<u64>,
}

impl Promised {
    /// Takes in what a writer recorded; returns how many acknowledgements that were.
    ///
    /// Those that come after the cut began are none: nobody hears them where the power really
    /// fails. A file system that is being shut down may let an `fdatasync` return success whose
    /// journal commit it has just dropped, which the control shows without any database.
    pub(crate) fn take_in(&mut self, records: &[Record]) -> u64 {
        let before = self.acknowledged.len();
        let mut is_cut = false;
        for record in records {
            match *record {
                Record::Cutting => is_cut = true,
                Record::Acknowledged(number) if is_cut => {
                    self.late.insert(number);
                }
                Record::ReadDurable(_) if is_cut => {}
                // Numbers from here on are given again, to other transactions.
                Record::Opened(next) => {
                    self.without_effect.split_off(&next);
                }
                Record::Acknowledged(number) => {
                    self.acknowledged.insert(number);
                }
                Record::WithoutEffect(number) => {
                    self.without_effect.insert(number);
                }
                Record::Unknown(_) => self.unknown += 1,
                Record::ReadDurable(head) => self.read_durable = self.read_durable.max(head),
                Record::WrongOutcome => self.wrong_outcomes += 1,
                Record::Repeated(_) => self.repeated += 1,
            }
        }
        (self.acknowledged.len() - before) as u64
    }

    /// How many acknowledgements came while the power was being cut, and how many of these
    /// transactions are gone.
    pub(crate) fn take_late(&mut self, found: &Found) -> (u64, u64) {
        let late = std::mem::take(&mut self.late);
        let last = found.transactions.last().map_or(0, |planned| planned.number);
        (late.len() as u64, late.iter().filter(|number| **number > last).count() as u64)
    }
}

/// What is wrong, by how many transactions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Violations {
    /// Acknowledged and not there.
    pub(crate) lost: u64,
    /// Not there, although one submitted later is.
    pub(crate) holes: u64,
    /// Partly there, or there although they failed.
    pub(crate) partial: u64,
    /// There, although it was said that they had no effect.
    pub(crate) false_refusals: u64,
    /// Heads returned as durable that are gone.
    pub(crate) untrue_reads: u64,
    /// Other contradictions: accounts that do not add up, damaged files, wrong outcomes.
    pub(crate) other: u64,
}

impl Violations {
    pub(crate) fn is_none(self) -> bool {
        self == Self::default()
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.lost += other.lost;
        self.holes += other.holes;
        self.partial += other.partial;
        self.false_refusals += other.false_refusals;
        self.untrue_reads += other.untrue_reads;
        self.other += other.other;
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} lost, {} holes, {} partial, {} false refusals, {} untrue reads, {} other",
            self.lost, self.holes, self.partial, self.false_refusals, self.untrue_reads, self.other
        )
    }
}

/// Compares what was found with what was promised.
pub(crate) fn judge(found: &Found, promised: &Promised) -> Violations {
    let there: BTreeMap<u64, &Planned> =
        found.transactions.iter().map(|planned| (planned.number, planned)).collect();
    let highest = there.last_key_value().map_or(0, |(&number, _)| number);
    let count = |n: usize| n as u64;
    let lost = promised.acknowledged.iter().filter(|number| !there.contains_key(number)).count();
    let holes = (1..highest)
        .filter(|number| !there.contains_key(number) && !promised.without_effect.contains(number))
        .count();
    let false_refusals =
        promised.without_effect.iter().filter(|number| there.contains_key(number)).count();
    let untrue_reads = u64::from(promised.read_durable > highest);
    let (balances_wrong, head_wrong) = (found.balances != balances(&there), found.head != highest);
    Violations {
        lost: count(lost),
        holes: count(holes),
        partial: partial(found, &there) + found.of_failed + u64::from(head_wrong),
        false_refusals: count(false_refusals),
        untrue_reads,
        other: u64::from(balances_wrong) + promised.wrong_outcomes,
    }
}

/// How many transactions are there without all of their items, or the other way round.
fn partial(found: &Found, there: &BTreeMap<u64, &Planned>) -> u64 {
    let mut items: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
    let mut partial = BTreeSet::new();
    for (number, index, content) in &found.items {
        match there.get(number) {
            Some(planned) if *index < planned.items && *content == planned.item(*index) => {
                items.entry(*number).or_default().insert(*index);
            }
            _ => {
                partial.insert(*number);
            }
        }
    }
    for planned in &found.transactions {
        if items.get(&planned.number).map_or(0, BTreeSet::len) != planned.items as usize {
            partial.insert(planned.number);
        }
    }
    partial.len() as u64
}

fn balances(there: &BTreeMap<u64, &Planned>) -> [i64; ACCOUNTS] {
    let mut balances = [0; ACCOUNTS];
    for planned in there.values() {
        let (from, to, amount) = planned.transfer();
        balances[from] -= amount;
        balances[to] += amount;
    }
    balances
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database that holds these transactions whole.
    fn holding(numbers: &[u64]) -> Found {
        let mut found = Found::default();
        for &number in numbers {
            let planned = Planned { number, items: 2, bytes: 9 };
            found.transactions.push(planned);
            found.items.extend((0..2).map(|index| (number, index, planned.item(index))));
            found.head = number;
        }
        let there = found.transactions.iter().map(|planned| (planned.number, planned)).collect();
        found.balances = balances(&there);
        found
    }

    fn promised(records: &[Record]) -> Promised {
        let mut promised = Promised::default();
        promised.take_in(records);
        promised
    }

    fn acknowledged(numbers: impl IntoIterator<Item = u64>) -> Promised {
        promised(&numbers.into_iter().map(Record::Acknowledged).collect::<Vec<_>>())
    }

    #[test]
    fn everything_acknowledged_and_more_is_right() {
        assert!(judge(&holding(&[1, 2, 3, 4]), &acknowledged(1..=3)).is_none());
        assert!(judge(&holding(&[]), &acknowledged([])).is_none());
    }

    #[test]
    fn what_is_lost_is_counted() {
        let violations = judge(&holding(&[1, 2]), &acknowledged(1..=4));
        assert_eq!(violations, Violations { lost: 2, ..Violations::default() });
    }

    #[test]
    fn what_is_missing_before_something_later_is_a_hole_unless_it_had_no_effect() {
        let found = holding(&[1, 4]);
        let violations = judge(&found, &acknowledged([1]));
        assert_eq!(violations, Violations { holes: 2, ..Violations::default() });
        let without = [Record::WithoutEffect(2), Record::WithoutEffect(3)];
        assert!(judge(&found, &promised(&without)).is_none());
        let violations = judge(&holding(&[1, 2, 3, 4]), &promised(&without));
        assert_eq!(violations, Violations { false_refusals: 2, ..Violations::default() });
        // Numbers that were given again after the database was opened again.
        let again = [without[0], without[1], Record::Opened(3), Record::Acknowledged(3)];
        assert!(judge(&holding(&[1, 3, 4]), &promised(&again)).is_none());
    }

    #[test]
    fn a_part_of_a_transaction_is_found() {
        let mut without_item = holding(&[1, 2]);
        without_item.items.remove(3);
        let mut without_row = holding(&[1, 2]);
        without_row.transactions.remove(1);
        let mut wrong_item = holding(&[1, 2]);
        wrong_item.items[0].2[0] ^= 1;
        let mut old_head = holding(&[1, 2]);
        old_head.head = 1;
        let mut of_failed = holding(&[1, 2]);
        of_failed.of_failed = 1;
        for found in [without_item, without_row, wrong_item, old_head, of_failed] {
            assert!(judge(&found, &Promised::default()).partial > 0, "{found:?}");
        }
        let mut unbalanced = holding(&[1, 2]);
        unbalanced.balances[0] += 1;
        assert_eq!(judge(&unbalanced, &Promised::default()).other, 1);
    }

    #[test]
    fn what_is_acknowledged_while_the_power_is_cut_is_counted_apart() {
        let records = [Record::Acknowledged(1), Record::Cutting, Record::Acknowledged(2)];
        let mut promised = promised(&records);
        let found = holding(&[1]);
        assert!(judge(&found, &promised).is_none());
        assert_eq!(promised.take_late(&found), (1, 1));
        assert_eq!(judge(&holding(&[]), &promised).lost, 1);
    }

    #[test]
    fn a_durable_read_that_is_not_true_any_more_is_found() {
        let read = promised(&[Record::ReadDurable(3)]);
        assert!(judge(&holding(&[1, 2, 3]), &read).is_none());
        assert_eq!(judge(&holding(&[1, 2]), &read).untrue_reads, 1);
    }
}
