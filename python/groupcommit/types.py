"""What calls take and return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from groupcommit._native import Result, Transaction

__all__ = [
    "Once",
    "Outcome",
    "Param",
    "Params",
    "Result",
    "Statement",
    "Stats",
    "Summary",
    "Transaction",
    "TransactionLike",
]

Param: TypeAlias = "None | bool | int | float | str | bytes | bytearray | memoryview"
"""A parameter; rows have None, int, float, str and bytes."""

Params: TypeAlias = "Sequence[Param] | Mapping[str, Param]"
"""Parameters in turn, for ``?``; or by name, for ``:name`` (SQLite)."""

Statement: TypeAlias = "str | tuple[str] | tuple[str, Params]"
"""SQL, or SQL and its parameters."""

TransactionLike: TypeAlias = "Statement | Sequence[Statement]"
"""A transaction among many: one statement, or a list of them."""

Outcome: TypeAlias = "Result | list[Result] | Exception"
"""What one transaction among many came to; each has an ``outcome``."""


class Once(NamedTuple):
    """What a transaction with a token came to."""

    results: list[Result]
    """Its results, now or when it ran."""
    repeated: bool
    """It had been committed before, and was not run again."""


@dataclass(frozen=True)
class Summary:
    """A distribution; quantiles are exact to one percent."""

    count: int
    mean: float
    p50: int
    p90: int
    p99: int
    p999: int
    max: int


@dataclass(frozen=True)
class Stats:
    """What a database has done since it was opened."""

    committed: int
    """Transactions that are durable."""
    rejected: int
    """Transactions that were rolled back."""
    not_run: int
    """Transactions that were not run."""
    unknown: int
    """Transactions whose outcome is unknown."""
    commits: int
    """Commits of the database, each of a group of transactions."""
    flushes: int
    """Flushes, each of the groups that were committed before it."""
    reruns: int
    """Transactions that were run again because of a neighbour."""
    in_flight: int
    """Transactions admitted and not resolved now."""
    queued: int
    """Transactions admitted and not in a group now."""
    group_transactions: Summary
    """Transactions in a group."""
    queue_wait_ns: Summary
    """From submission to the start of the group."""
    execute_ns: Summary
    """Execution of a group, its commit included."""
    flush_ns: Summary
    """One flush."""
    total_ns: Summary
    """From submission to resolution."""

    @classmethod
    def of(cls, given: dict[str, Any]) -> Stats:
        """From what the native module counts."""
        summaries = [name for name in given if name.endswith("_ns") or name == "group_transactions"]
        counts: dict[str, Any] = given | {name: Summary(*given[name]) for name in summaries}
        return cls(**counts)
