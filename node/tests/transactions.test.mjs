// Transactions, their results, and the four outcomes.
import assert from "node:assert/strict";
import { closeSync, openSync } from "node:fs";
import { test } from "node:test";
import { join } from "node:path";
import { Database, GroupcommitError, NotRunError, SqlError, open } from "groupcommit";
import { folderFor, openFor } from "./open.mjs";

const TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL)";

test("a statement returns its rows and counts", async (t) => {
  const db = await openFor(t);
  assert.deepEqual(await db.execute(TABLE), { columns: [], rows: [], rowsAffected: 0, lastInsertRowid: null });
  const inserted = await db.execute("INSERT INTO t (name) VALUES (?), (?) RETURNING id, name", ["a", "b"]);
  assert.deepEqual(inserted, {
    columns: ["id", "name"], rows: [{ id: 1, name: "a" }, { id: 2, name: "b" }], rowsAffected: 2, lastInsertRowid: 2,
  });
  assert.equal((await db.execute("DELETE FROM t")).rowsAffected, 2);
});

test("a transaction is all or nothing, in each form of its statements", async (t) => {
  const db = await openFor(t);
  const results = await db.transact([TABLE, ["INSERT INTO t VALUES (?, ?)", [1, "a"]], { sql: "INSERT INTO t VALUES (:id, :n)", args: { id: 2, n: "b" } }, "SELECT count(*) AS n FROM t"]);
  assert.deepEqual(results.map((result) => result.rowsAffected), [0, 1, 1, 0]);
  assert.deepEqual(results[3].rows, [{ n: 2 }]);
  await assert.rejects(db.transact(["INSERT INTO t VALUES (3, 'c')", "INSERT INTO t VALUES (1, 'd')"]), SqlError);
  assert.deepEqual(await db.all("SELECT id FROM t"), [{ id: 1 }, { id: 2 }]);
  assert.deepEqual(await db.transact([]), []);
});

test("many transactions have an outcome each", async (t) => {
  const db = await openFor(t);
  await db.execute(TABLE);
  const insert = (id) => [["INSERT INTO t VALUES (?, ?)", [id, `n${id}`]]];
  const outcomes = await db.submitMany([insert(1), insert(1), insert(2), [["SELEC"]]]);
  assert.deepEqual(outcomes.map((outcome) => outcome.status), ["fulfilled", "rejected", "fulfilled", "rejected"]);
  assert.equal(outcomes[0].value[0].lastInsertRowid, 1);
  assert.equal(outcomes[1].reason.code, "SQLITE_CONSTRAINT_PRIMARYKEY");
  assert.deepEqual(await db.submitMany(function* () {}()), []);
});

test("errors say what the database said", async (t) => {
  const db = await openFor(t);
  await db.execute(TABLE);
  await db.execute("INSERT INTO t VALUES (1, 'a')");
  const said = (code, kind, message) => (error) => {
    assert.ok(error instanceof SqlError && error instanceof GroupcommitError && error instanceof Error);
    assert.deepEqual([error.name, error.outcome, error.code, error.kind], ["SqlError", "rejected", code, kind]);
    assert.match(error.message, message);
    return true;
  };
  const rejected = [
    ["INSERT INTO t VALUES (2, 'a')", "SQLITE_CONSTRAINT_UNIQUE", "unique", /UNIQUE constraint failed: t\.name/],
    ["INSERT INTO t VALUES (2, NULL)", "SQLITE_CONSTRAINT_NOTNULL", "not_null", /NOT NULL constraint failed: t\.name/],
    ["SELEC 1", "SQLITE_ERROR", "statement", /syntax error/],
    ["SELECT * FROM nowhere", "SQLITE_ERROR", "statement", /no such table: nowhere/],
  ];
  for (const [sql, ...expected] of rejected) await assert.rejects(db.execute(sql), said(...expected));
  assert.throws(() => db.getSync("SELECT * FROM nowhere"), said("SQLITE_ERROR", "statement", /no such table/));
  await assert.rejects(db.all("SELECT * FROM nowhere"), said("SQLITE_ERROR", "statement", /no such table/));
  await assert.rejects(db.all("DELETE FROM t"), said("SQLITE_READONLY", "read_only", /readonly/));
  await assert.rejects(db.get("SELECT ?"), (error) => error instanceof SqlError && error.kind === "parameters");
  await assert.rejects(db.exclusive(["VACUUM", "SELEC"]), said("SQLITE_ERROR", "statement", /syntax error/));
  await assert.rejects(open(join(folderFor(t), "missing", "app.db")), SqlError);
  await assert.rejects(open("oracle://a@b/c"), (error) => error.kind === "url");
});

test("a deadline that has passed", async (t) => {
  const db = await openFor(t);
  await db.execute(TABLE);
  const late = db.execute("INSERT INTO t VALUES (1, 'a')", [], { deadline: 0 });
  const early = db.execute("INSERT INTO t VALUES (2, 'b')", [], { deadline: 600_000 });
  await assert.rejects(late, (error) => error instanceof NotRunError && error.code === "DEADLINE_PASSED");
  assert.equal((await early).rowsAffected, 1);
  for (const deadline of [-1, NaN, "soon"]) await assert.rejects(db.execute("SELECT 1", [], { deadline }), RangeError);
});

test("an abort withdraws what is queued, and ends a read", async (t) => {
  const db = await openFor(t);
  await db.execute(TABLE);
  const control = new AbortController();
  const { signal } = control;
  // It keeps the database busy, so that what is behind it is queued.
  const busy = db.execute("INSERT INTO t SELECT value, value FROM (WITH RECURSIVE n (value) AS (VALUES (1) UNION ALL SELECT value + 1 FROM n WHERE value < 200000) SELECT value FROM n)");
  const queued = db.execute("INSERT INTO t VALUES (-1, 'queued')", [], { signal });
  const endless = db.get("WITH RECURSIVE n (v) AS (VALUES (1) UNION ALL SELECT v + 1 FROM n) SELECT count(*) FROM n", [], { signal });
  const reason = new Error("no longer wanted");
  control.abort(reason);
  const late = db.execute("SELECT 1", [], { signal });
  for (const { reason: rejection } of await Promise.allSettled([queued, endless, late])) assert.equal(rejection, reason);
  assert.equal((await busy).rowsAffected, 200_000);
  assert.equal(await db.get("SELECT 1 FROM t WHERE id = -1"), undefined);
});

test("a token runs its transaction once", async (t) => {
  const db = await openFor(t);
  await db.execute(TABLE);
  const insert = () => db.execute("INSERT INTO t (name) VALUES (?) RETURNING id", ["a"], { token: "order-1" });
  const first = await insert();
  assert.deepEqual([first.rows, first.isRepeated], [[{ id: 1 }], false]);
  assert.deepEqual(await insert(), { ...first, isRepeated: true });
  assert.deepEqual(await db.all("SELECT name FROM t"), [{ name: "a" }]);
  await assert.rejects(db.execute("DELETE FROM t", [], { token: "order-1" }), SqlError);

  const { committedAt, results } = await db.outcomeOf("order-1");
  assert.ok(Math.abs(committedAt - Date.now()) < 3_600_000);
  assert.deepEqual(results[0].rows, [{ id: 1 }]);
  assert.equal(await db.outcomeOf(Buffer.from("order-2")), null);
  await assert.rejects(db.outcomeOf(7), TypeError);
});

test("a closed database refuses, and what was submitted before is finished", async (t) => {
  const db = await openFor(t);
  await db.execute(TABLE);
  const inserts = Array.from({ length: 100 }, (_, i) => db.execute("INSERT INTO t VALUES (?, ?)", [i, `n${i}`]));
  const closed = db.close();
  assert.equal((await Promise.all(inserts)).length, 100);
  await closed;
  await db.close();
  const refused = (error) => error instanceof NotRunError && error.code === "CLOSED";
  await assert.rejects(db.execute("SELECT 1"), refused);
  await assert.rejects(db.get("SELECT 1"), refused);
  assert.throws(() => db.getSync("SELECT 1"), refused);
  assert.throws(() => new Database(), TypeError);
});

test("`await using` closes", async (t) => {
  const path = join(folderFor(t), "app.db");
  const db = await open(path);
  await db[Symbol.asyncDispose]();
  await assert.rejects(db.execute("SELECT 1"), NotRunError);
  await (await open(path, { create: false })).close();
});

test("a file that other code of the process has open is refused", async (t) => {
  const path = join(folderFor(t), "app.db");
  await (await open(path)).close();
  const descriptor = openSync(path);
  await assert.rejects(open(path), (error) => error instanceof SqlError && /another copy of SQLite/.test(error.message));
  closeSync(descriptor);
  await (await open(path)).close();
});

test("exclusive runs outside of transactions", async (t) => {
  const db = await openFor(t);
  const [, journal] = await db.exclusive(["VACUUM", "PRAGMA journal_mode"]);
  assert.deepEqual(journal.rows, [{ journal_mode: "wal" }]);
});

test("rows are read a piece at a time, and a read can be left", async (t) => {
  const db = await openFor(t, { readers: 2 });
  const count = "WITH RECURSIVE n (v) AS (VALUES (1) UNION ALL SELECT v + 1 FROM n WHERE v < ?) SELECT v FROM n";
  let sum = 0;
  for await (const { v } of db.iterate(count, [10_000])) sum += v;
  assert.equal(sum, 50_005_000);
  for (let i = 0; i < 20; i += 1) {
    for await (const { v } of db.iterate(count, [1e9])) {
      if (v === 3) break;
    }
  }
  for await (const row of db.iterate("SELECT 1 WHERE 0")) assert.fail(row);
  await assert.rejects(async () => {
    for await (const row of db.iterate("SELEC")) assert.fail(row);
  }, SqlError);
});

test("more in flight than is admitted waits", async (t) => {
  const db = await openFor(t, { maxTransactions: 10 });
  await db.execute(TABLE);
  const inserts = Array.from({ length: 1_000 }, (_, i) => db.execute("INSERT INTO t VALUES (?, ?)", [i + 1, `n${i}`]));
  const results = await Promise.all(inserts);
  assert.deepEqual(results.map((result) => result.lastInsertRowid), inserts.map((_, i) => i + 1));
  assert.ok(db.stats().inFlight <= 10);
});

test("one wake-up of the event loop for all that shared a flush", async (t) => {
  const db = await openFor(t);
  await db.execute(TABLE);
  await db.flush();
  const before = db.stats();
  let turns = 0;
  let isCounted = false;
  const inserts = Array.from({ length: 5_000 }, async (_, i) => {
    await db.execute("INSERT INTO t VALUES (?, ?)", [i, `n${i}`]);
    if (isCounted) return;
    isCounted = true;
    turns += 1;
    setImmediate(() => (isCounted = false));
  });
  await Promise.all(inserts);
  const flushes = db.stats().flushes - before.flushes;
  assert.ok(turns <= flushes, `${turns} turns for ${flushes} flushes`);
  assert.ok(flushes < 500, `${flushes} flushes`);
});

test("what the database says of itself", async (t) => {
  const db = await openFor(t);
  await db.execute(TABLE);
  assert.equal(db.engine, "sqlite");
  assert.ok(Array.isArray(db.warnings));
  const stats = db.stats();
  assert.equal(stats.committed, 1);
  assert.ok(stats.flushes >= 1 && stats.totalMs.count === 1 && stats.totalMs.max > 0);
});
