"use strict";

// Rows come as their values, one after the other; here they become objects.

/** How many lists of columns are remembered. */
const REMEMBERED_MAX = 1_000;

const makers = new Map();

/** A function that makes an object of the values from `start` on. */
function rowMaker(columns) {
  const key = columns.join("\0");
  let make = makers.get(key);
  if (make === undefined) {
    if (makers.size === REMEMBERED_MAX) makers.clear();
    make = compile(columns) ?? ((values, start) => Object.fromEntries(columns.map((name, i) => [name, values[start + i]])));
    makers.set(key, make);
  }
  return make;
}

/** An object literal is the fastest way; not where making code from strings is forbidden. */
function compile(columns) {
  const properties = columns.map((name, i) => `[${JSON.stringify(name)}]: values[start + ${i}]`);
  try {
    return new Function("values", "start", `return { ${properties.join(", ")} };`);
  } catch {
    return undefined;
  }
}

/** All rows. */
function rowsOf(columns, values) {
  if (values.length === 0) return [];
  const make = rowMaker(columns);
  const rows = new Array(values.length / columns.length);
  for (let i = 0, start = 0; i < rows.length; i += 1, start += columns.length) rows[i] = make(values, start);
  return rows;
}

module.exports = { rowMaker, rowsOf };
