// What programs in TypeScript write; checked, not run.
import { Database, NotRunError, SqlError, UnknownOutcomeError, open, type Result, type Row, type Value } from "groupcommit";
import groupcommit from "groupcommit";

interface User {
  id: number;
  name: string;
}

export async function use(signal: AbortSignal): Promise<string> {
  await using db: Database = await open("app.db", { integers: "bigint", readers: 4 });
  const other = await groupcommit.open(new URL("postgres://a@b/c"));
  const { rows, lastInsertRowid }: Result = await db.execute("INSERT INTO t VALUES (?, ?)", [1n, new Uint8Array(2)], { signal });
  const id: number | bigint | null = lastInsertRowid;
  const value: Value | undefined = rows[0]?.["name"];
  const results = await db.transact(["SELECT 1", ["SELECT ?", [1]], { sql: "SELECT :a", args: { a: null } }] as const, {
    deadline: 500,
    token: "once",
  });
  const user = await db.get<User>("SELECT * FROM users WHERE id = ?", [1]);
  const now: User | undefined = db.getSync<User>("SELECT * FROM users");
  const untyped: Row[] = db.allSync("SELECT 1");
  for await (const row of db.iterate<User>("SELECT * FROM users")) row.name.trim();
  for (const outcome of await db.submitMany([[["SELECT 1"]]])) {
    if (outcome.status === "rejected" && outcome.reason instanceof SqlError) return outcome.reason.code;
  }
  const kept = await other.outcomeOf("once");
  const flushes: number = db.stats().flushMs.p99;
  try {
    await db.flush();
  } catch (error) {
    if (error instanceof NotRunError && error.code === "DEADLINE_PASSED") return error.message;
    if (error instanceof UnknownOutcomeError) return error.outcome satisfies "unknown";
  }
  // @ts-expect-error: `undefined` is no parameter.
  await db.execute("SELECT ?", [undefined]);
  // @ts-expect-error: a database is opened, not constructed.
  void new Database();
  return `${id} ${value} ${results.length} ${user?.name} ${now?.id} ${untyped.length} ${kept?.committedAt.toISOString()} ${flushes}`;
}
