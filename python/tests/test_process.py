"""Forks, exits and kills, in processes of their own."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import groupcommit
import pytest
from conftest import TABLE, Program

IS_LONG = "GROUPCOMMIT_LONG" in os.environ


def rows(path: Path) -> int:
    with groupcommit.connect(path, create=False) as db:
        return int(db.blocking.fetch_val("SELECT count(*) FROM t"))


def passed(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr and "Fatal" not in done.stderr, done.stderr
    return done.stdout


PROLOGUE = f"""
import asyncio, sys, threading, groupcommit
db = groupcommit.connect(sys.argv[1])
db.blocking.execute("{TABLE}")
insert = "INSERT INTO t VALUES (?, ?)"
"""

ENDINGS = {
    "futures": """
for number in range(2000):
    db.futures.execute(insert, (number, str(number)))
print("ended")
""",
    "loop": """
async def main():
    for number in range(2000):
        asyncio.ensure_future(db.execute(insert, (number, str(number))))
    await asyncio.sleep(0)
    print("ended")
    sys.exit(0)
asyncio.run(main())
""",
    "daemons": """
begun = threading.Semaphore(0)
def run(first):
    for number in range(first, first + 1000000):
        try:
            db.blocking.execute(insert, (number, str(number)))
        except groupcommit.NotRun:
            return
        begun.release()
for first in range(0, 20000000, 1000000):
    threading.Thread(target=run, args=(first,), daemon=True).start()
for _ in range(2000):
    begun.acquire()
print("ended")
""",
}


@pytest.mark.parametrize("way", ENDINGS)
def test_an_exit_finishes_what_is_in_flight(program: Program, path: Path, way: str) -> None:
    assert passed(program(PROLOGUE + ENDINGS[way])) == "ended\n"
    assert rows(path) >= 2000


def test_a_child_leaves_its_parents_database_alone(program: Program, path: Path) -> None:
    out = passed(
        program(
            f"""
            import os, sys, groupcommit, warnings
            warnings.simplefilter("ignore", DeprecationWarning)
            db = groupcommit.connect(sys.argv[1])
            db.blocking.execute("{TABLE}")
            insert = "INSERT INTO t VALUES (?, ?)"
            futures = [db.futures.execute(insert, (n, str(n))) for n in range(3000)]
            child = os.fork()
            if child == 0:
                try:
                    db.blocking.execute("DELETE FROM t")
                except groupcommit.NotRun as error:
                    assert "forked" in str(error), error
                else:
                    raise AssertionError("used in a child")
                try:
                    groupcommit.connect(sys.argv[1] + "2")
                except groupcommit.ProgrammingError as error:
                    assert "forked" in str(error)
                else:
                    raise AssertionError("opened in a child")
                db.__exit__(None, None, None)
                del db, futures
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
            assert all(future.result().rowcount == 1 for future in futures)
            db.blocking.execute(insert, (3000, "x"))
            print("passed")
            """
        )
    )
    assert out == "passed\n"
    assert rows(path) == 3001


def test_a_child_opens_what_its_parent_has_closed(program: Program, path: Path) -> None:
    out = passed(
        program(
            f"""
            import os, sys, groupcommit
            def work(first):
                with groupcommit.connect(sys.argv[1]) as db:
                    db.blocking.execute("{TABLE.replace("TABLE", "TABLE IF NOT EXISTS")}")
                    insert = "INSERT INTO t VALUES (?, ?)"
                    futures = [db.futures.execute(insert, (first + n, str(first + n))) for n in range(100)]
                    assert all(future.result().rowcount == 1 for future in futures)
            work(0)
            child = os.fork()
            if child == 0:
                work(100)
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
            work(200)
            print("passed")
            """
        )
    )
    assert out == "passed\n"
    assert rows(path) == 300


WRITER = """
import asyncio, os, sys, groupcommit

async def main():
    db = groupcommit.connect(sys.argv[1])
    await db.execute("CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, name TEXT UNIQUE)")
    first = await db.fetch_val("SELECT coalesce(max(id) + 1, 0) FROM t")
    numbers = iter(range(first, first + 10**9))

    async def worker():
        for number in numbers:
            await db.execute("INSERT INTO t VALUES (?, ?)", (number, str(number)))
            os.write(1, b"%d\\n" % number)

    await asyncio.gather(*(worker() for _ in range(200)))

asyncio.run(main())
"""


def test_every_acknowledged_transaction_survives_a_kill(path: Path) -> None:
    chance = random.Random()
    acknowledged: set[int] = set()
    for _ in range(50 if IS_LONG else 4):
        command = [sys.executable, "-c", WRITER, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            for line, _ in zip(writer.stdout, range(chance.randrange(1, 5_000)), strict=False):
                acknowledged.add(int(line))
            writer.send_signal(signal.SIGKILL)
            acknowledged.update(int(line) for line in writer.stdout if line.endswith(b"\n"))
        with groupcommit.connect(path, create=False) as db:
            there = {row[0] for row in db.blocking.fetch_all("SELECT id FROM t")}
        assert acknowledged <= there
    assert len(acknowledged) >= 4


LEAK = """
import gc, os, sys, groupcommit

def memory():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 10

def handles():
    return len(os.listdir("/proc/self/fd"))

def transact(count):
    import asyncio
    async def main():
        async with groupcommit.connect(sys.argv[1]) as db:
            await db.execute("CREATE TABLE IF NOT EXISTS one (id INTEGER PRIMARY KEY, n)")
            update = "INSERT INTO one VALUES (1, :n) ON CONFLICT DO UPDATE SET n = :n RETURNING n"
            async def worker(task):
                for number in range(count // 1000):
                    result = await db.execute(update, {"n": number})
                    assert result.rows == [(number,)]
                    try:
                        await db.execute("INSERT INTO one VALUES (1, 0)")
                    except groupcommit.IntegrityError:
                        pass
            await asyncio.gather(*map(worker, range(1000)))
            await db.submit_many([(update, {"n": 1})] * 1000)
            await db.fetch_all("SELECT * FROM one")
    asyncio.run(main())

def open_and_close(count):
    for _ in range(count):
        with groupcommit.connect(sys.argv[1]) as db:
            db.futures.execute("SELECT 1").result()
            db.blocking.fetch_val("SELECT 1")
            for row in db.blocking.iterate("SELECT 1"):
                pass

work, count = {"transact": transact, "open": open_and_close}[sys.argv[2]], int(sys.argv[3])
work(count // 4)
before, open_before = memory(), handles()
work(count)
print(memory() - before, handles() - open_before)
"""


@pytest.mark.parametrize(
    ("work", "count"),
    [("transact", 10_000_000 if IS_LONG else 40_000), ("open", 1_000 if IS_LONG else 200)],
)
def test_memory_is_flat(path: Path, work: str, count: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEAK, str(path), work, str(count)], capture_output=True, text=True
    )
    kib, handles = map(int, passed(done).split())
    # Less than a byte for each transaction, or half a page for each time it was opened.
    assert kib < 8_192, f"{kib} KiB more after {count}"
    # A reading thread may still be about to close its connection.
    assert handles < 10


def test_another_sqlite_on_the_same_file_is_found_out(path: Path) -> None:
    other = sqlite3.connect(path)
    other.execute("PRAGMA journal_mode = wal")
    other.execute(TABLE)
    with pytest.raises(groupcommit.ProgrammingError, match="another copy of SQLite"):
        groupcommit.connect(path)
    other.close()
    with groupcommit.connect(path) as db, groupcommit.connect(path) as again:
        db.blocking.execute("INSERT INTO t VALUES (1, 'a')")
        assert again.blocking.fetch_val("SELECT name FROM t") == "a"


def test_a_database_in_rollback_mode_is_converted_when_asked(path: Path) -> None:
    other = sqlite3.connect(path)
    other.execute(TABLE)
    other.close()
    with pytest.raises(groupcommit.OperationalError, match="convert_to_wal"):
        groupcommit.connect(path)
    groupcommit.connect(path, convert_to_wal=True).__exit__(None, None, None)


def test_what_cannot_be_opened_says_why(tmp_path: Path) -> None:
    for target, said in [
        (":memory:", "path of a file"),
        (str(tmp_path / "missing" / "app.db"), "does not exist"),
        ("oracle://host/db", "none of"),
        ("postgres://nobody:secret@127.0.0.1:1/none", "."),
    ]:
        with pytest.raises(groupcommit.Error, match=said) as raised:
            groupcommit.connect(target)
        assert "secret" not in str(raised.value)
    with pytest.raises(groupcommit.OperationalError, match="no database"):
        groupcommit.connect(tmp_path / "app.db", create=False)


def test_a_database_that_is_not_closed_warns(path: Path) -> None:
    with pytest.warns(ResourceWarning, match="unclosed"):
        db = groupcommit.connect(path)
        db.blocking.execute("SELECT 1")
        del db


def test_the_package_shows_what_it_does(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "groupcommit", str(tmp_path)], capture_output=True, text=True
    )
    assert "tasks at once" in passed(done)
    assert list(tmp_path.iterdir()) == []
