"use strict";

const { fileURLToPath } = require("node:url");

const { Connection } = require("./connection.js");
const { rowsOf } = require("./rows.js");

const created = Symbol("created by open");

/** Opens the database at a path or a URL. */
async function open(target, options = {}) {
  const { integers = "number", ...settings } = options;
  if (integers !== "number" && integers !== "bigint") throw new TypeError('`integers` is "number" or "bigint"');
  const connection = new Connection(integers === "bigint");
  const place = target instanceof URL && target.protocol === "file:" ? fileURLToPath(target) : String(target);
  await connection.call((number) => connection.native.open(number, place, settings), nothing);
  return new Database(created, connection);
}

function nothing() {}

/** An open database; `open` makes them. See `index.d.ts` for what each method promises. */
class Database {
  #connection;
  #native;
  #closed;

  constructor(key, connection) {
    if (key !== created) throw new TypeError("open a database with `await open(target)`");
    this.#connection = connection;
    this.#native = connection.native;
  }

  get engine() {
    return this.#native.engine();
  }

  get warnings() {
    return this.#native.warnings();
  }

  execute(sql, args, options) {
    return this.#transact([[sql, args]], options, (results) => results[0]);
  }

  transact(statements, options) {
    return this.#transact(statements, options, (results) => results);
  }

  submitMany(transactions, options) {
    return Promise.allSettled(Array.from(transactions, (statements) => this.transact(statements, options)));
  }

  async get(sql, args, options) {
    return (await this.#read("get", sql, args, options))[0];
  }

  all(sql, args, options) {
    return this.#read("all", sql, args, options);
  }

  readDurable(sql, args, options) {
    return this.#read("readDurable", sql, args, options);
  }

  async *iterate(sql, args) {
    const rows = this.#native.rows(this.#connection.statement(sql, args));
    try {
      for (;;) {
        const some = await this.#connection.call(
          (number) => rows.next(number),
          ([columns, values]) => rowsOf(columns, values),
        );
        if (some.length === 0) return;
        yield* some;
      }
    } finally {
      rows.close();
    }
  }

  getSync(sql, args) {
    return this.#connection.readSync(sql, args, true);
  }

  allSync(sql, args) {
    return this.#connection.readSync(sql, args, false);
  }

  exclusive(statements) {
    const connection = this.#connection;
    return this.#inTurn(
      (number) => this.#native.exclusive(number, connection.transaction(statements)),
      (told) => connection.results(told),
    );
  }

  outcomeOf(token) {
    return this.#inTurn(
      (number) => this.#native.outcomeOf(number, bytesOf(token)),
      (told) => told && { committedAt: new Date(told[0] * 1_000), results: this.#connection.results(told[1]) },
    );
  }

  flush() {
    return this.#inTurn((number) => this.#native.flush(number), nothing);
  }

  stats() {
    return this.#native.stats();
  }

  close() {
    this.#closed ??= this.#inTurn((number) => this.#native.close(number), nothing);
    return this.#closed;
  }

  [Symbol.asyncDispose]() {
    return this.close();
  }

  #transact(statements, options = {}, pick) {
    if (options.deadline !== undefined && !(options.deadline >= 0)) {
      return Promise.reject(new RangeError("a deadline is a number of milliseconds, 0 or more"));
    }
    if (options.token === undefined) return this.#connection.transact(statements, options, pick);
    const connection = this.#connection;
    const { token, deadline, signal } = options;
    return this.#inTurn(
      (number) => this.#native.once(number, bytesOf(token), connection.transaction(statements), deadline),
      ([isRepeated, told]) => pick(connection.results(told).map((result) => ({ ...result, isRepeated }))),
      signal,
    );
  }

  /** Does something after all transactions that were submitted before it. */
  #inTurn(start, convert, signal) {
    this.#connection.send();
    return this.#connection.call(start, convert, signal);
  }

  #read(how, sql, args, { signal } = {}) {
    const connection = this.#connection;
    return connection.call(
      (number) => this.#native[how](number, connection.statement(sql, args)),
      (told) => connection.results(told)[0].rows,
      signal,
    );
  }
}

function bytesOf(token) {
  if (typeof token === "string") return Buffer.from(token);
  if (token instanceof Uint8Array) return Buffer.from(token);
  throw new TypeError("a token is a string or bytes");
}

module.exports = { Database, open };
