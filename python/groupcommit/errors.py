"""Exceptions: the hierarchy of :mod:`sqlite3`, and one class for each outcome of a transaction.

Each class is also the class of the same name in :mod:`sqlite3`, so ``except sqlite3.IntegrityError``
catches what it did before.

======================  ===========  =====================================================
exception               ``outcome``  what to do
======================  ===========  =====================================================
:class:`NotRun`         not_run      submit again: it had no effect and never will
:class:`UnknownOutcome` unknown      connect again and look, or use a token
any other               rejected     mend the transaction: it was rolled back
======================  ===========  =====================================================
"""

from __future__ import annotations

import sqlite3

__all__ = [
    "DataError",
    "DatabaseError",
    "Error",
    "IntegrityError",
    "InternalError",
    "NotRun",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "UnknownOutcome",
]


class Error(sqlite3.Error):
    """The base of all of them."""

    outcome: str = "rejected"
    """"rejected", "not_run" or "unknown"."""
    kind: str | None = None
    """The sort of error, the same for every database: "unique", "foreign_key", "busy"."""
    code: str | None = None
    """The database's own code: SQLite's extended result code, an SQLSTATE, MySQL's number."""


class DatabaseError(Error, sqlite3.DatabaseError):
    """The database refused it."""


class DataError(DatabaseError, sqlite3.DataError):
    """A value does not fit."""


class IntegrityError(DatabaseError, sqlite3.IntegrityError):
    """A constraint is violated."""


class InternalError(DatabaseError, sqlite3.InternalError):
    """A defect of the package itself."""


class NotSupportedError(DatabaseError, sqlite3.NotSupportedError):
    """This database does not do that."""


class OperationalError(DatabaseError, sqlite3.OperationalError):
    """The database could not do it: a statement that is not valid here, a lock, a full disk."""


class ProgrammingError(DatabaseError, sqlite3.ProgrammingError):
    """A mistake in the program: the wrong number of parameters, a statement that is not allowed."""


class NotRun(OperationalError):
    """The transaction had no effect and never will: it is safe to submit it again."""

    outcome = "not_run"
    reason: str = "unavailable"
    """"closed", "overloaded", "cancelled", "deadline_passed", "reentrant", "busy", "failed" or
    "unavailable"."""


class UnknownOutcome(OperationalError):
    """The commit, or its flush, could not be confirmed; the database has to be connected again."""

    outcome = "unknown"


_CLASSES: dict[str | None, type[Error]] = {
    **dict.fromkeys(
        ["unique", "foreign_key", "not_null", "check", "constraint", "raised"], IntegrityError
    ),
    **dict.fromkeys(["parameters", "forbidden", "url"], ProgrammingError),
    **dict.fromkeys(["storage", "other"], DatabaseError),
    "value": DataError,
    None: DatabaseError,
}


def build(
    outcome: str, message: str, kind: str | None, code: str | None, reason: str | None
) -> Error:
    """The exception for what the native module says."""
    error: Error
    if outcome == "not_run":
        error = NotRun(message)
        error.reason = reason or error.reason
    elif outcome == "unknown":
        error = UnknownOutcome(message)
    else:
        error = _CLASSES.get(kind, OperationalError)(message)
    error.kind = kind
    error.code = code
    return error
