"""Measures what the package promises, each figure beside what it is compared with.

    python bench/measure.py [--folder FOLDER] [--record FILE] [--repeats 5] [--only NAME ...] [--short]

Every database is new, in the same folder, and everything is durable. The two sides of a comparison
alternate; a figure is the median of its repeats, and each ratio is of the medians. Nothing else should
run meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import aiosqlite
import groupcommit

SCHEMA = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL, amount REAL)"
INSERT = "INSERT INTO t (name, amount) VALUES (?, ?)"
SELECT = "SELECT name, amount FROM t WHERE id = ?"
ROW = ("a name of usual length", 1.5)


@dataclass(frozen=True)
class Comparison:
    """One row of the table. Each side returns a number."""

    name: str
    what: str
    unit: str
    ours: Callable[[Path], float]
    theirs: Callable[[Path], float]
    at_least: float | None = None
    at_most: float | None = None

    def passes(self, ratio: float) -> bool:
        return ratio >= (self.at_least or 0) and ratio <= (self.at_most or float("inf"))


scale = 1.0


def times(count: int) -> int:
    return max(1, int(count * scale))


def sqlite(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, timeout=30)
    db.execute("PRAGMA journal_mode = wal")
    db.execute("PRAGMA synchronous = full")
    db.execute(SCHEMA.replace("TABLE", "TABLE IF NOT EXISTS"))
    return db


def rate(count: int, began: float) -> float:
    return count / (time.perf_counter() - began)


async def tasks(count: int, each: int, run: Callable[[], Awaitable[Any]]) -> float:
    """Calls a second, of `count` tasks that await `each` calls one after the other."""

    async def worker() -> None:
        for _ in range(each):
            await run()

    began = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(count)))
    return rate(count * each, began)


def our_tasks(path: Path) -> float:
    async def main() -> float:
        async with groupcommit.connect(path) as db:
            await db.execute(SCHEMA)
            return await tasks(1_000, times(50), lambda: db.execute(INSERT, ROW))

    return asyncio.run(main())


def aiosqlite_tasks(path: Path) -> float:
    async def main() -> float:
        sqlite(path).close()
        async with aiosqlite.connect(path, isolation_level=None) as db:
            await db.execute("PRAGMA synchronous = full")

            async def insert() -> None:
                async with db.execute(INSERT, ROW):
                    pass

            return await tasks(1_000, times(5), insert)

    return asyncio.run(main())


def bare_futures(path: Path) -> float:
    """Futures of a loop that another thread resolves, one call into the loop each."""
    del path

    async def main() -> float:
        loop = asyncio.get_running_loop()
        waiting: list[asyncio.Future[int]] = []
        wanted = threading.Semaphore(0)
        ended = False

        def resolve() -> None:
            taken = 0
            while True:
                wanted.acquire()
                if ended:
                    return
                loop.call_soon_threadsafe(waiting[taken].set_result, 1)
                waiting[taken] = None  # type: ignore[call-overload]
                taken += 1

        async def bare() -> None:
            future: asyncio.Future[int] = loop.create_future()
            waiting.append(future)
            wanted.release()
            await future

        thread = threading.Thread(target=resolve)
        thread.start()
        measured = await tasks(1_000, times(50), bare)
        ended = True
        wanted.release()
        thread.join()
        return measured

    return asyncio.run(main())


def our_many(path: Path) -> float:
    async def main() -> float:
        async with groupcommit.connect(path) as db:
            await db.execute(SCHEMA)
            many = [(INSERT, ROW)] * 1_000
            await db.submit_many(many)
            began = time.perf_counter()
            for _ in range(times(50)):
                await db.submit_many(many)
            return rate(1_000 * times(50), began)

    return asyncio.run(main())


def sqlite_many(path: Path) -> float:
    db = sqlite(path)
    many = [ROW] * 1_000

    def transact() -> None:
        db.execute("BEGIN IMMEDIATE")
        db.executemany(INSERT, many)
        db.execute("COMMIT")

    transact()
    began = time.perf_counter()
    for _ in range(times(50)):
        transact()
    measured = rate(1_000 * times(50), began)
    db.close()
    return measured


def p50_us(latencies_ns: list[int]) -> float:
    return statistics.median(latencies_ns) / 1e3


# So many that the logs of both sides are written over from then on. While a log grows, every flush also has to
# record its length.
WARM_UP = 5_000


def our_single(path: Path) -> float:
    async def main() -> float:
        async with groupcommit.connect(path) as db:
            await db.execute(SCHEMA)
            latencies = []
            for _ in range(times(2 * WARM_UP)):
                began = time.perf_counter_ns()
                await db.execute(INSERT, ROW)
                latencies.append(time.perf_counter_ns() - began)
            return p50_us(latencies[times(WARM_UP) :])

    return asyncio.run(main())


def sqlite_single(path: Path) -> float:
    db = sqlite(path)
    latencies = []
    for _ in range(times(2 * WARM_UP)):
        began = time.perf_counter_ns()
        db.execute(INSERT, ROW)
        latencies.append(time.perf_counter_ns() - began)
    db.close()
    return p50_us(latencies[times(WARM_UP) :])


def threads(run: Callable[[int], Callable[[], object]], each: int) -> float:
    """Calls a second of 25 threads; `run` makes what one of them calls."""
    ready = threading.Barrier(26)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            call = run(number)
            ready.wait()
            for _ in range(each):
                call()
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(25)]
    for worker in workers:
        worker.start()
    ready.wait()
    began = time.perf_counter()
    for worker in workers:
        worker.join()
    measured = rate(25 * each, began)
    if failures:
        print(f"  {len(failures)} threads failed: {failures[0]!r}", file=sys.stderr)
        raise failures[0]
    return measured


def our_threads(path: Path) -> float:
    with groupcommit.connect(path) as db:
        db.blocking.execute(SCHEMA)
        return threads(lambda _: lambda: db.blocking.execute(INSERT, ROW), times(1_000))


def sqlite_threads(path: Path) -> float:
    sqlite(path).close()

    def run(number: int) -> Callable[[], object]:
        del number
        db = sqlite(path)
        return lambda: db.execute(INSERT, ROW)

    return threads(run, times(100))


def filled(path: Path) -> sqlite3.Connection:
    db = sqlite(path)
    db.execute("BEGIN")
    db.executemany(INSERT, [ROW] * 10_000)
    db.execute("COMMIT")
    return db


def our_reads(path: Path) -> float:
    filled(path).close()
    with groupcommit.connect(path) as db:
        fetch_one = db.blocking.fetch_one
        count = times(50_000)
        began = time.perf_counter()
        for number in range(count):
            fetch_one(SELECT, (number * 7 % 10_000 + 1,))
        return rate(count, began)


def sqlite_reads(path: Path) -> float:
    db = filled(path)
    count = times(50_000)
    began = time.perf_counter()
    for number in range(count):
        db.execute(SELECT, (number * 7 % 10_000 + 1,)).fetchone()
    measured = rate(count, began)
    db.close()
    return measured


COMPARISONS = [
    Comparison("tasks", "1,000 asyncio tasks, against `aiosqlite`", "inserts/s", our_tasks, aiosqlite_tasks, 20),
    Comparison("futures", "the same, against bare futures, one wake-up each", "calls/s", our_tasks, bare_futures, 0.5),
    Comparison("many", "`submit_many` of 1,000, against `executemany`", "rows/s", our_many, sqlite_many, 0.8),
    Comparison("single", "one `await` at a time, p50, against `sqlite3`", "µs", our_single, sqlite_single, None, 1.5),
    Comparison("threads", "25 threads, against 25 `sqlite3` connections", "inserts/s", our_threads, sqlite_threads, 8),
    Comparison("reads", "reads of one row, against `sqlite3`", "reads/s", our_reads, sqlite_reads, 0.8),
]


def measured(side: Callable[[Path], float], folder: Path) -> float:
    with tempfile.TemporaryDirectory(dir=folder, prefix="groupcommit-bench-") as own:
        os.sync()
        return side(Path(own) / "app.db")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("."), help="where the databases are made")
    parser.add_argument("--record", type=Path, help="where the record is written")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=[each.name for each in COMPARISONS])
    parser.add_argument("--short", action="store_true", help="a tenth of the work: a hint, no figure")
    options = parser.parse_args()
    global scale
    scale = 0.1 if options.short else 1.0
    comparisons: list[dict[str, Any]] = []
    for each in COMPARISONS:
        if options.only and each.name not in options.only:
            continue
        ours: list[float] = []
        theirs: list[float] = []
        for repeat in range(options.repeats):
            sides = [(each.ours, ours), (each.theirs, theirs)]
            for side, values in sides if repeat % 2 == 0 else reversed(sides):
                values.append(measured(side, options.folder))
        median = statistics.median(ours), statistics.median(theirs)
        ratio = median[0] / median[1]
        bound = f"at most {each.at_most}" if each.at_most else f"at least {each.at_least}"
        verdict = "ok" if each.passes(ratio) else "MISSED"
        figures = f"{median[0]:,.0f} and {median[1]:,.0f} {each.unit}"
        print(f"{verdict:<7}{ratio:>8.2f} x  ({bound})  {each.what}: {figures}", flush=True)
        comparison = {"what": each.what, "unit": each.unit, "ours": ours, "theirs": theirs}
        bounds = {"at_least": each.at_least, "at_most": each.at_most}
        comparisons.append(comparison | {name: bound for name, bound in bounds.items() if bound})
    if options.record:
        versions = f"CPython {platform.python_version()}, SQLite {sqlite3.sqlite_version} in `sqlite3`"
        conditions = f"{versions}, aiosqlite {version('aiosqlite')}, {os.cpu_count()} cores"
        record = {"conditions": conditions, "repetitions": options.repeats, "comparisons": comparisons}
        options.record.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
