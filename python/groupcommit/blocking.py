"""The blocking twins, for threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, Literal, TypeVar, overload

from groupcommit import _native
from groupcommit.lanes import ThreadLane
from groupcommit.types import (
    Once,
    Outcome,
    Params,
    Result,
    Statement,
    Transaction,
    TransactionLike,
)

T = TypeVar("T")


class Blocking:
    """The calls of :class:`groupcommit.Database`, for any number of threads. Each blocks its thread,
    without the GIL, until its transaction is on disk.
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.Database) -> None:
        self._native = native

    def execute(
        self, sql: str, params: Params = (), *, deadline: float | None = None
    ) -> Result:
        """See :meth:`groupcommit.Database.execute`."""
        result: Result = self._native.execute(sql, params, deadline).run()
        return result

    @overload
    def transact(
        self, transaction: Callable[[Transaction], T], *, deadline: float | None = None
    ) -> T: ...
    @overload
    def transact(
        self, transaction: Iterable[Statement], *, deadline: float | None = None
    ) -> list[Result]: ...
    def transact(
        self,
        transaction: Callable[[Transaction], Any] | Iterable[Statement],
        *,
        deadline: float | None = None,
    ) -> Any:
        """See :meth:`groupcommit.Database.transact`."""
        return transaction_job(self._native, transaction, deadline).run()

    def submit_many(
        self, transactions: Iterable[TransactionLike], *, deadline: float | None = None
    ) -> list[Outcome]:
        """See :meth:`groupcommit.Database.submit_many`."""
        outcomes: list[Outcome] = self._native.submit_many(transactions, deadline).run()
        return outcomes

    def transact_once(
        self, token: str | bytes, statements: Iterable[Statement], *, deadline: float | None = None
    ) -> Once:
        """See :meth:`groupcommit.Database.transact_once`."""
        return Once(*self._native.once(token_bytes(token), statements, deadline).run())

    def outcome_of(self, token: str | bytes) -> list[Result] | None:
        """See :meth:`groupcommit.Database.outcome_of`."""
        results: list[Result] | None = self._native.outcome_of(token_bytes(token)).run()
        return results

    @overload
    def fetch_all(
        self, sql: str, params: Params = (), *, named: Literal[True], durable: bool = False
    ) -> list[dict[str, Any]]: ...
    @overload
    def fetch_all(
        self, sql: str, params: Params = (), *, named: Literal[False] = False, durable: bool = False
    ) -> list[tuple[Any, ...]]: ...
    def fetch_all(
        self, sql: str, params: Params = (), *, named: bool = False, durable: bool = False
    ) -> Any:
        """See :meth:`groupcommit.Database.fetch_all`."""
        return self._native.fetch("all", sql, params, named, durable).run()

    @overload
    def fetch_one(
        self, sql: str, params: Params = (), *, named: Literal[True], durable: bool = False
    ) -> dict[str, Any] | None: ...
    @overload
    def fetch_one(
        self, sql: str, params: Params = (), *, named: Literal[False] = False, durable: bool = False
    ) -> tuple[Any, ...] | None: ...
    def fetch_one(
        self, sql: str, params: Params = (), *, named: bool = False, durable: bool = False
    ) -> Any:
        """See :meth:`groupcommit.Database.fetch_one`."""
        return self._native.fetch("one", sql, params, named, durable).run()

    def fetch_val(self, sql: str, params: Params = (), *, durable: bool = False) -> Any:
        """See :meth:`groupcommit.Database.fetch_val`."""
        return self._native.fetch("value", sql, params, False, durable).run()

    @overload
    def iterate(
        self, sql: str, params: Params = (), *, named: Literal[True]
    ) -> Iterator[dict[str, Any]]: ...
    @overload
    def iterate(
        self, sql: str, params: Params = (), *, named: Literal[False] = False
    ) -> Iterator[tuple[Any, ...]]: ...
    def iterate(
        self, sql: str, params: Params = (), *, named: bool = False
    ) -> Iterator[Any]:
        """See :meth:`groupcommit.Database.iterate`."""
        rows = self._native.rows(sql, params)
        try:
            while chunk := rows.next(named).run():
                yield from chunk
        finally:
            rows.close()

    def exclusive(self, statements: Iterable[Statement]) -> list[Result]:
        """See :meth:`groupcommit.Database.exclusive`."""
        results: list[Result] = self._native.exclusive(statements).run()
        return results

    def flush(self) -> None:
        """See :meth:`groupcommit.Database.flush`."""
        self._native.flush().run()


class Futures:
    """Calls of :class:`groupcommit.Database` that return at once, with a
    :class:`concurrent.futures.Future` of what it would return.
    """

    __slots__ = ("_lane", "_lock", "_native")

    def __init__(self, native: _native.Database) -> None:
        self._native = native
        self._lane: ThreadLane | None = None
        self._lock = threading.Lock()

    def execute(
        self, sql: str, params: Params = (), *, deadline: float | None = None
    ) -> Future[Result]:
        """See :meth:`groupcommit.Database.execute`."""
        return self._start(self._native.execute(sql, params, deadline))

    @overload
    def transact(
        self, transaction: Callable[[Transaction], T], *, deadline: float | None = None
    ) -> Future[T]: ...
    @overload
    def transact(
        self, transaction: Iterable[Statement], *, deadline: float | None = None
    ) -> Future[list[Result]]: ...
    def transact(
        self,
        transaction: Callable[[Transaction], Any] | Iterable[Statement],
        *,
        deadline: float | None = None,
    ) -> Future[Any]:
        """See :meth:`groupcommit.Database.transact`."""
        return self._start(transaction_job(self._native, transaction, deadline))

    def submit_many(
        self, transactions: Iterable[TransactionLike], *, deadline: float | None = None
    ) -> Future[list[Outcome]]:
        """See :meth:`groupcommit.Database.submit_many`."""
        return self._start(self._native.submit_many(transactions, deadline))

    def _start(self, job: _native.Job) -> Future[Any]:
        with self._lock:
            if self._lane is None:
                self._lane = ThreadLane()
            return self._lane.submit(job)

    def resolve_all(self) -> None:
        """Waits until every future is resolved, which takes a closed database, and ends the thread."""
        with self._lock:
            lane, self._lane = self._lane, None
        if lane is not None:
            lane.close()


def transaction_job(
    native: _native.Database,
    transaction: Callable[[Transaction], Any] | Iterable[Statement],
    deadline: float | None,
) -> _native.Job:
    """The job of a transaction that is a function or a list of statements."""
    if callable(transaction):
        return native.call(transaction, deadline)
    return native.transact(transaction, deadline)


def token_bytes(token: str | bytes) -> bytes:
    """A token's name."""
    return token.encode() if isinstance(token, str) else bytes(token)
