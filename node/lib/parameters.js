"use strict";

const INTEGER_MIN = -(2n ** 63n);
const INTEGER_MAX = 2n ** 63n - 1n;

/**
 * A value as it crosses to the native half. Bytes are copied: the native half reads them at the end of the
 * turn, when the program may have written something else into them.
 */
function parameter(value) {
  switch (typeof value) {
    case "number":
    case "string":
    case "boolean":
      return value;
    case "bigint":
      if (value < INTEGER_MIN || value > INTEGER_MAX) throw new RangeError(`${value}n has no place in 64 bits`);
      return value;
    case "object":
      if (value === null) return null;
      if (ArrayBuffer.isView(value)) return Buffer.from(new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
      if (value instanceof ArrayBuffer) return Buffer.from(new Uint8Array(value));
  }
  const found = value instanceof Date ? "a Date (give its text or its number)" : typeof value;
  throw new TypeError(`a parameter is null, a number, a bigint, a string, a boolean or bytes, not ${found}`);
}

/** Whether arguments have names. */
function areNamed(args) {
  if (args === undefined || args === null || Array.isArray(args)) return false;
  if (typeof args === "object" && !ArrayBuffer.isView(args)) return true;
  throw new TypeError("the arguments of a statement are an array, or an object with their names");
}

/** Appends the values of arguments, each behind its name where they have names. */
function pushValues(into, args) {
  if (areNamed(args)) {
    for (const name of Object.keys(args)) into.push(name.replace(/^[:@$]/, ""), parameter(args[name]));
  } else if (args) {
    for (let i = 0; i < args.length; i += 1) into.push(parameter(args[i]));
  }
}

/** Appends a statement: the number of its text, twice the number of values (and 1 for names), the values. */
function pushStatement(into, number, args) {
  const place = into.push(number, 0);
  pushValues(into, args);
  into[place - 1] = areNamed(args) ? into.length - place + 1 : 2 * (into.length - place);
}

/** The text and the arguments of a statement in any of its forms: text, `[sql, args]`, `{ sql, args }`. */
function partsOf(statement) {
  if (typeof statement === "string") return [statement, undefined];
  if (Array.isArray(statement)) return statement;
  if (typeof statement?.sql === "string") return [statement.sql, statement.args];
  throw new TypeError("a statement is a text, [sql, args] or { sql, args }");
}

module.exports = { areNamed, parameter, partsOf, pushStatement, pushValues };
