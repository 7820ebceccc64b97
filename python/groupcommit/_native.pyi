"""The native module; use :mod:`groupcommit`."""

from collections.abc import Callable
from typing import Any, Literal, final

__all__ = ["Database", "Job", "Lane", "Result", "Rows", "Transaction", "forked"]

@final
class Result:
    """What one statement of a committed transaction returned."""

    outcome: str
    """Always "committed"."""
    @property
    def rowcount(self) -> int:
        """Rows that the statement inserted, updated or deleted."""
    @property
    def lastrowid(self) -> int | None:
        """The number of the row inserted last, if one was."""
    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, for a statement that returns rows."""
    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The rows, as a new list of tuples."""

@final
class Transaction:
    """The transaction that a function runs in; usable until that returns, on its thread."""

    def execute(self, sql: str, params: Any = None, /) -> Result:
        """Runs one statement."""
    def fetch_all(self, sql: str, params: Any = None, /, *, named: bool = False) -> list[Any]:
        """All rows of a query."""
    def fetch_one(self, sql: str, params: Any = None, /, *, named: bool = False) -> Any:
        """The first row of a query, or None."""
    def fetch_val(self, sql: str, params: Any = None, /) -> Any:
        """The first value of the first row of a query, or None."""

@final
class Job:
    def run(self) -> Any:
        """Does it on this thread, without the GIL."""

@final
class Rows:
    def next(self, named: bool) -> Job:
        """The next rows; an empty list at the end."""
    def close(self) -> None: ...

@final
class Database:
    @staticmethod
    def open(
        target: str,
        create: bool,
        convert_to_wal: bool,
        busy_timeout: float | None,
        readers: int | None,
        max_transactions: int | None,
        max_bytes: int | None,
    ) -> Database: ...
    @property
    def engine(self) -> str:
        """"sqlite", "postgres" or "mysql"."""
    @property
    def warnings(self) -> list[str]: ...
    def execute(self, sql: str, params: Any, deadline: float | None) -> Job: ...
    def transact(self, statements: Any, deadline: float | None) -> Job: ...
    def submit_many(self, transactions: Any, deadline: float | None) -> Job: ...
    def call(self, function: Callable[[Transaction], Any], deadline: float | None) -> Job:
        """`function(tx)` as a transaction."""
    def fetch(
        self,
        what: Literal["all", "one", "value"],
        sql: str,
        params: Any,
        named: bool,
        durable: bool,
    ) -> Job: ...
    def rows(self, sql: str, params: Any) -> Rows: ...
    def once(self, token: bytes, statements: Any, deadline: float | None) -> Job: ...
    def outcome_of(self, token: bytes) -> Job: ...
    def exclusive(self, statements: Any) -> Job: ...
    def flush(self) -> Job: ...
    def close(self) -> Job: ...
    def stats(self) -> dict[str, Any]: ...

@final
class Lane:
    """The way between one database and one event loop, or one thread that resolves futures."""

    def __new__(cls) -> Lane: ...
    def fileno(self) -> int:
        """Readable when there is something to drain."""
    def start(self, job: Job, future: Any) -> None:
        """Starts a job; `future` gets what comes of it, from `drain`."""
    def drain(self) -> bool:
        """Resolves the futures of all work that is done; whether none is left."""
    def wait(self) -> bool:
        """Blocks until there is something to drain; `false` once the lane is stopped and idle."""
    def stop(self) -> None:
        """Ends `wait` once everything is drained."""

def forked() -> None:
    """Tells the package that this process is the child of a fork."""
