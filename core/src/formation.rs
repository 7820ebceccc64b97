//! The rule that forms a group: pure, without threads and without a clock.

/// The most transactions that one group carries.
pub const GROUP_TRANSACTIONS_MAX: usize = 1_024;

/// The most bytes that one group carries, unless its first transaction alone has more.
pub const GROUP_BYTES_MAX: usize = 16 << 20;

/// A group whose execution has taken this long takes no further members, so that the first never
/// waits long for the last: 4 ms.
pub const GROUP_EXECUTE_NS_MAX: u64 = 4_000_000;

/// How the rule sees one that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// A transaction of so many bytes.
    Transaction { bytes: usize },
    /// Must run alone, between groups.
    Exclusive,
    /// Carries nothing into the engine; only its place in the order matters.
    Barrier,
}

/// How many of those that wait, in submission order, form the next group of at most
/// `transactions_max`.
///
/// Greedy: everything, up to the caps, and never across an exclusive. Nothing is held open to wait
/// for more (see "group commit" in any of the systems that merge transactions: the leader takes
/// what is there).
pub(crate) fn form_group(
    waiting: impl IntoIterator<Item = Waiting>,
    transactions_max: usize,
) -> usize {
    let mut count = 0;
    let mut bytes_total = 0_usize;
    for next in waiting {
        match next {
            Waiting::Exclusive => return count.max(1),
            Waiting::Barrier => {}
            Waiting::Transaction { bytes } => {
                bytes_total = bytes_total.saturating_add(bytes);
                if count > 0 && bytes_total > GROUP_BYTES_MAX {
                    return count;
                }
            }
        }
        count += 1;
        if count == transactions_max {
            return count;
        }
    }
    count
}

/// Whether the next of those that wait may join a group of so many `bytes` that is being executed.
pub(crate) fn may_join(next: Waiting, bytes: usize) -> bool {
    match next {
        Waiting::Exclusive => false,
        Waiting::Barrier => true,
        Waiting::Transaction { bytes: own } => bytes.saturating_add(own) <= GROUP_BYTES_MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::{Waiting::*, *};

    fn form_group(waiting: impl IntoIterator<Item = Waiting>) -> usize {
        super::form_group(waiting, GROUP_TRANSACTIONS_MAX)
    }

    #[test]
    fn an_empty_queue_forms_no_group() {
        assert_eq!(form_group([]), 0);
    }

    #[test]
    fn everything_that_waits_goes_up_to_the_caps() {
        assert_eq!(form_group([Transaction { bytes: 8 }; 7]), 7);
        assert_eq!(form_group(vec![Transaction { bytes: 8 }; 5_000]), GROUP_TRANSACTIONS_MAX);
        let half = Transaction { bytes: GROUP_BYTES_MAX / 2 };
        assert_eq!(form_group([half; 3]), 2);
    }

    #[test]
    fn a_giant_goes_alone() {
        let giant = Transaction { bytes: usize::MAX };
        assert_eq!(form_group([giant, Transaction { bytes: 1 }]), 1);
        assert_eq!(form_group([Transaction { bytes: 1 }, giant]), 1);
    }

    #[test]
    fn an_exclusive_runs_alone_between_groups() {
        let one = Transaction { bytes: 1 };
        assert_eq!(form_group([Exclusive, one]), 1);
        assert_eq!(form_group([one, Barrier, Exclusive, one]), 2);
    }

    #[test]
    fn what_joins_keeps_to_the_same_caps() {
        assert!(!may_join(Exclusive, 0));
        assert!(may_join(Barrier, GROUP_BYTES_MAX));
        let one = Transaction { bytes: 1 };
        assert!(may_join(one, GROUP_BYTES_MAX - 1) && !may_join(one, GROUP_BYTES_MAX));
    }
}
