// @tursodatabase/serverless: cursors, and batons kept between calls.
import assert from "node:assert/strict";
import { connect } from "@tursodatabase/serverless";

const url = process.argv[2];
const db = connect({ url });
await db.exec("DROP TABLE IF EXISTS t; CREATE TABLE t (id INTEGER PRIMARY KEY, v UNIQUE)");

const insert = await db.prepare("INSERT INTO t (v) VALUES (?)");
const inserted = await insert.run(["a"]);
assert.equal(inserted.changes, 1);
assert.equal(Number(inserted.lastInsertRowid), 1);

const one = await db.prepare("SELECT ? AS v");
for (const value of [null, 1.5, "ü\"\n", 42]) {
  assert.equal((await one.get([value])).v, value);
}
const big = await db.prepare("SELECT 9223372036854775807 AS v");
big.safeIntegers(true);
assert.equal((await big.get()).v, 9223372036854775807n);
const blob = (await one.get([new Uint8Array([0, 255, 7])])).v;
assert.deepEqual([...new Uint8Array(blob)], [0, 255, 7]);

await assert.rejects(insert.run(["a"]), (error) => {
  assert.match(error.message, /UNIQUE constraint failed/);
  assert.equal(error.code, "SQLITE_CONSTRAINT");
  return true;
});

const count = async () => (await (await db.prepare("SELECT count(*) AS n FROM t")).get()).n;
await db.batch(["INSERT INTO t (v) VALUES ('b')", "INSERT INTO t (v) VALUES ('c')"], "immediate");
assert.equal(await count(), 3);
await assert.rejects(db.batch(["INSERT INTO t (v) VALUES ('d')", "INSERT INTO t (v) VALUES ('a')"], "immediate"));
assert.equal(await count(), 3);

const transfer = db.transaction(async (fail) => {
  await insert.run(["e" + fail]);
  if (fail) throw new Error("undone");
});
await assert.rejects(transfer(true), /undone/);
assert.equal(await count(), 3);
await transfer(false);
assert.equal(await count(), 4);

// A read that streams.
let rows = 0;
const many = await db.prepare("WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 100000) SELECT i FROM n");
for await (const row of many.iterate()) rows += 1;
assert.equal(rows, 100000);

// Many connections at once.
await Promise.all(Array.from({ length: 50 }, async (_, i) => {
  const own = connect({ url });
  await (await own.prepare("INSERT INTO t (v) VALUES (?)")).run([1000 + i]);
  await own.close();
}));
assert.equal(await count(), 54);
await db.close();
