//! What a transaction's closure is given.

use std::ops::{Deref, DerefMut};

use heed::{MdbError, RwTxn};

use crate::{Operation, OperationResult, Table};

/// The transaction that a closure runs in: heed's own [`RwTxn`], by reference, which is not the
/// closure's to end. A [`heed::Database`] takes it wherever it takes a `&RoTxn` or a `&mut RwTxn`.
///
/// What a closure reads has to be copied out of it before the next write, as in LMDB itself.
pub struct Transaction<'g> {
    txn: RwTxn<'g>,
    /// The running member may have written.
    is_lent: bool,
    /// Some member may have.
    may_have_changed: bool,
    id: usize,
    main_table: Table,
    /// Where tokens are kept, if they are.
    pub(crate) token_table: Option<Table>,
}

impl std::fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}

impl<'g> Deref for Transaction<'g> {
    type Target = RwTxn<'g>;

    fn deref(&self) -> &RwTxn<'g> {
        &self.txn
    }
}

impl DerefMut for Transaction<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.is_lent = true;
        &mut self.txn
    }
}

impl<'g> Transaction<'g> {
    pub(crate) fn new(txn: RwTxn<'g>, main_table: Table, token_table: Option<Table>) -> Self {
        let id = txn.id();
        Self { txn, is_lent: false, may_have_changed: false, id, main_table, token_table }
    }

    /// The unnamed table of the environment.
    #[must_use]
    pub fn main_table(&self) -> Table {
        self.main_table
    }

    /// Heed's transaction, for the engine itself.
    pub(crate) fn txn_mut(&mut self) -> &mut RwTxn<'g> {
        &mut self.txn
    }

    pub(crate) fn into_txn(self) -> RwTxn<'g> {
        self.txn
    }

    /// Ends a member, and says whether it may have written.
    pub(crate) fn end_member(&mut self) -> bool {
        self.may_have_changed |= self.is_lent;
        std::mem::take(&mut self.is_lent)
    }

    /// A transaction that was nested in this one was kept.
    pub(crate) fn note_change(&mut self) {
        self.may_have_changed = true;
    }

    pub(crate) fn may_have_changed(&self) -> bool {
        self.may_have_changed
    }

    /// Whether this is still the transaction that the engine began: a closure has it by mutable
    /// reference, and could exchange it for one of another environment.
    pub(crate) fn is_own(&self) -> bool {
        self.txn.id() == self.id
    }

    /// Whether LMDB has given the transaction up after an operation that failed, for example for
    /// want of room: it then refuses even to read. (To nest another is not refused: what LMDB looks
    /// at there are three flags that all have to be set.)
    pub(crate) fn is_broken(&self) -> bool {
        let probed = self.main_table.get(&self.txn, b"\0");
        matches!(probed, Err(heed::Error::Mdb(MdbError::BadTxn)))
    }

    /// Runs plain data: each operation in turn.
    ///
    /// # Errors
    ///
    /// What LMDB says of the first operation that fails.
    pub fn run(&mut self, operations: &[Operation]) -> heed::Result<Vec<OperationResult>> {
        operations.iter().map(|operation| operation.run(self)).collect()
    }
}
