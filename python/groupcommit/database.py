"""The database, for asyncio."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import warnings
import weakref
from collections.abc import AsyncIterator, Callable, Iterable
from types import TracebackType
from typing import Any, Literal, TypeVar, overload

from groupcommit import _native
from groupcommit.blocking import Blocking, Futures, token_bytes, transaction_job
from groupcommit.errors import build
from groupcommit.lanes import LoopLane
from groupcommit.types import (
    Once,
    Outcome,
    Params,
    Result,
    Statement,
    Stats,
    Transaction,
    TransactionLike,
)

T = TypeVar("T")


def connect(
    target: str | os.PathLike[str],
    *,
    create: bool = True,
    convert_to_wal: bool = False,
    busy_timeout: float | None = None,
    readers: int | None = None,
    max_transactions: int | None = None,
    max_bytes: int | None = None,
) -> Database:
    """Opens a database and blocks until it is open.

    ``target`` is the path of an SQLite file, or a URL: ``sqlite:app.db``, ``postgres://...``,
    ``mysql://...``. A URL has its options in itself.

    - ``create``: whether a missing file is created.
    - ``convert_to_wal``: whether a file in rollback-journal mode, which :mod:`sqlite3` creates, is
      converted to write-ahead logging. Every program that uses it then sees that.
    - ``busy_timeout``: seconds for which another process may keep the database locked.
    - ``readers``: connections that reads share.
    - ``max_transactions``, ``max_bytes``: transactions in flight at once. Beyond, calls wait.
    """
    native = _native.Database.open(
        os.fspath(target),
        create,
        convert_to_wal,
        busy_timeout,
        readers,
        max_transactions,
        max_bytes,
    )
    return Database(native)


class Database:
    """An open database; see :func:`connect`. Any number of tasks, event loops and threads share it.

    A call that writes returns when its transaction is on disk. Transactions that wait at the same
    moment share one commit and one flush; each has an outcome of its own. A transaction that is
    rejected raises :class:`~groupcommit.Error`, one that had no effect :class:`~groupcommit.NotRun`,
    and one of which that is not known :class:`~groupcommit.UnknownOutcome`.

    Cancelling a task that waits does not undo its transaction, which goes on: use ``deadline``, in
    seconds, to keep one from running late.
    """

    def __init__(self, native: _native.Database) -> None:
        self._native = native
        self._loops: dict[asyncio.AbstractEventLoop, LoopLane] = {}
        self._lock = threading.Lock()
        self._closed = False
        self.blocking = Blocking(native)
        """The same calls for threads, which block."""
        self.futures = Futures(native)
        """The same calls with :mod:`concurrent.futures`."""
        _open.add(self)

    # Writing

    async def execute(
        self, sql: str, params: Params = (), *, deadline: float | None = None
    ) -> Result:
        """Runs one statement as a transaction."""
        result: Result = await self._lane().start(self._native.execute(sql, params, deadline))
        return result

    @overload
    async def transact(
        self, transaction: Callable[[Transaction], T], *, deadline: float | None = None
    ) -> T: ...
    @overload
    async def transact(
        self, transaction: Iterable[Statement], *, deadline: float | None = None
    ) -> list[Result]: ...
    async def transact(
        self,
        transaction: Callable[[Transaction], Any] | Iterable[Statement],
        *,
        deadline: float | None = None,
    ) -> Any:
        """Runs statements as one transaction, all or none: ``[(sql, params), ...]``.

        Or runs a function of one argument, on another thread, and returns what it returns; SQLite
        only. That is the slower way: all other transactions wait for the function, and it waits for
        the GIL. It may be called again when a neighbour's failure undid it, so it must change
        nothing but the database. An exception in it rolls its transaction back.
        """
        return await self._lane().start(transaction_job(self._native, transaction, deadline))

    async def submit_many(
        self, transactions: Iterable[TransactionLike], *, deadline: float | None = None
    ) -> list[Outcome]:
        """Runs many transactions, each with an outcome of its own, which is returned, not raised.

        Each is one statement, or a list of statements. Its outcome is a :class:`Result`, a list of
        them, or an exception; all have the attribute ``outcome``, but for a list.
        """
        job = self._native.submit_many(transactions, deadline)
        outcomes: list[Outcome] = await self._lane().start(job)
        return outcomes

    async def transact_once(
        self, token: str | bytes, statements: Iterable[Statement], *, deadline: float | None = None
    ) -> Once:
        """Runs statements as a transaction that takes effect once, however often it is submitted
        under ``token``; SQLite only. Its token and its results are kept in the same commit, for a day.
        """
        job = self._native.once(token_bytes(token), statements, deadline)
        return Once(*await self._lane().start(job))

    async def outcome_of(self, token: str | bytes) -> list[Result] | None:
        """The results of the transaction with this token, or None: then it is not committed, and
        only submitting it again can change that.
        """
        job = self._native.outcome_of(token_bytes(token))
        results: list[Result] | None = await self._lane().start(job)
        return results

    async def exclusive(self, statements: Iterable[Statement]) -> list[Result]:
        """Runs statements alone, between groups, each committing by itself: ``VACUUM``, pragmas."""
        job = self._native.exclusive(statements)
        results: list[Result] = await asyncio.to_thread(job.run)
        return results

    async def flush(self) -> None:
        """Waits until everything submitted before is resolved."""
        await asyncio.to_thread(self._native.flush().run)

    # Reading

    @overload
    async def fetch_all(
        self, sql: str, params: Params = (), *, named: Literal[True], durable: bool = False
    ) -> list[dict[str, Any]]: ...
    @overload
    async def fetch_all(
        self, sql: str, params: Params = (), *, named: Literal[False] = False, durable: bool = False
    ) -> list[tuple[Any, ...]]: ...
    async def fetch_all(
        self, sql: str, params: Params = (), *, named: bool = False, durable: bool = False
    ) -> Any:
        """All rows of a query, in a snapshot of its own: as tuples, or ``named`` as dictionaries.

        It sees every transaction that was awaited before, and maybe some that are not on disk yet.
        With ``durable`` nothing that it returns can be lost any more.
        """
        return await self._fetch("all", sql, params, named, durable)

    @overload
    async def fetch_one(
        self, sql: str, params: Params = (), *, named: Literal[True], durable: bool = False
    ) -> dict[str, Any] | None: ...
    @overload
    async def fetch_one(
        self, sql: str, params: Params = (), *, named: Literal[False] = False, durable: bool = False
    ) -> tuple[Any, ...] | None: ...
    async def fetch_one(
        self, sql: str, params: Params = (), *, named: bool = False, durable: bool = False
    ) -> Any:
        """The first row of a query, or None; see :meth:`fetch_all`."""
        return await self._fetch("one", sql, params, named, durable)

    async def fetch_val(self, sql: str, params: Params = (), *, durable: bool = False) -> Any:
        """The first value of the first row of a query, or None; see :meth:`fetch_all`."""
        return await self._fetch("value", sql, params, False, durable)

    @overload
    def iterate(
        self, sql: str, params: Params = (), *, named: Literal[True]
    ) -> AsyncIterator[dict[str, Any]]: ...
    @overload
    def iterate(
        self, sql: str, params: Params = (), *, named: Literal[False] = False
    ) -> AsyncIterator[tuple[Any, ...]]: ...
    async def iterate(
        self, sql: str, params: Params = (), *, named: bool = False
    ) -> AsyncIterator[Any]:
        """The rows of a query as they arrive; it keeps a reading connection until it ends."""
        rows = self._native.rows(sql, params)
        try:
            while chunk := await self._lane().start(rows.next(named)):
                for row in chunk:
                    yield row
        finally:
            rows.close()

    # About the database

    @property
    def engine(self) -> str:
        """"sqlite", "postgres" or "mysql"."""
        return self._native.engine

    @property
    def warnings(self) -> list[str]:
        """Reasons to doubt what a flush promises where this database lies; usually none."""
        return self._native.warnings

    def stats(self) -> Stats:
        """What the database has done since it was opened."""
        return Stats.of(self._native.stats())

    # Ending

    async def close(self) -> None:
        """Refuses further calls, waits until everything submitted is resolved, and closes."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._closed = True
        _open.discard(self)
        try:
            self._native.close().run()
        finally:
            self._leave()

    def _leave(self) -> None:
        self.futures.resolve_all()
        with self._lock:
            lanes, self._loops = self._loops, {}
        for lane in lanes.values():
            lane.close_from_outside()

    async def __aenter__(self) -> Database:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=1, source=self)
            self._leave()

    # Where outcomes go

    def _lane(self) -> LoopLane:
        loop = asyncio.get_running_loop()
        lane = self._loops.get(loop)
        return lane if lane is not None else self._new_lane(loop)

    def _new_lane(self, loop: asyncio.AbstractEventLoop) -> LoopLane:
        with self._lock:
            if self._closed:
                raise build("not_run", "not run: the database is closed", None, None, "closed")
            for other in [other for other in self._loops if other.is_closed()]:
                del self._loops[other]
            lane = self._loops[loop] = LoopLane(loop)
        return lane

    async def _fetch(
        self,
        what: Literal["all", "one", "value"],
        sql: str,
        params: Params,
        named: bool,
        durable: bool,
    ) -> Any:
        job = self._native.fetch(what, sql, params, named, durable)
        if durable:
            return await asyncio.to_thread(job.run)
        return await self._lane().start(job)


_open: weakref.WeakSet[Database] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Drains what is in flight when the interpreter ends."""
    for database in list(_open):
        try:
            database._close()
        except Exception as error:  # nobody is there to catch it
            warnings.warn(f"{database!r} did not close cleanly: {error}", stacklevel=1)


def _after_fork() -> None:
    """Leaves what the parent has open to the parent."""
    _native.forked()
    for database in list(_open):
        database._closed = True
    _open.clear()


os.register_at_fork(after_in_child=_after_fork)
