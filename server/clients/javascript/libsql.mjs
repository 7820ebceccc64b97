// @libsql/client, over HTTP and over a WebSocket.
import assert from "node:assert/strict";
import { createClient } from "@libsql/client";

const http = process.argv[2];

for (const url of [http, http.replace("http:", "ws:")]) {
  const db = createClient({ url, intMode: "bigint" });
  await db.execute("DROP TABLE IF EXISTS t");
  await db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v UNIQUE)");

  const inserted = await db.execute({ sql: "INSERT INTO t (v) VALUES (?)", args: ["a"] });
  assert.equal(inserted.rowsAffected, 1);
  assert.equal(inserted.lastInsertRowid, 1n);

  // Values of every kind, 64-bit integers and NULL among them.
  const blob = new Uint8Array([0, 255, 7]);
  for (const value of [null, 9007199254740993n, -9223372036854775808n, 1.5, "ü\"\n", blob]) {
    const { rows, columns } = await db.execute({ sql: "SELECT :v AS v", args: { v: value } });
    assert.deepEqual(columns, ["v"]);
    const read = rows[0].v instanceof ArrayBuffer ? new Uint8Array(rows[0].v) : rows[0].v;
    assert.deepEqual(read, value);
  }

  await assert.rejects(db.execute("INSERT INTO t (v) VALUES ('a')"), (error) => {
    assert.equal(error.code, "SQLITE_CONSTRAINT");
    assert.match(error.message, /UNIQUE constraint failed: t\.v/);
    return true;
  });
  await assert.rejects(db.execute("SELEC 1"), (error) => /syntax error/.test(error.message));

  // A batch is a transaction: all or nothing.
  const results = await db.batch(
    [{ sql: "INSERT INTO t (v) VALUES (?)", args: ["b"] }, "SELECT count(*) AS n FROM t"],
    "write",
  );
  assert.equal(results[1].rows[0].n, 2n);
  await assert.rejects(db.batch(["INSERT INTO t (v) VALUES ('c')", "INSERT INTO t (v) VALUES ('a')"], "write"));
  await db.batch(["SELECT 1", "SELECT 2"], "read");

  const count = async () => (await db.execute("SELECT count(*) AS n FROM t")).rows[0].n;
  assert.equal(await count(), 2n);

  // Transactions over several requests.
  const undone = await db.transaction("write");
  await undone.execute("INSERT INTO t (v) VALUES ('d')");
  assert.equal((await undone.execute("SELECT count(*) AS n FROM t")).rows[0].n, 3n);
  await undone.rollback();
  assert.equal(await count(), 2n);
  const kept = await db.transaction("write");
  await kept.batch(["INSERT INTO t (v) VALUES ('d')", "INSERT INTO t (v) VALUES ('e')"]);
  await assert.rejects(kept.execute("INSERT INTO t (v) VALUES ('a')"));
  await kept.commit();
  assert.equal(await count(), 4n);
  const left = await db.transaction("write");
  await left.execute("INSERT INTO t (v) VALUES ('f')");
  left.close();
  assert.equal(await count(), 4n);

  await db.executeMultiple("INSERT INTO t (v) VALUES ('g'); INSERT INTO t (v) VALUES ('h');");
  await db.migrate(["ALTER TABLE t ADD COLUMN w", "UPDATE t SET w = 1"]);
  assert.equal((await db.execute("SELECT sum(w) AS n FROM t")).rows[0].n, 6n);

  // Many at once.
  const many = Array.from({ length: 200 }, (_, i) =>
    db.execute({ sql: "INSERT INTO t (v) VALUES (?)", args: [1000 + i] }));
  await Promise.all(many);
  assert.equal(await count(), 206n);
  // Many rows.
  const rows = await db.execute("WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT i FROM n");
  assert.equal(rows.rows.length, 20000);
  db.close();
}
