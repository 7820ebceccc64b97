//! What the transactions write, so that afterwards it can be told from the database alone which of
//! them are there, whole or in part.
//!
//! Transaction `number` writes a row that says how many items it has, its items, the new head (its
//! own number), and moves an amount between two accounts. Everything follows from its number and
//! its size.

/// Accounts between which amounts are moved.
pub(crate) const ACCOUNTS: usize = 16;

/// A transaction to submit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Planned {
    /// Its place in the order of submission, from 1.
    pub(crate) number: u64,
    /// How many items it writes.
    pub(crate) items: u32,
    /// How long each is, in bytes.
    pub(crate) bytes: u32,
}

impl Planned {
    /// The content of item `index`.
    pub(crate) fn item(&self, index: u32) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(self.number << 16 | u64::from(index));
        let mut item = vec![0; self.bytes as usize];
        random.fill(&mut item);
        item
    }

    /// Which account gives, which takes, and how much.
    pub(crate) fn transfer(&self) -> (usize, usize, i64) {
        let mut random = fastrand::Rng::with_seed(!self.number);
        (random.usize(..ACCOUNTS), random.usize(..ACCOUNTS), random.i64(1..1_000))
    }
}

/// What a database was found to hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// The transactions whose own row is there.
    pub(crate) transactions: Vec<Planned>,
    /// Items that are there: number of the transaction, index, content.
    pub(crate) items: Vec<(u64, u32, Vec<u8>)>,
    /// The number that the last transaction wrote.
    pub(crate) head: u64,
    pub(crate) balances: [i64; ACCOUNTS],
    /// Rows of transactions that failed, of which nothing may be there.
    pub(crate) of_failed: u64,
}
