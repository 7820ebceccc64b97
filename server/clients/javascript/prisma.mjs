// Prisma with its adapter for libSQL, @prisma/adapter-libsql; its query compiler is WebAssembly.
import assert from "node:assert/strict";
import { PrismaLibSql } from "@prisma/adapter-libsql";
import { createClient } from "@libsql/client";
import client from "./prisma-client/index.js";

const url = process.argv[2];
const sql = createClient({ url });
await sql.executeMultiple(
  `DROP TABLE IF EXISTS "User";
   CREATE TABLE "User" (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, balance REAL, token BLOB)`,
);
const db = new client.PrismaClient({ adapter: new PrismaLibSql({ url, intMode: "bigint" }) });

const token = new Uint8Array([0, 255]);
const ada = await db.user.create({ data: { id: 9007199254740993n, name: "Ada", balance: 1.5, token } });
assert.deepEqual({ ...ada, token: [...ada.token] }, { id: 9007199254740993n, name: "Ada", balance: 1.5, token: [0, 255] });
// The adapter knows errors by a number that its client sets for local files alone: no P2002 over HTTP.
await assert.rejects(db.user.create({ data: { name: "Ada" } }), /UNIQUE constraint failed: User.name/);
assert.equal((await db.user.findUnique({ where: { name: "Ada" } })).id, 9007199254740993n);

await db.$transaction([
  db.user.create({ data: { name: "Bob" } }),
  db.user.update({ where: { name: "Ada" }, data: { balance: { increment: 0.5 } } }),
]);
await assert.rejects(db.$transaction([
  db.user.create({ data: { name: "Eve" } }),
  db.user.create({ data: { name: "Bob" } }),
]));
await db.$transaction(async (tx) => {
  await tx.user.create({ data: { name: "Fay" } });
  assert.equal(await tx.user.count(), 3);
});
await assert.rejects(db.$transaction(async (tx) => {
  await tx.user.create({ data: { name: "Gil" } });
  throw new Error("rolled back");
}));
await db.user.createMany({ data: [{ name: "Hal" }, { name: "Ivy", balance: null }] });
assert.deepEqual(
  await db.user.findMany({ select: { name: true, balance: true }, orderBy: { name: "asc" } }),
  [
    { name: "Ada", balance: 2 }, { name: "Bob", balance: null }, { name: "Fay", balance: null },
    { name: "Hal", balance: null }, { name: "Ivy", balance: null },
  ],
);
assert.equal(Number((await db.$queryRaw`SELECT count(*) AS n FROM "User" WHERE token IS NOT NULL`)[0].n), 1);
assert.equal(await db.$executeRaw`UPDATE "User" SET balance = 7 WHERE name = ${"Bob"}`, 1);
await Promise.all(Array.from({ length: 50 }, (_, i) => db.user.create({ data: { name: `user ${i}` } })));
assert.equal(await db.user.count(), 55);
await db.$disconnect();
sql.close();
