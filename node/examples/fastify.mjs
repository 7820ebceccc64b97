// An API that answers a POST once the row is on disk. Requests that arrive together share a flush.
import Fastify from "fastify";
import { NotRunError, SqlError, open } from "groupcommit";

export async function build(path = "shop.db") {
  const app = Fastify();
  const db = await open(path);
  await db.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL, amount INTEGER NOT NULL CHECK (amount > 0))");
  app.addHook("onClose", () => db.close());

  app.post("/orders", async (request, reply) => {
    const { item, amount } = request.body;
    // A client that sends the request again, with the same key, orders once.
    const options = { deadline: 2_000, token: request.headers["idempotency-key"] };
    const { lastInsertRowid } = await db.execute("INSERT INTO orders (item, amount) VALUES (?, ?)", [item, amount], options);
    return reply.code(201).send({ id: lastInsertRowid });
  });

  app.get("/orders/:id", async (request, reply) => {
    const order = db.getSync("SELECT id, item, amount FROM orders WHERE id = ?", [Number(request.params.id)]);
    return order ?? reply.code(404).send({ error: "no such order" });
  });

  app.setErrorHandler((error, request, reply) => {
    if (error instanceof SqlError) return reply.code(422).send({ error: error.message, code: error.code });
    if (error instanceof NotRunError) return reply.code(503).send({ error: error.message, code: error.code });
    return reply.send(error);
  });
  return app;
}

if (import.meta.filename === process.argv[1]) await (await build()).listen({ port: 3000 });
