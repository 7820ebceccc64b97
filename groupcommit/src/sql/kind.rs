//! The kinds of errors, which are the same whichever database says so, and how each database's own
//! codes fall into them.

use std::fmt;

/// What went wrong, said in the same way for every database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A row with this key is there already.
    Unique,
    /// A row that is referred to is missing, or one that is referred to would be gone.
    ForeignKey,
    /// A column that needs a value has none.
    NotNull,
    /// A condition on the row does not hold.
    Check,
    /// A constraint of another sort is violated.
    Constraint,
    /// The database's own code refused it: `RAISE` in a trigger or function, `SIGNAL`.
    Raised,
    /// It cannot be serialized with others, or was in a deadlock: run again, it may well succeed.
    Conflict,
    /// Somebody held a lock for too long: run again later, it may succeed.
    Busy,
    /// It was stopped: a time limit of the database, or a request to cancel it.
    Interrupted,
    /// The statement is not valid here: it is misspelt, or names what does not exist.
    Statement,
    /// A value does not fit its column or its use.
    Value,
    /// The statement has another number of parameters.
    Parameters,
    /// A column that is returned has a type that [`Value`](super::Value) has no place for; cast it.
    Column,
    /// The statement is not one for a transaction that shares its commit; see
    /// [`exclusive`](super::Database::exclusive).
    Forbidden,
    /// A write where only reading is possible: in a read, or on a database that is read-only.
    ReadOnly,
    /// The account may not do this, or was not let in.
    Privilege,
    /// Something has run out: the disk's room, memory, connections.
    Resources,
    /// The database or its storage is damaged or fails.
    Storage,
    /// The connection was lost.
    Lost,
    /// The database is not there or could not be reached.
    Unreachable,
    /// As the database is set up, a commit would not be durable: it was not opened.
    Undurable,
    /// The URL cannot be understood, or names an engine that the program was built without.
    Url,
    /// None of these.
    Other,
}

impl Kind {
    /// Whether a constraint of the schema was violated, of whichever sort.
    #[must_use]
    pub fn is_constraint(self) -> bool {
        matches!(
            self,
            Self::Unique
                | Self::ForeignKey
                | Self::NotNull
                | Self::Check
                | Self::Constraint
                | Self::Raised
        )
    }

    /// Whether the same transaction may succeed when it is submitted again as it is.
    #[must_use]
    pub fn may_pass(self) -> bool {
        matches!(
            self,
            Self::Conflict
                | Self::Busy
                | Self::Interrupted
                | Self::Resources
                | Self::Lost
                | Self::Unreachable
        )
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unique => "a row with this key is there already",
            Self::ForeignKey => "a foreign key is not satisfied",
            Self::NotNull => "a column that needs a value has none",
            Self::Check => "a condition on the row does not hold",
            Self::Constraint => "a constraint is violated",
            Self::Raised => "the database's own code refused it",
            Self::Conflict => "it conflicts with another transaction; submit it again",
            Self::Busy => "a lock was held for too long; submit it again later",
            Self::Interrupted => "the statement was stopped before its end",
            Self::Statement => "the statement is not valid here",
            Self::Value => "a value does not fit",
            Self::Parameters => "the number of parameters is wrong",
            Self::Column => "a column has a type that no value has a place for; cast it",
            Self::Forbidden => "the statement may not share a commit with others",
            Self::ReadOnly => "only reading is possible here",
            Self::Privilege => "the account may not do this",
            Self::Resources => "the database has run out of room, memory or connections",
            Self::Storage => "the database or its storage is damaged or fails",
            Self::Lost => "the connection was lost",
            Self::Unreachable => "the database could not be reached",
            Self::Undurable => "a commit would not be durable as the database is set up",
            Self::Url => "the URL cannot be used",
            Self::Other => "the database refused it",
        })
    }
}

/// Of an extended result code of SQLite (<https://sqlite.org/rescode.html>), with its message.
#[cfg(feature = "sqlite")]
pub(super) fn of_sqlite(code: i32, message: &str) -> Kind {
    match code {
        2067 | 1555 | 2579 => return Kind::Unique, // _UNIQUE, _PRIMARYKEY, _ROWID
        787 => return Kind::ForeignKey,
        1299 => return Kind::NotNull,
        275 => return Kind::Check,
        1811 => return Kind::Raised,
        3091 => return Kind::Value,   // _DATATYPE: a STRICT table
        517 => return Kind::Conflict, // BUSY_SNAPSHOT
        _ => {}
    }
    match code & 0xff {
        // SQLite has one code for what it cannot prepare and for what fails as it runs.
        1 if message == "integer overflow" || message == "malformed JSON" => Kind::Value,
        1 => Kind::Statement,
        5 | 6 => Kind::Busy,       // BUSY, LOCKED
        7 | 13 => Kind::Resources, // NOMEM, FULL
        8 => Kind::ReadOnly,
        9 => Kind::Interrupted,
        10 | 11 | 26 => Kind::Storage, // IOERR, CORRUPT, NOTADB
        14 => Kind::Unreachable,       // CANTOPEN
        18 | 20 => Kind::Value,        // TOOBIG, MISMATCH
        19 => Kind::Constraint,
        23 => Kind::Forbidden,  // AUTH
        25 => Kind::Parameters, // RANGE
        _ => Kind::Other,
    }
}

/// Of an SQLSTATE as PostgreSQL uses them
/// (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).
#[cfg(feature = "postgres")]
pub(super) fn of_sqlstate(state: &str) -> Kind {
    match state {
        "23505" => Kind::Unique,
        "23503" => Kind::ForeignKey,
        "23502" => Kind::NotNull,
        "23514" => Kind::Check,
        "40001" | "40P01" => Kind::Conflict,
        "40002" => Kind::Constraint,
        "55P03" => Kind::Busy,
        "57014" => Kind::Interrupted,
        "25006" => Kind::ReadOnly,
        "42501" => Kind::Privilege,
        "P0001" => Kind::Raised,
        "57P01" | "57P02" | "57P03" | "57P05" => Kind::Lost,
        _ => match state.get(..2) {
            Some("08") => Kind::Lost,
            Some("22" | "54") => Kind::Value,
            Some("23") => Kind::Constraint,
            Some("28") => Kind::Privilege,
            Some("0A" | "26" | "3D" | "3F" | "42") => Kind::Statement,
            Some("53") => Kind::Resources,
            Some("58" | "XX" | "F0") => Kind::Storage,
            _ => Kind::Other,
        },
    }
}

/// Of a number of MySQL's and MariaDB's, with its SQLSTATE for those that are none of these
/// (<https://mariadb.com/kb/en/mariadb-error-code-reference/>).
#[cfg(feature = "mysql")]
pub(super) fn of_mysql(number: u16, state: &str) -> Kind {
    match number {
        1022 | 1062 | 1169 | 1586 | 1859 => Kind::Unique,
        1216 | 1217 | 1451 | 1452 => Kind::ForeignKey,
        1048 | 1364 => Kind::NotNull,
        3819 | 4025 => Kind::Check,
        1644 => Kind::Raised,
        1020 | 1213 | 1614 => Kind::Conflict,
        1205 | 3572 => Kind::Busy,
        1317 | 1969 | 3024 => Kind::Interrupted,
        1264..=1266 | 1292 | 1365..=1367 | 1406 | 1411 | 1690 => Kind::Value,
        1290 | 1792 | 1836 => Kind::ReadOnly,
        1044 | 1045 | 1142 | 1143 | 1227 | 1370 | 1698 => Kind::Privilege,
        1021 | 1037 | 1038 | 1040 | 1041 | 1114 | 1135 | 1203 | 1206 | 1226 | 1461 => {
            Kind::Resources
        }
        1030 | 1034 | 1194 | 1195 => Kind::Storage,
        // A node that is in no cluster now; a server that goes down.
        1047 | 1053 | 1077 | 1079 | 1158..=1161 | 1927 | 3169 | 4031 => Kind::Lost,
        _ => match state.get(..2) {
            Some("08") => Kind::Lost,
            Some("22") => Kind::Value,
            Some("23") => Kind::Constraint,
            Some("28") => Kind::Privilege,
            Some("0A" | "21" | "3D" | "42") => Kind::Statement,
            Some("40") => Kind::Conflict,
            Some("45") => Kind::Raised,
            _ => Kind::Other,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "sqlite")]
    #[test]
    fn sqlites_codes_fall_into_kinds() {
        for (code, message, kind) in [
            (2067, "UNIQUE constraint failed: t.id", Kind::Unique),
            (1555, "", Kind::Unique),
            (19, "", Kind::Constraint),
            (1043, "", Kind::Constraint),
            (5, "", Kind::Busy),
            (261, "", Kind::Busy), // BUSY_RECOVERY
            (517, "", Kind::Conflict),
            (1, "near \"SELEC\": syntax error", Kind::Statement),
            (1, "integer overflow", Kind::Value),
            (13, "", Kind::Resources),
            (778, "", Kind::Storage), // IOERR_WRITE
            (101, "", Kind::Other),
        ] {
            assert_eq!(of_sqlite(code, message), kind, "{code} {message}");
        }
    }

    #[cfg(feature = "mysql")]
    #[test]
    fn mysqls_numbers_fall_into_kinds() {
        for (number, state, kind) in [
            (1062, "23000", Kind::Unique),
            (1452, "23000", Kind::ForeignKey),
            (1048, "23000", Kind::NotNull),
            (4025, "23000", Kind::Check),
            (1213, "40001", Kind::Conflict),
            (1020, "HY000", Kind::Conflict), // what was read has changed since
            (1205, "HY000", Kind::Busy),
            (3572, "HY000", Kind::Busy), // NOWAIT
            (1461, "42000", Kind::Resources),
            (4031, "HY000", Kind::Lost),
            (1064, "42000", Kind::Statement),
            (1146, "42S02", Kind::Statement),
            (1045, "28000", Kind::Privilege),
            (1406, "22001", Kind::Value),
            (9999, "45000", Kind::Raised),
            (9999, "HY000", Kind::Other),
        ] {
            assert_eq!(of_mysql(number, state), kind, "{number}");
        }
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn states_fall_into_kinds() {
        for (state, kind) in [
            ("23505", Kind::Unique),
            ("23P01", Kind::Constraint),
            ("40P01", Kind::Conflict),
            ("42P01", Kind::Statement),
            ("42501", Kind::Privilege),
            ("22003", Kind::Value),
            ("53300", Kind::Resources),
            ("08006", Kind::Lost),
            ("28P01", Kind::Privilege),
            ("", Kind::Other),
            ("é", Kind::Other),
        ] {
            assert_eq!(of_sqlstate(state), kind, "{state}");
        }
    }

    #[test]
    fn what_may_pass_is_no_constraint() {
        for kind in [Kind::Unique, Kind::Raised, Kind::Conflict, Kind::Lost, Kind::Statement] {
            assert!(!(kind.is_constraint() && kind.may_pass()), "{kind:?}");
        }
        assert!(Kind::Conflict.may_pass() && Kind::ForeignKey.is_constraint());
    }
}
