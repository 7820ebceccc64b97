// Inserts, and prints the ids that were answered; ends in the way that it is told.
import { writeSync } from "node:fs";
import { open } from "groupcommit";

const [path, how] = process.argv.slice(2);
const db = await open(path);
if (how === "idle") await new Promise((resolve) => setImmediate(resolve));
else await db.execute("CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, text TEXT)");

async function insert() {
  const { lastInsertRowid } = await db.execute("INSERT INTO t (text) VALUES (?)", ["some text"]);
  return lastInsertRowid;
}

async function group() {
  writeSync(1, `${(await Promise.all(Array.from({ length: 100 }, insert))).join(" ")}\n`);
}

if (how === "some") for (let i = 0; i < 10; i += 1) void group();
if (how === "forever") for (;;) await Promise.all([group(), group(), group()]);
if (how === "exit" || how === "throw") {
  await group();
  for (let i = 0; i < 10_000; i += 1) void insert();
  setImmediate(() => {
    if (how === "exit") process.exit(7);
    throw new Error("this is expected: nobody catches it");
  });
}
