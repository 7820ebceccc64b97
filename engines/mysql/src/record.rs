//! The engine's own record of what was committed: a row that each group writes in its transaction.
//!
//! ```text
//!   groupcommit_outcome        the group's last words          whoever asks later
//!   pipeline  position state   DELETE (p, < n)                 INSERT (p, n, void)
//!   p         0        open    INSERT (p, n, committed)          succeeds: the group never commits
//!   p         n        ...     COMMIT                            is there: the state says it
//! ```
//!
//! Both insert the same key, so only one of them ever succeeds, on one server as in a cluster that
//! certifies: who asks does not have to know whether the old connection is still being served. The
//! group's row is sent with its `COMMIT`, in one text, of which the server runs nothing after what
//! fails.
//!
//! The row at position 0 stays for as long as the pipeline is open. It tells whether this is the
//! table that the group wrote to, and is what a barrier writes.

use std::fmt;

use crate::literal;

/// The name of the table.
pub(crate) const TABLE: &str = "groupcommit_outcome";

/// One pipeline: a random number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pipeline([u8; 16]);

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.literal())
    }
}

/// One attempt to commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) pipeline: Pipeline,
    pub(crate) position: u64,
}

/// A commit that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit(
    /// `None` where nothing is recorded.
    pub(crate) Option<Key>,
);

impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a transaction")
    }
}

pub(crate) const CREATE: &str = "CREATE TABLE IF NOT EXISTS groupcommit_outcome (\
     pipeline BINARY(16) NOT NULL, position BIGINT UNSIGNED NOT NULL, \
     state VARCHAR(9) CHARACTER SET ascii NOT NULL, asked BIGINT UNSIGNED NOT NULL DEFAULT 0, \
     PRIMARY KEY (pipeline, position)) ENGINE=InnoDB";

/// Of some rows. The table is so small that the server would look through all of it, and lock the
/// rows of other pipelines; only this form of the statement takes a hint.
const DELETE: &str = "DELETE old FROM groupcommit_outcome AS old FORCE INDEX (PRIMARY) WHERE";

/// Fails where the table is not there, or may not be written.
pub(crate) fn look() -> String {
    format!("{DELETE} old.pipeline = x'00000000000000000000000000000000'")
}

impl Pipeline {
    pub(crate) fn new() -> Self {
        Self(uuid::Uuid::new_v4().into_bytes())
    }

    fn literal(self) -> String {
        let mut text = Vec::new();
        literal::hexadecimal(&self.0, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Writes the row that stays, if it is not there; ends the transaction.
    pub(crate) fn open(self) -> String {
        format!(
            "INSERT INTO {TABLE} (pipeline, position, state) VALUES ({}, 0, 'open') \
             ON DUPLICATE KEY UPDATE asked = asked + 1\n;COMMIT",
            self.literal()
        )
    }

    /// Removes the pipeline's rows; ends the transaction.
    pub(crate) fn close(self) -> String {
        format!("{DELETE} old.pipeline = {}\n;COMMIT", self.literal())
    }
}

impl Key {
    /// The last words of a group, before its `COMMIT`; the pipeline's rows at `previous` are needed no
    /// more.
    pub(crate) fn commit(self, previous: &[u64]) -> String {
        let (pipeline, position) = (self.pipeline.literal(), self.position);
        let insert = format!(
            "INSERT INTO {TABLE} (pipeline, position, state) \
             VALUES ({pipeline}, {position}, 'committed')\n;"
        );
        if previous.is_empty() {
            return insert;
        }
        let previous: Vec<String> = previous.iter().map(ToString::to_string).collect();
        let previous = previous.join(", ");
        format!("{DELETE} old.pipeline = {pipeline} AND old.position IN ({previous})\n;{insert}")
    }

    /// Asks, behind the group's `COMMIT`, whether its row is there.
    pub(crate) fn look(self) -> String {
        let (pipeline, position) = (self.pipeline.literal(), self.position);
        format!(
            "\n;SELECT 1 FROM {TABLE} WHERE pipeline = {pipeline} AND position = {position}\n;COMMIT"
        )
    }

    /// Keeps the group from being committed from now on, unless it is; and asks which. Its commit
    /// is durable when that has returned, and everything with it that was committed before.
    pub(crate) fn ask(self) -> String {
        let (pipeline, position) = (self.pipeline.literal(), self.position);
        format!(
            "START TRANSACTION\n;INSERT INTO {TABLE} (pipeline, position, state) \
             VALUES ({pipeline}, {position}, 'void') \
             ON DUPLICATE KEY UPDATE asked = asked + 1\n;\
             SELECT state FROM {TABLE} FORCE INDEX (PRIMARY) WHERE pipeline = {pipeline} \
             AND position IN (0, {position}) ORDER BY position FOR UPDATE\n;COMMIT"
        )
    }
}
