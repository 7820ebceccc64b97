"""Loops, threads and tasks together."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable

import groupcommit
import pytest
from groupcommit.lanes import LoopLane

INSERT = "INSERT INTO t VALUES (?, ?)"


@pytest.mark.anyio
async def test_a_group_wakes_the_loop_once(
    db: groupcommit.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    wakes = Counter[str]()
    wake: Callable[[LoopLane], None] = LoopLane.wake

    def counted(lane: LoopLane) -> None:
        wakes["wakes"] += 1
        wake(lane)

    monkeypatch.setattr(LoopLane, "wake", counted)

    async def worker(task: int) -> None:
        for number in range(10):
            await db.execute(INSERT, (task * 10 + number, f"{task} {number}"))

    before = db.stats()
    await asyncio.gather(*map(worker, range(1_000)))
    after = db.stats()
    assert after.committed - before.committed == 10_000
    assert wakes["wakes"] <= after.flushes - before.flushes
    assert wakes["wakes"] < 1_000


@pytest.mark.anyio
async def test_a_cancelled_task_neither_loses_nor_repeats(db: groupcommit.Database) -> None:
    chance = random.Random(7)
    tasks = {n: asyncio.create_task(db.execute(INSERT, (n, f"{n}"))) for n in range(1_000)}
    cancelled = set(chance.sample(sorted(tasks), 500))
    for number in sorted(cancelled):
        if number % 100 == 0:
            await asyncio.sleep(0)
        tasks[number].cancel()
    outcomes = await asyncio.gather(*tasks.values(), return_exceptions=True)
    for number, outcome in enumerate(outcomes):
        if number not in cancelled:
            assert isinstance(outcome, groupcommit.Result) and outcome.rowcount == 1
    await db.flush()
    kept = {row[0] for row in await db.fetch_all("SELECT id FROM t")}
    assert set(tasks) - cancelled <= kept <= set(tasks)
    # What was cancelled before it ran can be run again; what went on is there already.
    again = await db.submit_many([(INSERT, (number, f"{number}")) for number in sorted(cancelled)])
    assert all(
        isinstance(outcome, groupcommit.IntegrityError) == (number in kept)
        for number, outcome in zip(sorted(cancelled), again, strict=True)
    )
    assert await db.fetch_val("SELECT count(*) FROM t") == 1_000


def test_two_loops_and_a_hundred_threads(db: groupcommit.Database) -> None:
    failures: list[BaseException] = []

    def guarded(run: Callable[[], object]) -> None:
        try:
            run()
        except BaseException as error:
            failures.append(error)

    async def tasks(first: int) -> None:
        async def one(number: int) -> None:
            await db.execute(INSERT, (number, f"{number}"))
            assert await db.fetch_val("SELECT name FROM t WHERE id = ?", (number,)) == f"{number}"

        await asyncio.gather(*map(one, range(first, first + 500)))

    def thread(first: int) -> None:
        for number in range(first, first + 20):
            db.blocking.execute(INSERT, (number, f"{number}"))
            assert db.blocking.fetch_one("SELECT id FROM t WHERE id = ?", (number,)) == (number,)

    runs: list[Callable[[], object]] = [
        lambda: asyncio.run(tasks(0)),
        lambda: asyncio.run(tasks(500)),
        *(lambda first=first: thread(first) for first in range(1_000, 3_000, 20)),
    ]
    threads = [threading.Thread(target=guarded, args=(run,)) for run in runs]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []
    assert db.blocking.fetch_val("SELECT count(*) FROM t") == 3_000


def test_one_loop_after_another(db: groupcommit.Database) -> None:
    for number in range(20):
        asyncio.run(_insert(db, number))
    assert db.blocking.fetch_val("SELECT count(*) FROM t") == 20
    assert len(db._loops) <= 1, "lanes of closed loops are dropped"


async def _insert(db: groupcommit.Database, number: int) -> None:
    await db.execute(INSERT, (number, f"{number}"))


def test_a_loop_that_ends_leaves_its_transactions_to_the_database(db: groupcommit.Database) -> None:
    async def abandon() -> None:
        for number in range(100):
            asyncio.ensure_future(_insert(db, number))
        await asyncio.sleep(0)

    asyncio.run(abandon())
    db.blocking.flush()
    assert db.blocking.fetch_val("SELECT count(*) FROM t") == 100
