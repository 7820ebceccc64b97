// Values on their way to the database and back.
import assert from "node:assert/strict";
import { test } from "node:test";
import { openFor } from "./open.mjs";

const READS = ["get", "getSync", "all", "allSync", "readDurable", "execute", "iterate"];

/** The first row of a query, read in one of the ways there are. */
async function first(db, how, sql, args) {
  if (how === "iterate") {
    for await (const row of db.iterate(sql, args)) return row;
  }
  const read = await db[how](sql, args);
  return how === "execute" ? read.rows[0] : how.startsWith("get") ? read : read[0];
}

test("values come back as they were, whichever way they are read", async (t) => {
  const db = await openFor(t);
  const values = [
    null, 0, 1, -1, 1.5, -0.25, 1e300, Infinity, -Infinity, 2 ** 53 - 1, 1 - 2 ** 53,
    "", "text", "ü€😀\0behind", Buffer.alloc(0), Buffer.from([0, 255, 7]),
    2n ** 63n - 1n, -(2n ** 63n), 2n ** 53n,
  ];
  for (const value of values) {
    for (const how of READS) {
      assert.deepEqual(await first(db, how, "SELECT ? AS v", [value]), { v: value }, `${how}: ${String(value)}`);
    }
  }
});

test("integers are numbers where those are exact, and bigints on request", async (t) => {
  const db = await openFor(t);
  const row = await db.get("SELECT 7 AS small, 9007199254740993 AS large, typeof(?) AS kind, typeof(?) AS other", [7, 7.5]);
  assert.deepEqual(row, { small: 7, large: 9007199254740993n, kind: "integer", other: "real" });

  const exact = await openFor(t, { integers: "bigint" });
  assert.deepEqual(exact.getSync("SELECT 7 AS v, 0.5 AS w"), { v: 7n, w: 0.5 });
  await exact.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)");
  const { rowsAffected, lastInsertRowid } = await exact.execute("INSERT INTO t VALUES (?)", [2n ** 62n]);
  assert.deepEqual([rowsAffected, lastInsertRowid], [1, 2n ** 62n]);
  assert.equal((await exact.execute("INSERT INTO t VALUES (5)")).lastInsertRowid, 5n);
});

test("booleans, negative zero and views of bytes", async (t) => {
  const db = await openFor(t);
  const bytes = new Uint8Array([1, 2, 3, 4]);
  const row = await db.get("SELECT ? AS a, ? AS b, hex(?) AS c, hex(?) AS d, typeof(?) AS e", [true, false, bytes.subarray(1, 3), bytes.buffer, -0]);
  assert.deepEqual(Object.values(row), [1, 0, "0203", "01020304", "real"]);
});

test("what is no value is refused before anything is sent", async (t) => {
  const db = await openFor(t);
  await db.execute("CREATE TABLE t (v)");
  for (const value of [undefined, {}, [], Symbol("s"), () => 1, new Date()]) {
    await assert.rejects(db.execute("INSERT INTO t VALUES (?)", [value]), TypeError);
    await assert.rejects(db.get("SELECT ?", [value]), TypeError);
    assert.throws(() => db.getSync("SELECT ?", [value]), TypeError);
  }
  await assert.rejects(db.execute("INSERT INTO t VALUES (?)", [2n ** 63n]), RangeError);
  await assert.rejects(db.execute("INSERT INTO t VALUES (?)", "text"), TypeError);
  await assert.rejects(db.transact([7]), TypeError);
  // Its neighbours of the same turn are sent.
  const [good, bad, other] = await Promise.allSettled([
    db.execute("INSERT INTO t VALUES (1)"), db.execute("INSERT INTO t VALUES (?)", [undefined]), db.execute("INSERT INTO t VALUES (2)"),
  ]);
  assert.deepEqual([good.status, bad.status, other.status], ["fulfilled", "rejected", "fulfilled"]);
  assert.deepEqual(await db.all("SELECT v FROM t ORDER BY v"), [{ v: 1 }, { v: 2 }]);
});

test("arguments are taken at the call, so a program may use them again at once", async (t) => {
  const db = await openFor(t);
  await db.execute("CREATE TABLE t (n, b)");
  const args = [0, new Uint8Array(1)];
  const inserts = [];
  for (let i = 0; i < 5; i += 1) {
    args[0] = i;
    args[1][0] = i;
    inserts.push(db.execute("INSERT INTO t VALUES (?, ?)", args));
  }
  await Promise.all(inserts);
  const rows = await db.all("SELECT n, b FROM t ORDER BY n");
  assert.deepEqual(rows, [0, 1, 2, 3, 4].map((n) => ({ n, b: Buffer.from([n]) })));
});

test("parameters by name", async (t) => {
  const db = await openFor(t);
  const sql = "SELECT :a AS a, @b AS b, $c AS c, :a AS again";
  const row = { a: 1, b: "two", c: null, again: 1 };
  assert.deepEqual(db.getSync(sql, { a: 1, b: "two", c: null }), row);
  assert.deepEqual(await db.get(sql, { ":a": 1, "@b": "two", $c: null }), row);
  assert.deepEqual((await db.execute(sql, { a: 1, b: "two", c: null })).rows, [row]);
  await assert.rejects(db.get(sql, { a: 1, b: 2 }), /c/);
});

test("rows with columns of any name, of one name, and after a change of the schema", async (t) => {
  const db = await openFor(t);
  assert.deepEqual(await db.get('SELECT 1 AS "a b", 2 AS "__proto__", 3 AS "x\u2028""y"'), Object.fromEntries([["a b", 1], ["__proto__", 2], ['x\u2028"y', 3]]));
  assert.deepEqual(db.allSync("SELECT 1 AS v, 2 AS v"), [{ v: 2 }]);
  await db.execute("CREATE TABLE t (a)");
  await db.execute("INSERT INTO t VALUES (1)");
  assert.deepEqual(db.getSync("SELECT * FROM t"), { a: 1 });
  await db.execute("ALTER TABLE t ADD COLUMN b DEFAULT 2");
  assert.deepEqual(db.getSync("SELECT * FROM t"), { a: 1, b: 2 });
  assert.deepEqual(await db.get("SELECT * FROM t"), { a: 1, b: 2 });
});

test("more texts of statements than are remembered", async (t) => {
  const db = await openFor(t);
  await db.execute("CREATE TABLE t (v INTEGER PRIMARY KEY)");
  const inserts = Array.from({ length: 2_500 }, (_, i) => db.execute(`INSERT INTO t VALUES (${i + 1})`));
  const results = await Promise.all(inserts);
  assert.deepEqual(results.map((result) => result.lastInsertRowid), inserts.map((_, i) => i + 1));
  for (let i = 1; i <= 2_500; i += 1) assert.deepEqual(db.getSync(`SELECT v FROM t WHERE v = ${i}`), { v: i });
});
