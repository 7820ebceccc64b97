"""PyPI's libsql: a DB-API whose default is a transaction over several requests."""

import sys
from concurrent.futures import ThreadPoolExecutor

import libsql

url = sys.argv[1]


def connect(**options):
    return libsql.connect(url, auth_token="", **options)


def refused(run, reason):
    try:
        run()
    except ValueError as error:
        assert reason in str(error), error
        return
    raise AssertionError("not refused")


db = connect()
db.executescript("DROP TABLE IF EXISTS t; CREATE TABLE t (id INTEGER PRIMARY KEY, v UNIQUE)")


def count():
    return connect(isolation_level=None).execute("SELECT count(*) FROM t").fetchone()[0]


cursor = db.execute("INSERT INTO t (v) VALUES (?)", ("a",))
assert (cursor.rowcount, cursor.lastrowid) == (1, 1)
assert count() == 0, "nothing is committed yet"
db.commit()
assert count() == 1

for value in [None, 2**31 - 1, 1.5, "ü\"\n", b"\x00\xff\x07"]:
    assert db.execute("SELECT ?", (value,)).fetchone() == (value,)
# This package sends larger integers as floats, but reads them exactly.
assert db.execute("SELECT 9223372036854775807").fetchone() == (2**63 - 1,)

refused(lambda: db.execute("INSERT INTO t (v) VALUES ('a')"), "SQLITE_CONSTRAINT")
refused(lambda: db.execute("SELEC 1"), "syntax")
db.execute("INSERT INTO t (v) VALUES ('b')")
db.rollback()
assert count() == 1
db.executemany("INSERT INTO t (v) VALUES (?)", [("c",), ("d",)])
db.commit()
assert count() == 3

rows = db.execute(
    "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT i FROM n"
).fetchall()
assert len(rows) == 20000
db.commit()


def insert(number):
    own = connect(isolation_level=None)
    own.execute("INSERT INTO t (v) VALUES (?)", (number,))


with ThreadPoolExecutor(16) as threads:
    list(threads.map(insert, range(100)))
assert count() == 103
