//! A row of the record of failing disks: what the cases of one sort of fault came to.

use groupcommit_core::Outcome;
use serde::Serialize;

use crate::case::Told;

/// One sort of fault, at every place where it can happen.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) cases: u64,
    pub(crate) committed: u64,
    pub(crate) rejected: u64,
    pub(crate) not_run: u64,
    pub(crate) unknown: u64,
    pub(crate) refused_afterwards: u64,
    pub(crate) went_on: u64,
    pub(crate) violations: u64,
}

impl Row {
    pub(crate) fn print(&self) {
        println!(
            "{}: {} cases; {} committed, {} rejected, {} not run, {} unknown; {} refused afterwards, \
             {} went on; {} not as expected",
            self.what,
            self.cases,
            self.committed,
            self.rejected,
            self.not_run,
            self.unknown,
            self.refused_afterwards,
            self.went_on,
            self.violations,
        );
    }

    /// Takes in a case.
    pub(crate) fn count(&mut self, case: &Told) {
        self.cases += 1;
        let of = |outcome: Outcome| {
            case.outcomes.iter().filter(|known| **known == outcome.as_str()).count() as u64
        };
        self.committed += of(Outcome::Committed);
        self.rejected += of(Outcome::Rejected);
        self.not_run += of(Outcome::NotRun);
        self.unknown += of(Outcome::Unknown);
        self.refused_afterwards += u64::from(!case.went_on);
        self.went_on += u64::from(case.went_on);
        self.violations += u64::from(!case.wrong.is_empty());
        for wrong in &case.wrong {
            println!("{}: {wrong}", self.what);
        }
    }
}
