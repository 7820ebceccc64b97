"""What each call does, awaited on both event loops."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import suppress
from pathlib import Path

import groupcommit
import pytest

pytestmark = pytest.mark.anyio


async def test_a_statement_is_on_disk_when_it_returns(db: groupcommit.Database) -> None:
    result = await db.execute("INSERT INTO t (name) VALUES (?)", ("a",))
    assert (result.rowcount, result.lastrowid, result.rows) == (1, 1, [])
    assert result.outcome == "committed"
    returned = await db.execute("INSERT INTO t (name) VALUES ('b') RETURNING id, name")
    assert (returned.columns, returned.rows) == (("id", "name"), [(2, "b")])
    assert (await db.execute("UPDATE t SET name = name || '!'")).rowcount == 2


@pytest.mark.parametrize(
    "value", [None, 0, -(2**63), 2**63 - 1, 1.5, float("inf"), "", 'ü"\n\0x', b"", b"\x00\xff", True]
)
async def test_values_come_back_as_they_went(db: groupcommit.Database, value: object) -> None:
    (row,) = await db.fetch_all("SELECT ?", (value,))  # type: ignore[arg-type]
    assert row == (value,)
    assert type(row[0]) is type(int(value) if isinstance(value, bool) else value)
    assert await db.fetch_val("SELECT ?", [value]) == value  # type: ignore[list-item]


async def test_parameters_have_places_or_names(db: groupcommit.Database) -> None:
    assert await db.fetch_one("SELECT ?2, ?1", (1, 2)) == (2, 1)
    named: groupcommit.Params = {"a": bytearray(b"x"), "b": memoryview(b"y"), "c": 3, "unused": None}
    assert await db.fetch_one("SELECT :a, @b, $c", named) == (b"x", b"y", 3)
    assert await db.fetch_one("SELECT 1 AS one, 2 AS two", named=True) == {"one": 1, "two": 2}


@pytest.mark.parametrize(
    ("sql", "params", "error"),
    [
        ("SELECT ?", (), groupcommit.ProgrammingError),
        ("SELECT :a", {"b": 1}, groupcommit.ProgrammingError),
        ("SELECT ?", (object(),), groupcommit.ProgrammingError),
        ("SELECT ?", (2**63,), OverflowError),
        ("SELECT ?", ("\ud800",), UnicodeEncodeError),
        ("SELECT ?", "a", TypeError),
        (b"SELECT 1", (), TypeError),
        ("SELEC 1", (), groupcommit.OperationalError),
        ("SELECT * FROM missing", (), groupcommit.OperationalError),
        ("SELECT 1; SELECT 2", (), groupcommit.OperationalError),
        ("BEGIN", (), groupcommit.ProgrammingError),
        ("INSERT INTO t VALUES ('x', 'y')", (), groupcommit.DatabaseError),
    ],
)
async def test_mistakes_raise(
    db: groupcommit.Database, sql: str, params: object, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await db.execute(sql, params)  # type: ignore[arg-type]
    assert await db.fetch_val("SELECT count(*) FROM t") == 0


async def test_a_constraint_raises_what_sqlite3_raises(db: groupcommit.Database) -> None:
    await db.execute("INSERT INTO t (name) VALUES ('a')")
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE constraint failed: t.name") as raised:
        await db.execute("INSERT INTO t (name) VALUES ('a')")
    error = raised.value
    assert isinstance(error, groupcommit.IntegrityError)
    assert (error.outcome, error.kind, error.code) == ("rejected", "unique", "2067")


async def test_statements_are_all_or_none(db: groupcommit.Database) -> None:
    insert = "INSERT INTO t (name) VALUES (?)"
    results = await db.transact([(insert, ("a",)), "UPDATE t SET name = 'b'", ("SELECT * FROM t",)])
    assert [result.rows for result in results] == [[], [], [(1, "b")]]
    with pytest.raises(groupcommit.IntegrityError):
        await db.transact([(insert, ("c",)), (insert, ("c",))])
    assert await db.fetch_all("SELECT name FROM t") == [("b",)]
    assert await db.transact([]) == []


async def test_many_transactions_have_an_outcome_each(db: groupcommit.Database) -> None:
    insert = "INSERT INTO t (name) VALUES (?)"
    outcomes = await db.submit_many(
        [(insert, ("a",)), (insert, ("a",)), [(insert, ("b",)), "SELECT 1"], "SELECT 2"]
    )
    first, again, both, select = outcomes
    assert isinstance(first, groupcommit.Result) and first.lastrowid == 1
    assert isinstance(again, groupcommit.IntegrityError)
    assert isinstance(both, list) and both[1].rows == [(1,)]
    assert isinstance(select, groupcommit.Result) and select.rows == [(2,)]
    assert await db.submit_many([]) == []


async def test_a_function_is_a_transaction(db: groupcommit.Database) -> None:
    def move(tx: groupcommit.Transaction) -> int:
        tx.execute("INSERT INTO t (name) VALUES (:name)", {"name": "a"})
        assert tx.fetch_one("SELECT name FROM t", named=True) == {"name": "a"}
        with pytest.raises(groupcommit.IntegrityError):
            tx.execute("INSERT INTO t (name) VALUES ('a')")
        assert tx.fetch_all("SELECT id FROM t WHERE id = ?", (1,)) == [(1,)]
        return int(tx.fetch_val("SELECT count(*) FROM t"))

    assert await db.transact(move) == 1
    assert await asyncio.to_thread(db.blocking.transact, lambda tx: tx.fetch_val("SELECT 7")) == 7

    def fail(tx: groupcommit.Transaction) -> None:
        tx.execute("DELETE FROM t")
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await db.transact(fail)
    assert await db.fetch_val("SELECT count(*) FROM t") == 1

    leaked = await db.transact(lambda tx: tx)
    with pytest.raises(groupcommit.ProgrammingError, match="only by its function"):
        leaked.execute("DELETE FROM t")
    with pytest.raises(groupcommit.NotRun) as raised:
        await db.transact(lambda tx: db.blocking.execute("DELETE FROM t"))
    assert raised.value.reason == "reentrant"


async def test_a_token_takes_effect_once(db: groupcommit.Database) -> None:
    pay = [("INSERT INTO t (name) VALUES (?) RETURNING id", ("paid",))]
    assert await db.outcome_of("order 7") is None
    once = await db.transact_once("order 7", pay)
    again = await db.transact_once("order 7", pay)
    assert (once.repeated, again.repeated) == (False, True)
    assert once.results[0].rows == again.results[0].rows == [(1,)]
    kept = await db.outcome_of(b"order 7")
    assert kept is not None and kept[0].rows == [(1,)]
    with pytest.raises(groupcommit.DatabaseError, match="belongs to another transaction"):
        await db.transact_once("order 7", ["SELECT 1"])
    assert db.blocking.transact_once("order 8", ["SELECT 1"]).repeated is False
    assert db.blocking.outcome_of("order 9") is None


async def test_a_deadline_that_has_passed_keeps_a_transaction_from_running(
    db: groupcommit.Database,
) -> None:
    with pytest.raises(groupcommit.NotRun) as raised:
        await db.execute("INSERT INTO t (name) VALUES ('late')", deadline=0)
    assert (raised.value.outcome, raised.value.reason) == ("not_run", "deadline_passed")
    outcomes = await db.submit_many(["DELETE FROM t"], deadline=0)
    assert isinstance(outcomes[0], groupcommit.NotRun)
    with pytest.raises(ValueError, match="seconds"):
        await db.execute("SELECT 1", deadline=-1)
    assert await db.fetch_val("SELECT count(*) FROM t") == 0


async def test_reads(db: groupcommit.Database) -> None:
    numbers = "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n LIMIT 1000)"
    await db.execute(f"{numbers} INSERT INTO t SELECT i, i FROM n")
    query = "SELECT id FROM t ORDER BY id"
    expected = [(i,) for i in range(1, 1001)]
    assert await db.fetch_all(query) == expected
    assert await db.fetch_all(query, durable=True) == expected
    assert await db.fetch_one(query, durable=True) == (1,)
    assert await db.fetch_one("SELECT 1 WHERE 0") is None
    assert await db.fetch_val("SELECT 1 WHERE 0") is None
    assert [row async for row in db.iterate(query)] == expected
    async for row in db.iterate(query, named=True):
        assert row == {"id": 1}
        break
    assert list(db.blocking.iterate(query)) == expected
    assert next(db.blocking.iterate(query)) == (1,)
    assert db.blocking.fetch_all(query, durable=True) == expected
    with pytest.raises(groupcommit.OperationalError, match="readonly"):
        await db.fetch_all("DELETE FROM t RETURNING id")
    with pytest.raises(groupcommit.OperationalError):
        async for _ in db.iterate("SELECT * FROM missing"):
            pass


async def test_a_read_that_begins_a_transaction_keeps_no_snapshot(db: groupcommit.Database) -> None:
    for number in range(20):
        for statement in ("BEGIN", "SAVEPOINT a", "PRAGMA query_only = 1"):
            # Refused or not, it is gone afterwards.
            with suppress(groupcommit.OperationalError):
                await db.fetch_all(statement)
            with suppress(groupcommit.OperationalError):
                db.blocking.fetch_val(statement)
        await db.execute("INSERT INTO t (name) VALUES (?)", (str(number),))
        for _ in range(5):
            assert await db.fetch_val("SELECT count(*) FROM t") == number + 1
            assert db.blocking.fetch_all("SELECT count(*) FROM t") == [(number + 1,)]


async def test_futures_are_resolved_without_a_loop(db: groupcommit.Database) -> None:
    insert = "INSERT INTO t (name) VALUES (?)"
    inserted = [db.futures.execute(insert, (str(number),)) for number in range(100)]
    both = db.futures.transact(["SELECT 1", "SELECT 2"])
    called = db.futures.transact(lambda tx: tx.fetch_val("SELECT count(*) FROM t"))
    many = db.futures.submit_many([(insert, ("0",))])
    assert [future.result().lastrowid for future in inserted] == list(range(1, 101))
    assert [result.rows for result in both.result()] == [[(1,)], [(2,)]]
    assert called.result() == 100
    assert isinstance(many.result()[0], groupcommit.IntegrityError)
    assert isinstance(
        db.futures.execute(insert, ("0",)).exception(), groupcommit.IntegrityError
    )


async def test_exclusive_and_what_is_known_about_the_database(db: groupcommit.Database) -> None:
    await db.exclusive(["VACUUM"])
    await db.flush()
    db.blocking.flush()
    (result,) = db.blocking.exclusive(["PRAGMA user_version = 7"])
    assert await db.fetch_val("PRAGMA user_version") == 7
    stats = db.stats()
    assert stats.committed >= 1 and stats.flushes >= 1 and stats.flush_ns.count >= 1
    assert (db.engine, stats.unknown, stats.in_flight) == ("sqlite", 0, 0)


async def test_a_closed_database_refuses(path: Path) -> None:
    async with groupcommit.connect(path) as db:
        await db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
    for call in (db.execute("SELECT 1"), db.fetch_val("SELECT 1"), db.submit_many(["SELECT 1"])):
        with pytest.raises(groupcommit.NotRun) as raised:
            await call
        assert raised.value.reason == "closed"
    with pytest.raises(groupcommit.NotRun):
        db.blocking.execute("SELECT 1")
    await db.close()


async def test_everything_awaited_is_resolved_by_a_close(db: groupcommit.Database) -> None:
    insert = "INSERT INTO t (name) VALUES (?)"
    tasks = [asyncio.create_task(db.execute(insert, (str(n),))) for n in range(500)]
    await asyncio.sleep(0)  # each has submitted
    await db.close()
    assert [(await task).lastrowid for task in tasks] == list(range(1, 501))


async def test_more_than_admission_has_room_for(path: Path) -> None:
    async with groupcommit.connect(path, max_transactions=3) as db:
        await db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
        insert = "INSERT INTO t (name) VALUES (?)"
        calls = [db.execute(insert, (str(number),)) for number in range(300)]
        results = await asyncio.gather(*calls, db.submit_many([(insert, ("x",))] * 50))
        assert len(results) == 301
        assert await db.fetch_val("SELECT count(*) FROM t") == 350
