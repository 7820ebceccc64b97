//! A case: a database whose disk fails, what became of its transactions, and what was expected.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use groupcommit_core::Outcome;
use serde::{Deserialize, Serialize};

use crate::{
    plan::Planned,
    record::Record,
    subject::{Came, Failing, Subject},
    verify::{self, Promised},
};

/// Rounds of submissions in a case, with how many each.
const ROUNDS: u64 = 6;
const EACH: u64 = 5;

/// What a case came to, as the worker tells it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Told {
    /// Outcomes in words.
    pub(crate) outcomes: Vec<String>,
    /// It committed again without being opened again.
    pub(crate) went_on: bool,
    /// What did not come out as expected, each a sentence.
    pub(crate) wrong: Vec<String>,
}

/// What the database is to do once the disk is well again, where no outcome is unknown: where one is, it
/// must refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Expected {
    /// To go on.
    Service,
    /// To refuse until it is opened again.
    Refusal,
    Either,
}

/// One case under way.
pub(crate) struct Case<S> {
    subject: Option<S>,
    next: u64,
    outcomes: Vec<Outcome>,
    promised: Promised,
    went_on: bool,
    /// What did not come out as expected, each a sentence.
    wrong: Vec<String>,
}

impl<S: Subject> Case<S> {
    /// Opens a new database in `folder`, with some transactions in it.
    pub(crate) fn begin(folder: &Path) -> Result<Self> {
        let mut case = Self {
            subject: Some(S::open(folder)?),
            next: 1,
            outcomes: Vec::new(),
            promised: Promised::default(),
            went_on: false,
            wrong: Vec::new(),
        };
        for _ in 0..4 {
            ensure!(case.transact() == Some(Outcome::Committed), "it fails without a fault");
        }
        case.outcomes.clear();
        Ok(case)
    }

    /// What it came to so far.
    pub(crate) fn told(&self) -> Told {
        let outcomes = self.outcomes.iter().map(|outcome| outcome.as_str().to_owned()).collect();
        Told { outcomes, went_on: self.went_on, wrong: self.wrong.clone() }
    }

    fn plan(&mut self, bytes: u32) -> Planned {
        self.next += 1;
        Planned { number: self.next - 1, items: 2, bytes }
    }

    fn came(&mut self, number: u64, came: &Came) {
        self.outcomes.push(came.outcome);
        self.promised.take_in(&[match came.outcome {
            Outcome::Committed => Record::Acknowledged(number),
            Outcome::Rejected | Outcome::NotRun => Record::WithoutEffect(number),
            Outcome::Unknown => Record::Unknown(number),
        }]);
    }

    fn transact(&mut self) -> Option<Outcome> {
        let planned = self.plan(300);
        let came = self.subject.as_ref()?.transact(planned);
        self.came(planned.number, &came);
        Some(came.outcome)
    }

    /// Submits groups with checkpoints between them, some large, some with a member that fails.
    pub(crate) fn work(&mut self) {
        let Some(subject) = self.subject.clone() else { return };
        let mut refuses = false;
        for round in 0..ROUNDS {
            let tickets: Vec<_> = (0..EACH)
                .map(|n| {
                    let planned = self.plan(if (round, n) == (2, 3) { 30_000 } else { 300 });
                    (planned.number, subject.submit(planned))
                })
                .collect();
            if round == 3 {
                let came = subject.submit_failing(Failing::Error)();
                if came.outcome == Outcome::Committed {
                    self.wrong.push("one that fails on purpose was committed".to_owned());
                }
            }
            let mut unknown = false;
            for (number, ticket) in tickets {
                let came = ticket();
                unknown |= came.outcome == Outcome::Unknown;
                if refuses && came.outcome != Outcome::NotRun {
                    let outcome = came.outcome.as_str();
                    self.wrong.push(format!("transaction {number} was {outcome} after an unknown"));
                }
                self.came(number, &came);
            }
            refuses |= unknown;
            if round % 2 == 1 {
                subject.tidy(round / 2 + 1);
            }
        }
    }

    /// The disk is well again: whoever has an unknown outcome behind it refuses, and whoever has not
    /// does what is expected.
    pub(crate) fn expect_refusal_or_service(&mut self, expected: Expected) {
        let unknown = self.outcomes.contains(&Outcome::Unknown);
        let expected = if unknown { Expected::Refusal } else { expected };
        match self.transact() {
            Some(Outcome::Committed) if expected != Expected::Refusal => self.went_on = true,
            Some(Outcome::NotRun) if expected != Expected::Service => {}
            Some(outcome) => self.wrong.push(format!(
                "{} after {} unknown outcome, once the disk was well again",
                outcome.as_str(),
                if unknown { "an" } else { "no" }
            )),
            None => {}
        }
    }

    pub(crate) fn expect_service(&mut self) {
        for _ in 0..2 {
            let outcome = self.transact();
            if outcome != Some(Outcome::Committed) {
                self.wrong.push(format!("{outcome:?} after it was opened again"));
            }
        }
    }

    pub(crate) fn open_again(&mut self, folder: &Path) -> Result<()> {
        self.close();
        let subject = S::open(folder).context("cannot open the database again")?;
        let last = subject.look()?.transactions.last().map_or(0, |planned| planned.number);
        self.next = last + 1;
        self.promised.take_in(&[Record::Opened(self.next)]);
        self.subject = Some(subject);
        Ok(())
    }

    /// Closes it; that fails where something has failed before.
    pub(crate) fn close(&mut self) {
        if let Some(subject) = self.subject.take() {
            let _reported_before = subject.close();
        }
    }

    /// What is there, against what was promised.
    pub(crate) fn judge(&mut self) -> Result<()> {
        let subject = self.subject.as_ref().context("it is closed")?;
        let violations = verify::judge(&subject.look()?, &self.promised);
        if !violations.is_none() {
            self.wrong.push(violations.to_string());
        }
        if let Err(error) = subject.check_integrity() {
            self.wrong.push(format!("{error:#}"));
        }
        Ok(())
    }
}
