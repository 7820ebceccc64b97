import { createClient } from "@libsql/client";

const db = createClient({ url: process.env.DATABASE_URL ?? "http://127.0.0.1:8080" });

await db.execute("CREATE TABLE IF NOT EXISTS visits (id INTEGER PRIMARY KEY, page TEXT NOT NULL)");
await db.execute({ sql: "INSERT INTO visits (page) VALUES (?)", args: ["/"] }); // on disk
await db.batch(["INSERT INTO visits (page) VALUES ('/a')", "INSERT INTO visits (page) VALUES ('/b')"], "write");
console.log((await db.execute("SELECT count(*) AS visits FROM visits")).rows[0].visits);
