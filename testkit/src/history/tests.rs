//! The checker, held up against histories made by hand: good ones pass, and each kind of bad one is
//! refused for what is bad about it.

use std::sync::{Condvar, Mutex, MutexGuard};

use super::*;

fn write(token: Token, cells: &[u16], times: (u64, u64), position: Option<u64>) -> Write {
    let cells = cells.to_vec();
    Write { token, cells, began_ns: times.0, ended_ns: times.1, position }
}

fn read(position: u64, cells: [Token; 2], times: (u64, u64)) -> Read {
    let seen = State { position, cells: cells.to_vec() };
    Read { seen, began_ns: times.0, ended_ns: times.1, durable: None }
}

/// Three commits on two cells, and one that failed:
///
/// ```text
///   time       10    20    30    40    50    60    70    80
///   token 7    [======1=====]
///   token 8                       [==2==]
///   token 9                             [======3=====]
///   token 66                [ failed ]
///   cells      0 0          7 0         7 8         9 8
/// ```
fn good() -> History {
    History {
        writes: vec![
            write(7, &[0], (10, 30), Some(1)),
            write(66, &[0, 1], (25, 45), None),
            write(8, &[1], (40, 55), Some(2)),
            write(9, &[0], (52, 75), Some(3)),
        ],
        reads: vec![
            read(0, [0, 0], (1, 5)),
            read(0, [0, 0], (15, 20)), // the first write was not resolved yet
            read(1, [7, 0], (16, 21)), // and another saw it already
            read(1, [7, 0], (31, 35)),
            read(2, [7, 8], (50, 70)),
            read(3, [9, 8], (60, 65)), // began later, ended earlier, saw more
            read(3, [9, 8], (76, 80)),
        ],
    }
}

fn refused(history: &History) -> Violation {
    check(&State::new(2), history).unwrap_err()
}

fn with_read(read: Read) -> History {
    let mut history = good();
    history.reads.push(read);
    history
}

#[test]
fn a_good_history_passes() {
    let checked = check(&State::new(2), &good()).unwrap();
    assert_eq!(checked.end, State { position: 3, cells: vec![9, 8] });
    assert_eq!((checked.commits, checked.reads_beside_commits), (3, 3));
}

#[test]
fn one_that_goes_on_from_another_passes() {
    let start = State { position: 3, cells: vec![9, 8] };
    let history = History {
        writes: vec![write(10, &[1], (5, 10), Some(4))],
        reads: vec![read(3, [9, 8], (0, 4)), read(4, [9, 10], (6, 8))],
    };
    assert_eq!(check(&start, &history).unwrap().end.cells, [9, 10]);
}

#[test]
fn a_stale_read() {
    let violation = refused(&with_read(read(0, [0, 0], (31, 35))));
    assert!(matches!(violation, Violation::Stale { position: 1, .. }), "{violation}");
}

#[test]
fn a_hole_among_the_commits() {
    let mut history = good();
    history.writes.remove(2);
    assert_eq!(refused(&history), Violation::Hole { position: 2 });
}

#[test]
fn a_position_taken_twice() {
    let mut history = good();
    history.writes.push(write(10, &[1], (40, 55), Some(2)));
    assert_eq!(refused(&history), Violation::Twice { position: 2 });
}

#[test]
fn a_hole_in_what_a_read_saw() {
    // The third write without the second.
    let violation = refused(&with_read(read(3, [9, 0], (60, 65))));
    assert!(matches!(violation, Violation::Torn { .. }), "{violation}");
}

#[test]
fn a_position_that_does_not_belong_to_the_cells() {
    let violation = refused(&with_read(read(1, [7, 8], (50, 51))));
    assert!(matches!(violation, Violation::Torn { .. }), "{violation}");
}

#[test]
fn a_read_from_the_future() {
    let violation = refused(&with_read(read(2, [7, 8], (31, 35))));
    assert!(matches!(violation, Violation::TimeTravel { position: 2, .. }), "{violation}");
}

#[test]
fn a_read_that_goes_back_behind_one_before() {
    // The second write is not resolved before 55, so this one is not stale by itself.
    let mut history = with_read(read(2, [7, 8], (41, 43)));
    assert!(check(&State::new(2), &history).is_ok());
    history.reads.push(read(1, [7, 0], (44, 46)));
    let violation = refused(&history);
    assert!(matches!(violation, Violation::Backwards { position: 2, .. }), "{violation}");
}

#[test]
fn a_phantom_of_one_that_was_rolled_back() {
    let violation = refused(&with_read(read(1, [66, 66], (32, 40))));
    assert!(matches!(violation, Violation::Phantom { token: 66, .. }), "{violation}");
}

#[test]
fn a_phantom_in_the_wrong_cell() {
    let violation = refused(&with_read(read(1, [0, 7], (20, 40))));
    assert!(matches!(violation, Violation::Phantom { cell: 1, token: 7, .. }), "{violation}");
}

#[test]
fn commits_against_real_time() {
    let mut history = good();
    history.writes[0].position = Some(2);
    history.writes[2].position = Some(1);
    history.reads.clear();
    assert_eq!(refused(&history), Violation::OutOfOrder { earlier: 1, later: 2 });
}

#[test]
fn a_durable_read_of_what_was_not_durable() {
    let mut seen = read(3, [9, 8], (60, 65));
    seen.durable = Some(3);
    assert!(check(&State::new(2), &with_read(seen.clone())).is_ok());
    seen.durable = Some(2);
    let violation = refused(&with_read(seen));
    assert!(matches!(violation, Violation::NotDurable { position: 3, durable: 2, .. }));
}

/// A store under one lock, which does what it promises, or one of the wrongs.
struct Toy {
    /// Held by whoever writes, so that what it shows readers stays the latest while it does.
    writing: Mutex<()>,
    seen: Mutex<Seen>,
    read: Condvar,
    wrong: Option<Wrong>,
}

struct Seen {
    states: Vec<State>,
    /// Reads so far: those that are not durable, and those that are.
    reads: [u64; 2],
    /// Whether readers are to see the latest state before the next is made.
    is_worth_a_look: bool,
}

impl Toy {
    fn new(wrong: Option<Wrong>) -> Self {
        let seen = Seen { states: vec![State::new(4)], reads: [0, 0], is_worth_a_look: false };
        Self { writing: Mutex::new(()), seen: Mutex::new(seen), read: Condvar::new(), wrong }
    }

    /// Lets a reader of each kind see the latest state. There is one as long as anybody writes.
    fn show<'a>(&self, seen: MutexGuard<'a, Seen>) -> MutexGuard<'a, Seen> {
        let before = seen.reads;
        let unseen = |seen: &mut Seen| (0..2).any(|kind| seen.reads[kind] == before[kind]);
        self.read.wait_while(seen, unseen).unwrap()
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Wrong {
    /// Reads are one commit behind, now and then.
    Stale,
    /// A failed write leaves a cell.
    LeavesTraces,
    /// Reads take their cells from two snapshots.
    TwoSnapshots,
    /// Says that one commit less is durable.
    NotDurable,
}

impl Store for Toy {
    type Pending = Option<u64>;

    fn submit(&self, token: Token, cells: &[u16], fails: bool) -> Option<u64> {
        let _writing = self.writing.lock().unwrap();
        let mut seen = self.seen.lock().unwrap();
        if std::mem::take(&mut seen.is_worth_a_look) {
            seen = self.show(seen);
        }
        let mut next = seen.states.last().unwrap().clone();
        seen.is_worth_a_look = fails || next.position % 16 == 15;
        if fails {
            if self.wrong == Some(Wrong::LeavesTraces) {
                next.cells[usize::from(cells[0])] = token;
                seen.states.push(next);
            }
            return None;
        }
        next.position += 1;
        cells.iter().for_each(|&cell| next.cells[usize::from(cell)] = token);
        let position = next.position;
        seen.states.push(next);
        Some(position)
    }

    fn wait(&self, pending: Option<u64>) -> Option<u64> {
        pending
    }

    fn read(&self, durable: bool) -> State {
        let mut seen = self.seen.lock().unwrap();
        seen.reads[usize::from(durable)] += 1;
        self.read.notify_all();
        let latest = seen.states.last().unwrap().clone();
        let before = seen.states.iter().rev().nth(1).unwrap_or(&latest);
        match self.wrong {
            Some(Wrong::Stale) if latest.position.is_multiple_of(16) => before.clone(),
            Some(Wrong::TwoSnapshots) if latest.position.is_multiple_of(16) => {
                State { position: latest.position, cells: before.cells.clone() }
            }
            _ => latest,
        }
    }

    fn durable(&self) -> u64 {
        let position = self.seen.lock().unwrap().states.last().unwrap().position;
        position.saturating_sub(u64::from(self.wrong == Some(Wrong::NotDurable)))
    }
}

#[test]
fn a_driven_store_passes_and_every_wrong_is_found() {
    let load = Load {
        writers: 2,
        readers: 2,
        cells: 4,
        writes_a_round: 2_000,
        time: std::time::Duration::ZERO,
        seed: 1,
    };
    let summary = drive(&Toy::new(None), &load, |_| {}).unwrap();
    assert_eq!((summary.rounds, summary.commits + summary.failed), (1, 4_000));
    // One writer, who waits for each write: so the next one begins when it is resolved.
    let load = Load { writers: 1, ..load };
    for wrong in [Wrong::Stale, Wrong::LeavesTraces, Wrong::TwoSnapshots, Wrong::NotDurable] {
        assert!(drive(&Toy::new(Some(wrong)), &load, |_| {}).is_err(), "{wrong:?}");
    }
}
