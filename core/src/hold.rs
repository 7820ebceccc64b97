//! Groups that are held open: a door for experiments that ask whether greedy is right. A pipeline
//! in use is [`Formation::Adaptive`], for which nothing here runs.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use crate::{
    Engine,
    cell::Entry,
    clock::Clock,
    formation::{GROUP_EXECUTE_NS_MAX, GROUP_TRANSACTIONS_MAX},
    sync::Condvar,
};

/// When a group is taken from the queue, and how much.
#[cfg_attr(
    not(feature = "experiments"),
    expect(dead_code, unreachable_pub, reason = "experiments alone hold groups open")
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Formation {
    /// Whatever waits, at once.
    #[default]
    Adaptive,
    /// So many, as soon as they wait, or what there is when the first has waited for `delay`. No
    /// other cap holds but that of bytes.
    Fixed {
        /// The size of a group.
        transactions: usize,
        /// How long a group is held open.
        delay: Duration,
    },
}

impl Formation {
    pub(crate) fn transactions_max(self) -> usize {
        match self {
            Self::Adaptive => GROUP_TRANSACTIONS_MAX,
            Self::Fixed { transactions, .. } => transactions.max(1),
        }
    }

    pub(crate) fn execute_ns_max(self) -> u64 {
        match self {
            Self::Adaptive => GROUP_EXECUTE_NS_MAX,
            Self::Fixed { .. } => u64::MAX,
        }
    }
}

/// What experiments set on the options of any engine.
#[cfg(feature = "experiments")]
pub trait Experiments: Sized {
    /// The settings of the pipeline to be.
    fn settings(&mut self) -> &mut crate::Settings;

    /// How groups are formed.
    #[must_use]
    fn formation(mut self, formation: Formation) -> Self {
        self.settings().formation = formation;
        self
    }

    /// Makes every flush take so much longer, as on a slower disk.
    #[must_use]
    fn flush_delay(mut self, delay: Duration) -> Self {
        self.settings().flush_delay = delay;
        self
    }
}

/// A fixed formation, and where the holder of the execute role waits for a group to be complete.
pub(crate) struct Hold {
    transactions: usize,
    delay_ns: u64,
    complete: Arc<Condvar>,
}

impl Hold {
    pub(crate) fn new(formation: Formation) -> Option<Self> {
        let Formation::Fixed { delay, .. } = formation else { return None };
        Some(Self {
            transactions: formation.transactions_max(),
            delay_ns: u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX),
            complete: Arc::new(Condvar::new()),
        })
    }

    /// Tells the one who waits of what has just been queued, if that ends the waiting.
    pub(crate) fn arrived<E: Engine>(&self, queue: &VecDeque<Entry<E>>) {
        if queue.len() >= self.transactions || queue.back().is_some_and(|e| !e.is_transaction()) {
            self.complete.notify_all();
        }
    }

    /// How long the group that `queue` would form is still held open, and where to wait. Barriers
    /// and exclusives do not wait for company.
    pub(crate) fn left<E: Engine>(
        &self,
        queue: &VecDeque<Entry<E>>,
        clock: &dyn Clock,
    ) -> Option<(Arc<Condvar>, Duration)> {
        let first = queue.front()?;
        if queue.len() >= self.transactions || queue.iter().any(|entry| !entry.is_transaction()) {
            return None;
        }
        let waited_ns = clock.now_ns().saturating_sub(first.submitted_ns);
        let left_ns = self.delay_ns.checked_sub(waited_ns).filter(|&left_ns| left_ns > 0)?;
        Some((self.complete.clone(), Duration::from_nanos(left_ns)))
    }
}
