// What is measured: one contestant, doing one thing, in a process of its own.
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";

const TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, amount INTEGER)";
const INSERT = "INSERT INTO t (name, amount) VALUES (?, ?)";
const SELECT = "SELECT id, name, amount FROM t WHERE id = ?";
const FILL = "INSERT INTO t SELECT value, 'name ' || value, value % 7 FROM (WITH RECURSIVE n (value) AS (VALUES (1) UNION ALL SELECT value + 1 FROM n WHERE value < 10000) SELECT value FROM n)";
const ROWS = 10_000;
const OUTSTANDING = 1_000;

const seconds = (since) => (performance.now() - since) / 1_000;
let next = 0;
const anyId = () => (next = (next + 7_919) % ROWS) + 1;

async function groupcommit(path) {
  const { open } = await import("groupcommit");
  const db = await open(path);
  await db.execute(TABLE);
  const insert = (i) => db.execute(INSERT, ["some name", i]);
  return {
    /** Each of 1,000 tasks awaits its insert, and inserts again. */
    async outstanding(time) {
      let count = 0;
      const began = performance.now();
      const task = async () => {
        while (seconds(began) < time) {
          await insert(count);
          count += 1;
        }
      };
      await Promise.all(Array.from({ length: OUTSTANDING }, task));
      return count / seconds(began);
    },
    oneAtATime: (time) => timed(time, insert),
    async reads(time) {
      await db.execute(FILL);
      return rate(time, () => db.getSync(SELECT, [anyId()]));
    },
    async asyncReads(time) {
      await db.execute(FILL);
      const began = performance.now();
      let count = 0;
      for (; seconds(began) < time; count += 1) await db.get(SELECT, [anyId()]);
      return count / seconds(began);
    },
    close: () => db.close(),
  };
}

async function betterSqlite3(path) {
  const { default: Database } = await import("better-sqlite3");
  const db = new Database(path);
  db.pragma("journal_mode = WAL");
  db.pragma("synchronous = FULL");
  db.exec(TABLE);
  const insert = db.prepare(INSERT);
  return {
    /** Its inserts are done when they return, so there is never more than one. */
    outstanding: async (time) => rate(time, () => insert.run("some name", 1), 1),
    oneAtATime: (time) => timed(time, async (i) => insert.run("some name", i)),
    async reads(time) {
      db.exec(FILL);
      const select = db.prepare(SELECT);
      return rate(time, () => select.get(anyId()));
    },
    asyncReads(time) {
      return this.reads(time);
    },
    close: () => db.close(),
  };
}

/** How often `act` is done in a second. */
function rate(time, act, atOnce = 100) {
  const began = performance.now();
  let count = 0;
  for (; seconds(began) < time; count += atOnce) for (let i = 0; i < atOnce; i += 1) act();
  return count / seconds(began);
}

/** The median of what one takes, in microseconds. */
async function timed(time, act) {
  const all = [];
  const began = performance.now();
  while (seconds(began) < time) {
    const start = performance.now();
    await act(all.length);
    all.push(1_000 * (performance.now() - start));
  }
  all.sort((a, b) => a - b);
  return all[all.length >> 1];
}

const [contestant, what, time, folder] = process.argv.slice(2);
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
const it = await { groupcommit, "better-sqlite3": betterSqlite3 }[contestant](join(folder, "bench.db"));
if (!what.endsWith("eads")) await it[what](Math.min(1, Number(time)));
console.log(JSON.stringify(await it[what](Number(time))));
await it.close();
rmSync(folder, { recursive: true, force: true });
