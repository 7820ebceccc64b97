// Memory stays flat, and databases that are closed or forgotten leave nothing behind.
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { open } from "groupcommit";
import { folderFor, openFor } from "./open.mjs";

const isLong = process.env.GROUPCOMMIT_LONG === "1";
setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc");

async function memory() {
  // What is finalized waits for a turn of the event loop.
  for (let i = 0; i < 3; i += 1) {
    collect();
    await new Promise((resolve) => setImmediate(resolve));
  }
  return process.memoryUsage().rss / 2 ** 20;
}

const descriptors = () => readdirSync("/dev/fd").length;

test("transactions and reads leave no memory behind", async (t) => {
  const db = await openFor(t);
  await db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT, data BLOB)");
  await db.execute("INSERT INTO t VALUES (0, 'text', x'00')");
  const some = async (rounds) => {
    for (let round = 0; round < rounds; round += 1) {
      const work = [];
      for (let i = 0; i < 500; i += 1) {
        work.push(db.execute("UPDATE t SET text = ?, data = ? WHERE id = 0", [`text ${i}`, Buffer.alloc(100)]));
        work.push(db.execute("INSERT INTO t VALUES (0, 'there already', NULL)").catch(() => {}));
        if (i % 10 === 0) work.push(db.get("SELECT * FROM t"));
        db.getSync("SELECT * FROM t");
      }
      for await (const row of db.iterate("SELECT * FROM t")) assert.equal(row.id, 0);
      await Promise.all(work);
    }
  };
  await some(40);
  const before = await memory();
  await some(isLong ? 10_000 : 80);
  const grown = (await memory()) - before;
  assert.ok(grown < 24, `${grown.toFixed(1)} MiB more`);
});

test("opening and closing leaves nothing behind", async (t) => {
  const folder = folderFor(t);
  const some = async (times) => {
    for (let i = 0; i < times; i += 1) {
      const db = await open(join(folder, `${i % 7}.db`));
      await db.execute("CREATE TABLE IF NOT EXISTS t (v)");
      db.getSync("SELECT * FROM t");
      await db.get("SELECT * FROM t");
      await db.close();
      // A closed database is let go when it is collected, which is not soon by itself.
      if (i % 50 === 49) await memory();
    }
  };
  await some(50);
  const before = { memory: await memory(), descriptors: descriptors() };
  await some(isLong ? 1_000 : 100);
  const grown = (await memory()) - before.memory;
  assert.ok(grown < 16, `${grown.toFixed(1)} MiB more`);
  assert.ok(descriptors() <= before.descriptors, "descriptors");
});

test("a database that is forgotten is closed when it is collected", async (t) => {
  const folder = folderFor(t);
  const forget = async (path) => {
    const db = await open(path);
    await db.execute("CREATE TABLE t (v)");
    void db.execute("INSERT INTO t VALUES (1)");
  };
  const before = descriptors();
  for (let i = 0; i < 10; i += 1) await forget(join(folder, `${i}.db`));
  while (descriptors() > before) await memory();
  const db = await open(join(folder, "9.db"));
  assert.deepEqual(await db.all("SELECT v FROM t"), [{ v: 1 }]);
  await db.close();
});
