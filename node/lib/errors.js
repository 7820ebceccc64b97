"use strict";

/** What every error of a database's is. */
class GroupcommitError extends Error {
  constructor(message, code, outcome) {
    super(message);
    this.code = code;
    this.outcome = outcome;
  }
}

/** The database rejected it, and nothing of it is kept: mend the transaction. */
class SqlError extends GroupcommitError {
  constructor(message, code, kind) {
    super(message, code ?? (kind ?? "rejected").toUpperCase(), "rejected");
    this.kind = kind;
  }
}

/** It had no effect and never will: it is safe to submit it again. */
class NotRunError extends GroupcommitError {
  constructor(message, reason) {
    super(message, reason.toUpperCase(), "not_run");
  }
}

/** The commit or its flush could not be confirmed: open the database again and look. */
class UnknownOutcomeError extends GroupcommitError {
  constructor(message) {
    super(message, "UNKNOWN_OUTCOME", "unknown");
  }
}

for (const type of [GroupcommitError, SqlError, NotRunError, UnknownOutcomeError]) {
  Object.defineProperty(type.prototype, "name", { value: type.name, configurable: true, writable: true });
}

/** The error that the native half describes with texts, or `undefined` for what is no failure. */
function errorOf(told) {
  if (!Array.isArray(told) || typeof told[0] !== "string") return undefined;
  const [outcome, message, kind, code, reason] = told;
  if (outcome === "not_run") return new NotRunError(message, reason);
  if (outcome === "unknown") return new UnknownOutcomeError(message);
  return new SqlError(message, code, kind ?? undefined);
}

module.exports = { GroupcommitError, SqlError, NotRunError, UnknownOutcomeError };
Object.defineProperty(module.exports, "errorOf", { value: errorOf, enumerable: false });
