"""PyPI's libsql-client: version 1 of the protocol over HTTP, version 2 over a WebSocket."""

import asyncio
import sys

import libsql_client

http = sys.argv[1]


async def use(url):
    async with libsql_client.create_client(url) as db:
        await db.batch(["DROP TABLE IF EXISTS t", "CREATE TABLE t (id INTEGER PRIMARY KEY, v UNIQUE)"])
        inserted = await db.execute("INSERT INTO t (v) VALUES (?)", ["a"])
        assert (inserted.rows_affected, inserted.last_insert_rowid) == (1, 1)
        for value in [None, 2**63 - 1, -(2**63), 1.5, "ü\"\n", b"\x00\xff\x07"]:
            assert (await db.execute("SELECT ?", [value])).rows[0][0] == value
        try:
            await db.execute("INSERT INTO t (v) VALUES ('a')")
            raise AssertionError("not refused")
        except libsql_client.LibsqlError as error:
            assert error.code == "SQLITE_CONSTRAINT", error.code
        await db.batch([("INSERT INTO t (v) VALUES (?)", ["b"]), "INSERT INTO t (v) VALUES ('c')"])
        try:
            await db.batch(["INSERT INTO t (v) VALUES ('d')", "INSERT INTO t (v) VALUES ('a')"])
            raise AssertionError("not refused")
        except libsql_client.LibsqlError:
            pass
        many = [db.execute("INSERT INTO t (v) VALUES (?)", [number]) for number in range(100)]
        await asyncio.gather(*many)
        assert (await db.execute("SELECT count(*) AS n FROM t")).rows[0]["n"] == 103
        if url.startswith("ws"):
            transaction = db.transaction()
            await transaction.execute("INSERT INTO t (v) VALUES ('e')")
            await transaction.rollback()
            assert (await db.execute("SELECT count(*) FROM t")).rows[0][0] == 103


asyncio.run(use(http))
asyncio.run(use(http.replace("http:", "ws:")))
