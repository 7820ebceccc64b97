// drizzle-orm over @libsql/client.
import assert from "node:assert/strict";
import { createClient } from "@libsql/client";
import { eq } from "drizzle-orm";
import { drizzle } from "drizzle-orm/libsql";
import { blob, integer, real, sqliteTable, text } from "drizzle-orm/sqlite-core";

const users = sqliteTable("users", {
  id: integer("id").primaryKey(),
  name: text("name").notNull().unique(),
  balance: real("balance"),
  token: blob("token", { mode: "buffer" }),
});

const client = createClient({ url: process.argv[2] });
const db = drizzle(client);
await client.executeMultiple(
  "DROP TABLE IF EXISTS users; CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, balance REAL, token BLOB)",
);

const [ada] = await db.insert(users).values({ name: "Ada", balance: 1.5, token: Buffer.from([0, 255]) }).returning();
assert.equal(ada.id, 1);
assert.deepEqual([...ada.token], [0, 255]);
await assert.rejects(db.insert(users).values({ name: "Ada" }));

await db.transaction(async (tx) => {
  await tx.insert(users).values({ name: "Bob" });
  await tx.update(users).set({ balance: 2 }).where(eq(users.name, "Ada"));
});
await assert.rejects(db.transaction(async (tx) => {
  await tx.insert(users).values({ name: "Eve" });
  tx.rollback();
}));
await db.batch([db.insert(users).values({ name: "Fay" }), db.insert(users).values({ name: "Gil" })]);

const all = await db.select({ name: users.name, balance: users.balance }).from(users).orderBy(users.name);
assert.deepEqual(all, [
  { name: "Ada", balance: 2 }, { name: "Bob", balance: null },
  { name: "Fay", balance: null }, { name: "Gil", balance: null },
]);
await Promise.all(Array.from({ length: 50 }, (_, i) => db.insert(users).values({ name: `user ${i}` })));
assert.equal((await db.select().from(users)).length, 54);
client.close();
