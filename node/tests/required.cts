// The same from CommonJS.
import groupcommit = require("groupcommit");

export async function use(): Promise<number> {
  const db = await groupcommit.open("app.db");
  const error: groupcommit.SqlError | undefined = undefined;
  return (await db.execute("SELECT 1")).rowsAffected + (error === undefined ? 0 : 1);
}
