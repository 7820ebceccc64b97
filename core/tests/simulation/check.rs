//! What is judged at the end of a run, when the power has been cut.

use std::sync::atomic::Ordering;

use groupcommit_core::Outcome;

use crate::history::{How, Submission, Told, World};

/// Judges a run of which `recovered_before` was recovered at its beginning and `survivors` at its
/// end.
pub(crate) fn check(world: &World, recovered_before: &[u64], survivors: &[u64]) {
    for what in world.disk.take_violations() {
        world.violation(what);
    }
    let log = world.disk.log();
    let faults = {
        let history = world.history();
        let run = Run {
            submissions: &history.submissions,
            log: &log,
            survivors,
            failure_seen: history.failure_seen,
            undisturbed: !world.disk.has_failed() && !world.closing.load(Ordering::Relaxed),
        };
        let mut faults = Vec::new();
        if !survivors.starts_with(recovered_before) {
            faults.push("what was recovered before is lost".into());
        }
        faults.extend(run.each());
        faults.extend(run.order());
        faults.extend(run.callbacks());
        faults
    };
    for what in faults {
        world.violation(what);
    }
}

struct Run<'a> {
    submissions: &'a [Submission],
    log: &'a [u64],
    survivors: &'a [u64],
    failure_seen: Option<usize>,
    /// Nothing has failed and nobody closed.
    undisturbed: bool,
}

impl Run<'_> {
    /// Each transaction by itself: what it was told, against what became of it.
    fn each(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for it in self.submissions {
            let in_log = self.log.iter().filter(|&&id| id == it.id).count();
            let survives = self.survivors.contains(&it.id);
            let told = it.told.map(|(told, _)| told);
            let outcome = told.map(Told::outcome);
            let mut fault = |holds: bool, what: &str| {
                if !holds {
                    faults.push(format!("{} {what}: {it:?}", it.id));
                }
            };
            fault(in_log <= 1, "is in the log twice");
            fault(in_log == 0 || it.act.writes(), "is in the log without a reason");
            fault(in_log == 0 || it.runs > 0, "is in the log and never ran");
            fault(in_log == 0 || it.submitted.is_some(), "was never submitted");
            fault(!it.cancelled || it.runs == 0, "ran although it was cancelled");
            match outcome {
                Some(Outcome::Committed) => {
                    fault(!it.act.writes() || in_log == 1, "was committed and is not in the log");
                    fault(!it.act.writes() || survives, "was acknowledged and is lost");
                }
                Some(Outcome::Rejected | Outcome::NotRun) => {
                    fault(in_log == 0, "was rejected or not run, and is in the log");
                }
                Some(Outcome::Unknown) => {}
                None => {
                    let dropped = self.undisturbed && self.must_be_committed(it);
                    fault(
                        !dropped || in_log == 1,
                        "was not committed after its ticket was dropped",
                    );
                }
            }
            let refused = self.failure_seen.is_some_and(|seen| seen < it.begun);
            fault(!refused || it.runs == 0, "ran after the pipeline was known to have failed");
            let refusal =
                matches!(told, None | Some(Told::Failed | Told::Reentrant | Told::Cancelled));
            fault(!refused || refusal, "was not refused although the pipeline had failed");
        }
        faults
    }

    /// Whether nothing but a failure can have kept it from being committed.
    fn must_be_committed(&self, it: &Submission) -> bool {
        it.submitted.is_some()
            && it.act.writes()
            && !it.cancelled
            && !it.rejected_by_engine
            && it.runs > 0
    }

    /// Submission order, and no holes.
    fn order(&self) -> Vec<String> {
        let of = |id: u64| self.submissions.iter().find(|it| it.id == id);
        let mut faults = Vec::new();
        for (place, later) in self.log.iter().enumerate() {
            for earlier in &self.log[..place] {
                if let (Some(earlier), Some(later)) = (of(*earlier), of(*later))
                    && later.submitted.is_some_and(|submitted| submitted < earlier.begun)
                {
                    faults.push(format!("{} was committed before {}", earlier.id, later.id));
                }
            }
        }
        for survivor in self.survivors.iter().filter_map(|&id| of(id)) {
            for before in self.submissions {
                let is_before =
                    before.submitted.is_some_and(|submitted| submitted < survivor.begun);
                let may_miss = match before.told {
                    Some((told, _)) => {
                        matches!(told.outcome(), Outcome::Rejected | Outcome::NotRun)
                    }
                    // Never run: refused or past its deadline, and nobody asked.
                    None => before.runs == 0 || !self.must_be_committed(before),
                };
                if is_before
                    && before.act.writes()
                    && !may_miss
                    && !self.survivors.contains(&before.id)
                {
                    faults
                        .push(format!("a hole: {} survives, {} does not", survivor.id, before.id));
                }
            }
        }
        faults
    }

    /// Once each, and in submission order, but for those that were not admitted.
    fn callbacks(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut called: Vec<_> = Vec::new();
        for it in self.submissions.iter().filter(|it| it.how == How::Then) {
            if it.callbacks != 1 {
                faults.push(format!("{} was called back {} times", it.id, it.callbacks));
            }
            if let Some((told, at)) = it.told
                && told.outcome() != Outcome::NotRun
            {
                called.push((at, it));
            }
        }
        called.sort_by_key(|(at, _)| *at);
        for (place, (_, later)) in called.iter().enumerate() {
            for (_, earlier) in &called[..place] {
                if later.submitted.is_some_and(|submitted| submitted < earlier.begun) {
                    faults.push(format!("{} was called back before {}", earlier.id, later.id));
                }
            }
        }
        faults
    }
}
