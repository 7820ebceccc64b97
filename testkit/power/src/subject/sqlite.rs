//! SQLite as the harness drives it.

use std::path::Path;

use anyhow::{Result, ensure};
use groupcommit_core::{Failure, Rejected};
use groupcommit_sqlite::{
    Database, OnceError, Token, Transaction,
    rusqlite::{self, ErrorCode},
};

use super::{Came, Failing, Subject, Waiting};
use crate::plan::{ACCOUNTS, Found, Planned};

/// The database's file.
const FILE: &str = "app.db";

#[derive(Debug, Clone)]
pub(crate) struct Sqlite(Database);

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS head (id INTEGER PRIMARY KEY, number INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS tx
        (number INTEGER PRIMARY KEY, items INTEGER NOT NULL, bytes INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS item
        (number INTEGER NOT NULL, i INTEGER NOT NULL, value BLOB NOT NULL,
         PRIMARY KEY (i, number)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS of_failed (note TEXT);
    INSERT OR IGNORE INTO head VALUES (1, 0);";

fn apply(tx: &mut Transaction<'_>, planned: Planned) -> rusqlite::Result<()> {
    let number = planned.number.cast_signed();
    tx.execute("INSERT INTO tx VALUES (?1, ?2, ?3)", (number, planned.items, planned.bytes))?;
    for index in 0..planned.items {
        tx.execute("INSERT INTO item VALUES (?1, ?2, ?3)", (number, index, planned.item(index)))?;
    }
    let (from, to, amount) = planned.transfer();
    for (account, amount) in [(from, -amount), (to, amount)] {
        tx.execute(
            "INSERT INTO account VALUES (?1, ?2)
             ON CONFLICT DO UPDATE SET balance = balance + excluded.balance",
            (account.cast_signed() as i64, amount),
        )?;
    }
    tx.execute("UPDATE head SET number = ?1", [number])?;
    Ok(())
}

/// Every second transaction leaves a token.
fn token(planned: Planned) -> Option<Token> {
    let fingerprint = [planned.items.to_le_bytes(), planned.bytes.to_le_bytes()].concat();
    let leaves_one = planned.number.is_multiple_of(2);
    leaves_one.then(|| Token::new(planned.number.to_le_bytes(), fingerprint))
}

/// Whether its token was there already.
type Applied = Result<bool, OnceError<rusqlite::Error>>;

fn came(result: &Result<bool, Failure<OnceError<rusqlite::Error>>>) -> Came {
    let contradicts = match result {
        Err(Failure::Rejected(Rejected::Caller(OnceError::Reused))) => true,
        Err(Failure::Rejected(Rejected::Caller(OnceError::Caller(error)))) => {
            error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
        }
        _ => false,
    };
    Came { is_repeated: matches!(result, Ok(true)), contradicts, ..Came::of(result) }
}

impl Sqlite {
    fn transaction(
        &self,
        planned: Planned,
    ) -> impl FnMut(&mut Transaction<'_>) -> Applied + Send + 'static {
        let result = planned.number.to_le_bytes();
        let mut once = token(planned).map(|token| {
            self.0.once(token, move |tx| apply(tx, planned).map(|()| result.to_vec()))
        });
        move |tx| match &mut once {
            Some(once) => {
                let once = once(tx)?;
                // Another's result would be of no use to the caller.
                if once.result == result { Ok(once.is_repeated) } else { Err(OnceError::Reused) }
            }
            None => apply(tx, planned).map(|()| false).map_err(OnceError::Caller),
        }
    }
}

fn fail(tx: &mut Transaction<'_>, failing: Failing) -> rusqlite::Result<()> {
    tx.execute("INSERT INTO of_failed VALUES ('written before it failed')", ())?;
    tx.execute("UPDATE head SET number = -1", ())?;
    match failing {
        Failing::Error => Err(rusqlite::Error::QueryReturnedNoRows),
        Failing::Panic => panic!("a transaction that panics on purpose"),
    }
}

impl Subject for Sqlite {
    const FILES: &'static [(&'static str, &'static str)] =
        &[("-wal", "log"), (".db", "database, in a checkpoint")];
    const OUTLIVES_FULL_DISKS: bool = true;
    const IS_MAPPED: bool = false;

    fn open(folder: &Path) -> Result<Self> {
        let database = Database::open(folder.join(FILE))?;
        database
            .exclusive(|connection| connection.execute_batch(&format!("BEGIN; {SCHEMA} COMMIT")))?;
        Ok(Self(database))
    }

    fn submit(&self, planned: Planned) -> Waiting {
        let ticket = self.0.submit(self.transaction(planned));
        Box::new(move || came(&ticket.wait()))
    }

    fn submit_then(&self, planned: Planned, then: Box<dyn FnOnce(Came) + Send>) {
        self.0.submit_then(self.transaction(planned), move |result| then(came(&result)));
    }

    fn transact(&self, planned: Planned) -> Came {
        came(&self.0.transact(self.transaction(planned)))
    }

    fn submit_again(&self, planned: Planned) -> Option<Waiting> {
        token(planned).is_some().then(|| self.submit(planned))
    }

    fn submit_failing(&self, failing: Failing) -> Waiting {
        let ticket = self.0.submit(move |tx| fail(tx, failing));
        Box::new(move || Came::of(&ticket.wait()))
    }

    fn read_durable(&self) -> Option<u64> {
        let read = self.0.read_durable(|connection| {
            connection.query_row("SELECT number FROM head", (), |row| row.get::<_, i64>(0))
        });
        read.ok().map(i64::cast_unsigned)
    }

    fn tidy(&self, choice: u64) {
        use rusqlite::wal::CheckpointMode;
        // It may come to nothing, where the disk has just failed: that shows elsewhere.
        let _done = self.0.exclusive(move |connection| match choice % 4 {
            0 => connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", (), |_| Ok(())),
            1 => connection.query_row("PRAGMA wal_checkpoint(FULL)", (), |_| Ok(())),
            2 => connection.wal_checkpoint_v2(Some("main"), CheckpointMode::RESTART).map(drop),
            _ => connection.wal_checkpoint_v2(Some("main"), CheckpointMode::TRUNCATE).map(drop),
        });
    }

    fn close(&self) -> Result<()> {
        Ok(self.0.close()?)
    }

    fn look(&self) -> Result<Found> {
        let found = self.0.read(look)?;
        Ok(found)
    }

    fn check_integrity(&self) -> Result<()> {
        let said: String = self.0.read(|connection| {
            connection.query_row("PRAGMA integrity_check", (), |row| row.get(0))
        })?;
        ensure!(said == "ok", "integrity_check: {said}");
        Ok(())
    }
}

fn look(connection: &rusqlite::Connection) -> rusqlite::Result<Found> {
    let mut found = Found::default();
    let mut select = connection.prepare("SELECT number, items, bytes FROM tx ORDER BY number")?;
    let rows = select.query_map((), |row| {
        let number = row.get::<_, i64>(0)?.cast_unsigned();
        Ok(Planned { number, items: row.get(1)?, bytes: row.get(2)? })
    })?;
    found.transactions = rows.collect::<rusqlite::Result<_>>()?;
    let mut select = connection.prepare("SELECT number, i, value FROM item")?;
    let rows = select.query_map((), |row| {
        Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?, row.get(2)?))
    })?;
    found.items = rows.collect::<rusqlite::Result<_>>()?;
    let head: i64 = connection.query_row("SELECT number FROM head", (), |row| row.get(0))?;
    found.head = head.cast_unsigned();
    let mut select = connection.prepare("SELECT id, balance FROM account")?;
    let rows = select.query_map((), |row| Ok((row.get::<_, u32>(0)?, row.get(1)?)))?;
    for row in rows {
        let (account, balance) = row?;
        found.balances[account as usize % ACCOUNTS] = balance;
    }
    let of_failed: i64 =
        connection.query_row("SELECT count(*) FROM of_failed", (), |row| row.get(0))?;
    found.of_failed = of_failed.cast_unsigned();
    Ok(found)
}
