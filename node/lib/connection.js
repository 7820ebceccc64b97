"use strict";

const { errorOf } = require("./errors.js");
const native = require("./native.js");
const { areNamed, parameter, partsOf, pushStatement, pushValues } = require("./parameters.js");
const { rowMaker, rowsOf } = require("./rows.js");

/** How many texts of statements the native half remembers. */
const TEXTS_MAX = 1_000;

/** Connections with something under way, which are not collected. */
const busy = new Set();

/**
 * What is under way on one database. The transactions of a turn of the event loop cross to the native half
 * together, and so do all outcomes of a flush.
 */
class Connection {
  #bigints;
  /** The texts that have crossed: the number of each, and how a row of it is made. */
  #texts = new Map();
  /** What waits for the outcome of each number. */
  #pending = new Map();
  #next = 0;
  /** The transactions of this turn, and the deadline that they share. */
  #batch = [];
  #deadline;
  /** The values of the row that was read last, to be overwritten by the next. */
  #row = [];

  constructor(bigints) {
    const weak = new WeakRef(this);
    this.#bigints = bigints;
    /** The functions of the native half. */
    this.native = native.connection((delivery) => weak.deref()?.#settle(delivery), bigints);
  }

  /** Submits a transaction, and resolves to what `pick` takes of its results. */
  transact(statements, { deadline, signal }, pick) {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      if (deadline !== this.#deadline) this.send();
      this.#makeRoom();
      const number = this.#next;
      const start = this.#batch.length;
      try {
        this.#batch.push(number);
        this.#encodeAll(this.#batch, statements);
      } catch (error) {
        this.#batch.length = start;
        throw error;
      }
      if (start === 0) {
        this.#deadline = deadline;
        queueMicrotask(() => this.send());
      }
      this.#expect({ resolve, reject, pick, convert: (told) => pick(this.results(told)) }, signal);
    });
  }

  /** Submits what this turn has collected so far. */
  send() {
    if (this.#batch.length === 0) return;
    const batch = this.#batch;
    this.#batch = [];
    this.native.submit(batch, this.#deadline);
  }

  /** Starts other work under a number, and resolves to `convert` of its answer. */
  call(start, convert, signal) {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      start(this.#next);
      this.#expect({ resolve, reject, convert }, signal);
    });
  }

  /** A statement as it crosses. */
  statement(sql, args) {
    this.#makeRoom();
    const items = [];
    this.#encode(items, [sql, args]);
    return items;
  }

  /** The rows of a read at once, or the first alone. */
  readSync(sql, args, firstAlone) {
    this.#makeRoom();
    const text = this.#text(sql);
    const isNamed = areNamed(args);
    const what = 4 * text.number + (isNamed ? 2 : 0) + (firstAlone ? 1 : 0);
    const values = firstAlone ? this.#row : [];
    let told;
    if (!isNamed && args?.length === 1) {
      told = this.native.readSync(what, values, parameter(args[0]));
    } else {
      const given = [];
      pushValues(given, args);
      told = this.native.readSync(what, values, ...given);
    }
    if (told === 0) return firstAlone ? undefined : values;
    if (typeof told !== "number") {
      if (Array.isArray(told[0])) throw errorOf(told[0]);
      text.columns = told.length;
      text.row = rowMaker(told);
    }
    if (firstAlone) return text.row(values, 0);
    const rows = [];
    for (let start = 0; start < values.length; start += text.columns) rows.push(text.row(values, start));
    return rows;
  }

  /** A transaction as it crosses. */
  transaction(statements) {
    this.#makeRoom();
    const items = [];
    this.#encodeAll(items, statements);
    return items;
  }

  /** The results of statements. */
  results(told) {
    const results = [];
    for (let i = 0; i < told.length; i += 4) {
      const columns = told[i + 2];
      const rows = rowsOf(columns, told[i + 3]);
      results.push({ columns, rows, rowsAffected: told[i], lastInsertRowid: told[i + 1] });
    }
    return results;
  }

  #encodeAll(items, statements) {
    items.push(statements.length);
    for (const statement of statements) this.#encode(items, partsOf(statement));
  }

  #encode(items, [sql, args]) {
    pushStatement(items, this.#text(sql).number, args);
  }

  #text(sql) {
    let text = this.#texts.get(sql);
    if (text === undefined) {
      if (typeof sql !== "string") throw new TypeError("the SQL of a statement is a string");
      text = { number: this.native.prepare(sql), columns: 0, row: undefined };
      this.#texts.set(sql, text);
    }
    return text;
  }

  /** Forgets all texts when there are too many. */
  #makeRoom() {
    if (this.#texts.size < TEXTS_MAX) return;
    this.send();
    this.#texts.clear();
    this.native.forget();
  }

  #expect(entry, signal) {
    const number = this.#next;
    this.#next = (number + 1) >>> 0;
    if (this.#pending.size === 0) busy.add(this);
    this.#pending.set(number, entry);
    if (!signal) return;
    const abort = () => {
      this.send();
      this.native.cancel(number);
    };
    signal.addEventListener("abort", abort, { once: true });
    entry.signal = signal;
    entry.abort = abort;
  }

  /** Called with all that has come of the work since the last time. */
  #settle([plain, others]) {
    for (let i = 0; i < plain.length; i += 3) {
      const id = plain[i + 2];
      const lastInsertRowid = Number.isNaN(id) ? null : this.#bigints ? BigInt(id) : id;
      const entry = this.#take(plain[i]);
      entry.resolve(entry.pick([{ columns: [], rows: [], rowsAffected: plain[i + 1], lastInsertRowid }]));
    }
    for (let i = 0; i < others.length; i += 2) {
      const entry = this.#take(others[i]);
      const error = errorOf(others[i + 1]);
      if (error === undefined) {
        entry.resolve(entry.convert(others[i + 1]));
      } else {
        entry.reject(error.code === "CANCELLED" && entry.signal?.aborted ? entry.signal.reason : error);
      }
    }
    if (this.#pending.size === 0) busy.delete(this);
  }

  #take(number) {
    const entry = this.#pending.get(number);
    this.#pending.delete(number);
    entry.signal?.removeEventListener("abort", entry.abort);
    return entry;
  }
}

module.exports = { Connection };
