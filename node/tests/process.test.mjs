// The end of a process, and threads: nothing is lost that was answered, and nothing hangs.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { open } from "groupcommit";
import { folderFor } from "./open.mjs";

const isLong = process.env.GROUPCOMMIT_LONG === "1";
const writer = fileURLToPath(new URL("writer.mjs", import.meta.url));

/** Runs the writer; resolves to its exit code or signal, and the ids whose insert was answered. */
async function write(path, how, { killAfter } = {}) {
  const child = spawn(process.execPath, [writer, path, how], { stdio: ["ignore", "pipe", "inherit"] });
  const answered = [];
  for await (const line of createInterface({ input: child.stdout })) {
    answered.push(...line.split(" ").map(Number));
    if (answered.length >= killAfter) child.kill("SIGKILL");
  }
  const [code, signal] = child.exitCode === null && child.signalCode === null ? await once(child, "exit") : [child.exitCode, child.signalCode];
  return { end: signal ?? code, answered };
}

/** Which of the ids are missing. */
async function missing(path, ids) {
  const db = await open(path);
  const there = new Set((await db.all("SELECT id FROM t")).map((row) => row.id));
  assert.deepEqual(await db.all("PRAGMA integrity_check"), [{ integrity_check: "ok" }]);
  await db.close();
  return ids.filter((id) => !there.has(id));
}

test("every answered insert survives kill -9", async (t) => {
  const path = join(folderFor(t), "app.db");
  const all = [];
  for (let round = 0; round < (isLong ? 50 : 4); round += 1) {
    const { end, answered } = await write(path, "forever", { killAfter: Math.floor(Math.random() * 5_000) });
    assert.equal(end, "SIGKILL");
    all.push(...answered);
    assert.deepEqual(await missing(path, all), []);
  }
  assert.ok(all.length > 0);
});

test("a process ends by itself when all is answered, without closing", async (t) => {
  const path = join(folderFor(t), "app.db");
  const { end, answered } = await write(path, "some");
  assert.deepEqual([end, answered.length], [0, 1_000]);
  assert.deepEqual(await missing(path, answered), []);
});

test("`process.exit` and an uncaught error with work in flight", async (t) => {
  for (const [how, code] of [["exit", 7], ["throw", 1]]) {
    const path = join(folderFor(t), "app.db");
    const { end, answered } = await write(path, how);
    assert.equal(end, code);
    assert.ok(answered.length > 0);
    assert.deepEqual(await missing(path, answered), []);
  }
});

test("an open database keeps no process alive", async (t) => {
  const { end } = await write(join(folderFor(t), "app.db"), "idle");
  assert.equal(end, 0);
});

test("threads write the same database, and can be terminated", async (t) => {
  const path = join(folderFor(t), "app.db");
  const db = await open(path);
  await db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, thread)");
  const source = `
    const { workerData, parentPort } = require("node:worker_threads");
    const { open } = require("groupcommit");
    (async () => {
      const db = await open(workerData.path);
      const insert = () => db.execute("INSERT INTO t (thread) VALUES (?)", [workerData.thread]);
      await Promise.all(Array.from({ length: 500 }, insert));
      parentPort.postMessage("written");
      if (workerData.thread % 2 === 0) for (;;) await Promise.all(Array.from({ length: 50 }, insert));
      await db.close();
    })();`;
  const workers = [0, 1, 2, 3].map((thread) => new Worker(source, { eval: true, workerData: { path, thread } }));
  const ended = workers.map((worker) => once(worker, "exit"));
  await Promise.all(workers.map((worker) => once(worker, "message")));
  const own = Promise.all(Array.from({ length: 100 }, () => db.execute("INSERT INTO t (thread) VALUES (9)")));
  await Promise.all(workers.filter((_, thread) => thread % 2 === 0).map((worker) => worker.terminate()));
  await Promise.all(ended);
  await own;
  const counts = await db.all("SELECT thread, count(*) AS n FROM t GROUP BY thread ORDER BY thread");
  assert.deepEqual(counts.map(({ thread, n }) => [thread, thread % 2 === 0 ? n >= 500 : n]), [[0, true], [1, 500], [2, true], [3, 500], [9, 100]]);
  await db.close();
});
