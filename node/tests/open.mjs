// Databases for tests: each has a folder of its own, which goes when the test is over.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { open } from "groupcommit";

export function folderFor(t) {
  const folder = mkdtempSync(join(tmpdir(), "groupcommit-node-"));
  const closed = [];
  t.after(async () => {
    await Promise.all(closed.map((db) => db.close()));
    rmSync(folder, { recursive: true, force: true });
  });
  folders.set(folder, closed);
  return folder;
}

const folders = new Map();

export async function openFor(t, options) {
  const folder = folderFor(t);
  const db = await open(join(folder, "app.db"), options);
  folders.get(folder).push(db);
  return db;
}
