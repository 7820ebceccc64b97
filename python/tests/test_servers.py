"""The same class on a server, where there is one."""

from __future__ import annotations

import asyncio
import os

import groupcommit
import pytest

SERVERS = [
    pytest.param(
        os.environ.get(f"GROUPCOMMIT_{name}", ""),
        marks=pytest.mark.skipif(f"GROUPCOMMIT_{name}" not in os.environ, reason="no server"),
        id=name.lower(),
    )
    for name in ("POSTGRES", "MYSQL")
]


@pytest.mark.anyio
@pytest.mark.parametrize("url", SERVERS)
async def test_a_server_by_its_url(url: str) -> None:
    async with groupcommit.connect(url) as db:
        one, two = ("$1", "$2") if db.engine == "postgres" else ("?", "?")
        insert = f"INSERT INTO python VALUES ({one}, {two})"
        await db.exclusive(["DROP TABLE IF EXISTS python"])
        await db.exclusive(["CREATE TABLE python (id BIGINT PRIMARY KEY, name VARCHAR(20))"])
        assert (await db.execute(insert, (0, None))).rowcount == 1
        await asyncio.gather(*(db.execute(insert, (n, str(n))) for n in range(1, 200)))
        await db.transact([(insert, (200, "a")), (insert, (201, "b"))])
        many = await db.submit_many([(insert, (201, "again")), (insert, (202, "c"))])
        assert isinstance(many[0], groupcommit.IntegrityError) and many[0].kind == "unique"
        assert isinstance(many[1], groupcommit.Result)
        with pytest.raises(groupcommit.OperationalError):
            await db.execute("SELEC 1")
        with pytest.raises(groupcommit.ProgrammingError):
            await db.execute(insert, {"id": 1, "name": "b"})
        with pytest.raises(groupcommit.NotSupportedError):
            await db.transact(lambda tx: tx.execute("SELECT 1"))
        with pytest.raises(groupcommit.NotRun):
            await db.transact_once("token", [(insert, (300, "d"))])
        assert db.blocking.execute(insert, (203, "e")).rowcount == 1
        assert db.futures.execute(insert, (204, "f")).result().rowcount == 1
        query = "SELECT id, name FROM python ORDER BY id"
        rows = await db.fetch_all(query)
        assert rows == [row async for row in db.iterate(query)] == list(db.blocking.iterate(query))
        assert (rows[0], len(rows)) == ((0, None), 205)
        assert await db.fetch_one(query, named=True) == {"id": 0, "name": None}
        assert await db.fetch_val("SELECT count(*) FROM python", durable=True) == 205
        await db.exclusive(["DROP TABLE python"])
