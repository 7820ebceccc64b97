/// <reference types="node" />

/**
 * A value of a row. Integers are numbers where a number holds them exactly, and else `bigint`; with
 * `integers: "bigint"` all are.
 */
export type Value = null | number | bigint | string | Buffer;

/** A value of a parameter. Whole numbers are sent as integers, booleans as 1 and 0 where SQLite keeps them. */
export type Parameter = null | number | bigint | string | boolean | ArrayBufferView | ArrayBuffer;

/** Parameters in turn, or by name: `:id`, `@id` and `$id` are all given as `id` (SQLite alone has names). */
export type Args = readonly Parameter[] | Readonly<Record<string, Parameter>>;

/** A statement with its arguments. */
export type Statement = string | readonly [sql: string, args?: Args] | { readonly sql: string; readonly args?: Args };

/** A row by the names of its columns; where several have one name, the last. */
export type Row = Record<string, Value>;

/** What a statement came to. */
export interface Result<R = Row> {
  columns: string[];
  rows: R[];
  /** Rows inserted, updated or deleted. */
  rowsAffected: number;
  /** SQLite's rowid or MySQL's AUTO_INCREMENT of the row inserted last; `null` where there is none. */
  lastInsertRowid: number | bigint | null;
  /** With a token: it had been committed before, and was not run again. */
  isRepeated?: boolean;
}

export interface OpenOptions {
  /** How integers of rows are returned; default `"number"`. */
  integers?: "number" | "bigint";
  /** Whether a missing SQLite file is created; default `true`. */
  create?: boolean;
  /** Whether an SQLite database in rollback-journal mode is converted to write-ahead logging; default `false`. */
  convertToWal?: boolean;
  /** How long another process may keep an SQLite database locked, in milliseconds. */
  busyTimeout?: number;
  /** Connections that asynchronous reads share. */
  readers?: number;
  /** Transactions in flight at once; others wait. Default 16,384. */
  maxTransactions?: number;
  /** Bytes of the transactions in flight at once; others wait. Default 64 MiB. */
  maxBytes?: number;
}

export interface ReadOptions {
  /** Rejects with its reason when it aborts, and ends the read. */
  signal?: AbortSignal;
}

export interface TransactOptions {
  /**
   * Milliseconds after which the transaction is not run any more, which is a {@link NotRunError} with the code
   * `DEADLINE_PASSED`.
   */
  deadline?: number;
  /**
   * Withdraws the transaction if it is still queued, and rejects with its reason. A transaction that has begun
   * settles as it would have.
   */
  signal?: AbortSignal;
  /**
   * A name for the transaction, such as a UUID. Submitted again under the same token, it is not run again, and
   * returns the results of the first time. SQLite only.
   */
  token?: string | Uint8Array;
}

/** A distribution. */
export interface Summary {
  count: number;
  mean: number;
  p50: number;
  p90: number;
  p99: number;
  p999: number;
  max: number;
}

/** What a database has done since it was opened. */
export interface Stats {
  committed: number;
  rejected: number;
  notRun: number;
  unknown: number;
  commits: number;
  flushes: number;
  reruns: number;
  inFlight: number;
  queued: number;
  groupTransactions: Summary;
  queueWaitMs: Summary;
  executeMs: Summary;
  flushMs: Summary;
  totalMs: Summary;
}

/**
 * Opens a database: the path of an SQLite file, or a URL that begins with `sqlite:`, `postgres://` or
 * `mysql://`.
 */
export function open(target: string | URL, options?: OpenOptions): Promise<Database>;

/** An open database. */
export class Database implements AsyncDisposable {
  private constructor();

  /** Which engine it is. */
  readonly engine: "sqlite" | "postgres" | "mysql";
  /** Reasons to doubt what a commit promises here; usually none. */
  readonly warnings: string[];

  /** Runs one statement as a transaction, and resolves when it is committed and on disk. */
  execute<R = Row>(sql: string, args?: Args, options?: TransactOptions): Promise<Result<R>>;
  /** Runs statements as one transaction, all or none, and resolves when it is committed and on disk. */
  transact(statements: readonly Statement[], options?: TransactOptions): Promise<Result[]>;
  /** Submits many transactions at once, each with an outcome of its own. */
  submitMany(
    transactions: Iterable<readonly Statement[]>,
    options?: Omit<TransactOptions, "token">,
  ): Promise<PromiseSettledResult<Result[]>[]>;

  /** The first row of a query. It sees everything whose promise has resolved. */
  get<R = Row>(sql: string, args?: Args, options?: ReadOptions): Promise<R | undefined>;
  /** All rows of a query. */
  all<R = Row>(sql: string, args?: Args, options?: ReadOptions): Promise<R[]>;
  /** The rows of a query as they are read. */
  iterate<R = Row>(sql: string, args?: Args): AsyncIterableIterator<R>;
  /** As {@link all}, and resolves when nothing that it saw can be lost any more. */
  readDurable<R = Row>(sql: string, args?: Args, options?: ReadOptions): Promise<R[]>;
  /** As {@link get}, on this thread, which it blocks: the fastest way to read a row by its key. */
  getSync<R = Row>(sql: string, args?: Args): R | undefined;
  /** As {@link all}, on this thread, which it blocks. */
  allSync<R = Row>(sql: string, args?: Args): R[];

  /** Runs statements alone, outside any transaction, each committing by itself: `VACUUM`, `PRAGMA`. */
  exclusive(statements: readonly Statement[]): Promise<Result[]>;
  /** What became of the transaction with this token; `null` when it is not committed. SQLite only. */
  outcomeOf(token: string | Uint8Array): Promise<{ committedAt: Date; results: Result[] } | null>;
  /** Resolves when everything submitted before is on disk. */
  flush(): Promise<void>;
  /** What the database has done since it was opened. */
  stats(): Stats;
  /** Finishes everything submitted before, and closes the database. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** What every error of a database is. */
export class GroupcommitError extends Error {
  protected constructor();
  readonly code: string;
  readonly outcome: "rejected" | "not_run" | "unknown";
}

/** The database rejected the transaction or the read; nothing of it is kept. */
export class SqlError extends GroupcommitError {
  readonly outcome: "rejected";
  /** The database's own code: `SQLITE_CONSTRAINT_UNIQUE`, PostgreSQL's SQLSTATE, MySQL's number. */
  readonly code: string;
  /** What sort of error it is, the same for every database: `unique`, `foreign_key`, `statement`. */
  readonly kind: string | undefined;
}

/** The transaction had no effect and never will: it is safe to submit it again. */
export class NotRunError extends GroupcommitError {
  readonly outcome: "not_run";
  readonly code:
    | "CLOSED"
    | "OVERLOADED"
    | "CANCELLED"
    | "DEADLINE_PASSED"
    | "REENTRANT"
    | "BUSY"
    | "UNAVAILABLE"
    | "FAILED";
}

/** The commit or its flush could not be confirmed: open the database again to see what is there. */
export class UnknownOutcomeError extends GroupcommitError {
  readonly outcome: "unknown";
  readonly code: "UNKNOWN_OUTCOME";
}
