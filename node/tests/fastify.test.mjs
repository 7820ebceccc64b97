// The example of an API.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { build } from "../examples/fastify.mjs";
import { folderFor } from "./open.mjs";

test("the example with Fastify", async (t) => {
  const app = await build(join(folderFor(t), "shop.db"));
  const post = (body, headers = {}) => app.inject({ method: "POST", url: "/orders", payload: body, headers });
  const created = await Promise.all(Array.from({ length: 50 }, (_, i) => post({ item: "nail", amount: i + 1 })));
  assert.deepEqual(created.map((response) => response.statusCode), created.map(() => 201));
  assert.equal(new Set(created.map((response) => response.json().id)).size, 50);

  const headers = { "idempotency-key": "a" };
  const [first, again] = [await post({ item: "saw", amount: 1 }, headers), await post({ item: "saw", amount: 1 }, headers)];
  assert.deepEqual(again.json(), first.json());
  const got = await app.inject(`/orders/${first.json().id}`);
  assert.deepEqual(got.json(), { id: first.json().id, item: "saw", amount: 1 });
  assert.equal((await app.inject("/orders/1000")).statusCode, 404);

  const refused = await post({ item: "nail", amount: 0 });
  assert.deepEqual([refused.statusCode, refused.json().code], [422, "SQLITE_CONSTRAINT_CHECK"]);
  await app.close();
});
