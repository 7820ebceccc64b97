// PostgreSQL and MySQL through the same class; on the servers whose URLs the environment names.
import assert from "node:assert/strict";
import { test } from "node:test";
import { NotRunError, SqlError, open } from "groupcommit";

const SERVERS = [
  { engine: "postgres", url: process.env.GROUPCOMMIT_POSTGRES, mark: (n) => `$${n}`, bytes: "BYTEA", unique: "23505" },
  { engine: "mysql", url: process.env.GROUPCOMMIT_MYSQL, mark: () => "?", bytes: "BLOB", unique: "1062" },
];

for (const { engine, url, mark, bytes, unique } of SERVERS) {
  test(`${engine} by its URL`, { skip: url ? false : "no server is named" }, async (t) => {
    const db = await open(url);
    const table = `node_${process.pid}`;
    const insert = `INSERT INTO ${table} VALUES (${mark(1)}, ${mark(2)}, ${mark(3)}, ${mark(4)})`;
    await db.exclusive([`CREATE TABLE ${table} (id BIGINT PRIMARY KEY, name TEXT, ratio DOUBLE PRECISION, data ${bytes})`]);
    t.after(async () => {
      await db.exclusive([`DROP TABLE ${table}`]);
      await db.close();
    });
    assert.equal(db.engine, engine);

    const rows = [
      { id: 1, name: "ü", ratio: 0.5, data: Buffer.from([0, 255]) },
      { id: 2, name: null, ratio: 2, data: null },
      { id: 2n ** 62n, name: "", ratio: null, data: Buffer.alloc(0) },
    ];
    const results = await Promise.all(rows.map((row) => db.execute(insert, Object.values(row))));
    assert.deepEqual(results.map((result) => result.rowsAffected), [1, 1, 1]);
    const query = `SELECT * FROM ${table} WHERE id > ${mark(1)} ORDER BY id`;
    assert.deepEqual(await db.all(query, [0]), rows);
    assert.deepEqual(await db.readDurable(query, [0]), rows);
    assert.deepEqual(db.allSync(query, [0]), rows);
    assert.deepEqual(await db.get(query, [1]), rows[1]);
    const read = [];
    for await (const row of db.iterate(query, [0])) read.push(row);
    assert.deepEqual(read, rows);

    await assert.rejects(db.transact([[insert, [3, "c", 3, null]], [insert, [1, "a", 1, null]]]), (error) => {
      assert.ok(error instanceof SqlError);
      assert.deepEqual([error.code, error.kind], [unique, "unique"]);
      return true;
    });
    assert.equal((await db.all(query, [0])).length, 3);
    await assert.rejects(db.execute("SELECT 1", [], { token: "a" }), NotRunError);
    const many = await Promise.all(Array.from({ length: 200 }, (_, i) => db.execute(insert, [10 + i, "many", i, null])));
    assert.equal(many.length, 200);
  });
}
