//! An engine that commits the first part of a group alone gives the rest back, which goes into the
//! next group: each is committed once, in order, and has the result of the run that was committed.

// It holds a group open with a channel that the explorer of interleavings does not know.
#![cfg(not(shuttle))]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, mpsc},
};

use groupcommit_core::{
    Cause, Engine, ExclusiveEnd, Executed, Flush, Group, Pipeline, Ran, Settings,
};

/// What was committed, by commit.
type Commits = Arc<Mutex<Vec<Vec<u64>>>>;

/// Commits the first half of what it runs.
struct Halves(Commits);

struct NoFlush;

impl Flush for NoFlush {
    fn flush(&self) -> Result<(), Cause> {
        Ok(())
    }
}

impl Engine for Halves {
    type Transaction<'g> = Vec<u64>;
    type Exclusive = ();
    type Flusher = NoFlush;

    fn flusher(&self) -> NoFlush {
        NoFlush
    }

    fn execute(&mut self, group: &mut Group<Self>) -> Result<Executed, Cause> {
        let (mut members, mut written) = (Vec::new(), Vec::new());
        while let Some(member) = group.next_member() {
            group.run(member, &mut written);
            members.push(member);
        }
        let kept = members.len().div_ceil(2);
        if let Some(first) = members.get(kept) {
            group.give_back(*first);
        }
        written.truncate(kept);
        self.0.lock().unwrap().push(written);
        Ok(Executed { commits: 1 })
    }

    fn exclusive(&mut self, run: &mut dyn FnMut(&mut ()) -> Ran) -> Result<ExclusiveEnd, Cause> {
        run(&mut ());
        Ok(ExclusiveEnd::Kept)
    }

    fn close(&mut self) -> Result<(), Cause> {
        Ok(())
    }
}

#[test]
fn what_is_given_back_is_committed_once_in_order_by_the_groups_that_follow() {
    let commits = Commits::default();
    let pipeline = Pipeline::new(Halves(commits.clone()), Settings::default());
    let (started, has_started) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let held = pipeline.submit(move |tx: &mut Vec<u64>| {
        started.send(()).unwrap();
        released.recv().unwrap_err(); // until the other end is dropped
        tx.push(0);
        Ok::<_, Infallible>(0)
    });
    has_started.recv().unwrap();
    let mut runs = 0;
    let tickets: Vec<_> = (1..=8_u64)
        .map(|value| {
            pipeline.submit(move |tx: &mut Vec<u64>| {
                tx.push(value);
                runs += 1;
                Ok::<u64, Infallible>(runs)
            })
        })
        .collect();
    drop(release);
    held.wait().unwrap();
    let runs: Vec<u64> = tickets.into_iter().map(|ticket| ticket.wait().unwrap()).collect();
    assert_eq!(runs, [1, 1, 1, 1, 2, 2, 3, 4]);
    let commits = commits.lock().unwrap();
    assert_eq!(*commits, [vec![0], vec![1, 2, 3, 4], vec![5, 6], vec![7], vec![8]]);
}
