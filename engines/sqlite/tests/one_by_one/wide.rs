//! Random transactions over what SQLite keeps beside rows: full text and R-Trees, triggers, sequences,
//! generated columns, the schema itself, and counters that are stored.
//!
//! `GROUPCOMMIT_WIDE_SEEDS` and `GROUPCOMMIT_WIDE_SEED` are as for [`hostile`](crate::hostile).

use proptest::{collection::vec, option, prelude::*, sample::select};

use crate::{
    hostile::run_seeds,
    steps::{Member, Sql, Step},
};

const TABLES: &str = "
    CREATE TABLE a (id INTEGER PRIMARY KEY AUTOINCREMENT, u UNIQUE, n INTEGER CHECK (n < 90));
    CREATE TABLE r (
        id INTEGER PRIMARY KEY ON CONFLICT REPLACE,
        u UNIQUE ON CONFLICT FAIL,
        w UNIQUE ON CONFLICT REPLACE,
        x NOT NULL ON CONFLICT IGNORE
    );
    CREATE TABLE w (k TEXT PRIMARY KEY, v INTEGER) WITHOUT ROWID;
    CREATE TABLE g (
        id INTEGER PRIMARY KEY,
        n INTEGER,
        d AS (n / 2) STORED UNIQUE,
        v NOT NULL AS (n + 1)
    );
    CREATE INDEX g_by ON g (abs(n), v) WHERE n > 2;
    CREATE TABLE parent (id INTEGER PRIMARY KEY, u INTEGER UNIQUE);
    CREATE TABLE child (
        id INTEGER PRIMARY KEY,
        p INTEGER REFERENCES parent (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
    );
    CREATE TABLE strict_child (
        id INTEGER PRIMARY KEY,
        p INTEGER NOT NULL REFERENCES parent (u) ON UPDATE CASCADE ON DELETE RESTRICT
    ) STRICT;
    CREATE TABLE kept (id INTEGER PRIMARY KEY, c, t, l, d DEFAULT (changes()));
    CREATE TABLE docs (id INTEGER PRIMARY KEY, body TEXT);
    CREATE VIEW seen AS SELECT id, n FROM a;
    INSERT INTO a VALUES (1, 1, 1), (2, 2, 2);
    INSERT INTO parent VALUES (1, 1), (2, 2);
    INSERT INTO child VALUES (1, 1);
    INSERT INTO w VALUES ('w1', 1);";

const VIRTUAL: [&str; 3] = [
    "CREATE VIRTUAL TABLE f5 USING fts5 (x); INSERT INTO f5 VALUES ('w1 w2'), ('w3');",
    "CREATE VIRTUAL TABLE f4 USING fts4 (x); INSERT INTO f4 VALUES ('w1 w2'), ('w3');",
    "CREATE VIRTUAL TABLE rt USING rtree (id, lo, hi); INSERT INTO rt VALUES (1, 1, 2);",
];

const TRIGGERS: [&str; 4] = [
    "CREATE TRIGGER a_kept AFTER INSERT ON a BEGIN
        INSERT INTO kept (c, t, l) VALUES (changes(), total_changes(), last_insert_rowid());
        UPDATE kept SET d = changes() WHERE id = last_insert_rowid();
     END;",
    "CREATE TRIGGER a_raise BEFORE INSERT ON a WHEN NEW.n > 70 BEGIN
        INSERT INTO kept (c) VALUES (-1);
        SELECT CASE NEW.n WHEN 71 THEN RAISE(FAIL, 'f') WHEN 72 THEN RAISE(ABORT, 'a')
            WHEN 73 THEN RAISE(ROLLBACK, 'r') ELSE RAISE(IGNORE) END;
     END;",
    "CREATE TRIGGER seen_insert INSTEAD OF INSERT ON seen BEGIN
        INSERT OR REPLACE INTO a (id, n) VALUES (NEW.id, NEW.n);
     END;
     CREATE TRIGGER child_gone AFTER DELETE ON child BEGIN
        INSERT INTO kept (c) VALUES (changes());
     END;",
    "CREATE VIRTUAL TABLE fx USING fts5 (body, content='docs', content_rowid='id');
     CREATE TRIGGER docs_in AFTER INSERT ON docs BEGIN
        INSERT INTO fx (rowid, body) VALUES (NEW.id, NEW.body);
     END;
     CREATE TRIGGER docs_out AFTER DELETE ON docs BEGIN
        INSERT INTO fx (fx, rowid, body) VALUES ('delete', OLD.id, OLD.body);
     END;",
];

/// Some of the virtual tables and triggers: the engine looks closer where there is one.
fn schema() -> impl Strategy<Value = String> {
    let some = |of: &'static [&'static str]| {
        vec(prop::bool::weighted(0.4), of.len()).prop_map(|is_in| {
            let parts = of.iter().zip(is_in).filter(|(_, is_in)| *is_in).map(|(part, _)| *part);
            parts.collect::<String>()
        })
    };
    (some(&VIRTUAL), some(&TRIGGERS))
        .prop_map(|(tables, triggers)| format!("{TABLES}{tables}{triggers}"))
}

/// What may stand behind INSERT and UPDATE.
const CONFLICT: [&str; 6] =
    ["", " OR ABORT", " OR FAIL", " OR IGNORE", " OR REPLACE", " OR ROLLBACK"];

/// Statements with their number of parameters; `{or}` is replaced.
const WRITES: [(&str, usize); 36] = [
    ("INSERT{or} INTO a VALUES (?1, ?2, ?3)", 3),
    ("INSERT{or} INTO a (u, n) VALUES (?1, ?2), (?3, 4)", 3),
    ("INSERT{or} INTO a (u) SELECT u + ?1 FROM a WHERE id > ?2 ORDER BY id", 2),
    ("INSERT{or} INTO a (u, n) VALUES (?1, ?2) RETURNING id, changes(), total_changes()", 2),
    ("INSERT INTO a (id, u) VALUES (?1, ?2) ON CONFLICT (u) DO UPDATE SET n = changes()", 2),
    ("INSERT INTO a (u) VALUES (?1) ON CONFLICT DO NOTHING", 1),
    ("UPDATE{or} a SET u = ?1, n = ?2 WHERE id >= ?3", 3),
    ("UPDATE{or} a SET id = id + ?1 WHERE u < ?2", 2),
    ("DELETE FROM a WHERE id >= ?1", 1),
    ("INSERT{or} INTO r VALUES (?1, ?2, ?3, ?4)", 4),
    ("INSERT INTO r VALUES (?1, ?2, ?3, ?4), (?4, ?3, ?2, ?1)", 4),
    ("UPDATE{or} r SET u = ?1, w = ?2, x = ?3", 3),
    ("INSERT{or} INTO w VALUES ('w' || ?1, ?2)", 2),
    ("UPDATE{or} w SET k = 'w' || ?1 WHERE v <= ?2", 2),
    ("INSERT{or} INTO g (id, n) VALUES (?1, ?2), (?2, ?3)", 3),
    ("UPDATE{or} g SET n = n + ?1", 1),
    ("INSERT{or} INTO parent VALUES (?1, ?2)", 2),
    ("UPDATE{or} parent SET u = u + ?1 WHERE id > ?2", 2),
    ("DELETE FROM parent WHERE id = ?1", 1),
    ("INSERT{or} INTO child VALUES (?1, ?2)", 2),
    ("INSERT{or} INTO strict_child VALUES (?1, ?2)", 2),
    ("INSERT INTO kept (c, t, l) VALUES (changes(), total_changes(), last_insert_rowid())", 0),
    ("INSERT INTO kept (id) VALUES (?1)", 1),
    ("INSERT{or} INTO docs VALUES (?1, 'w' || ?2 || ' w' || ?3)", 3),
    ("DELETE FROM docs WHERE id = ?1", 1),
    ("INSERT INTO seen VALUES (?1, ?2)", 2),
    ("INSERT{or} INTO f5 (rowid, x) VALUES (?1, 'w' || ?2 || ' w' || ?3)", 3),
    ("INSERT{or} INTO f5 (x) VALUES ('w' || ?1), ('w' || ?2)", 2),
    ("UPDATE{or} f5 SET rowid = rowid + ?1, x = 'w' || ?2 WHERE rowid = ?3", 3),
    ("DELETE FROM f5 WHERE rowid >= ?1", 1),
    ("INSERT{or} INTO f4 (docid, x) VALUES (?1, 'w' || ?2 || ' w' || ?3)", 3),
    ("INSERT INTO f4 (x) SELECT 'w' || id FROM a ORDER BY id", 0),
    ("UPDATE{or} f4 SET x = 'w' || ?1 WHERE docid <= ?2", 2),
    ("DELETE FROM f4 WHERE docid = ?1", 1),
    ("INSERT{or} INTO rt VALUES (?1, ?2, ?2 + ?3)", 3),
    ("UPDATE{or} rt SET id = id + ?1 WHERE lo >= ?2", 2),
];

const READS: [&str; 9] = [
    "SELECT changes(), total_changes(), last_insert_rowid()",
    "SELECT * FROM a ORDER BY id",
    "SELECT rowid, x FROM f5 WHERE f5 MATCH 'w1' ORDER BY rowid",
    "SELECT docid, x FROM f4 WHERE f4 MATCH 'w2' ORDER BY docid",
    "SELECT rowid, rank FROM fx WHERE fx MATCH 'w3' ORDER BY rank, rowid",
    "SELECT id FROM rt WHERE lo > 1 AND hi < 9 ORDER BY id",
    "SELECT count(*) FROM g WHERE n > 2 AND abs(n) = 3",
    "SELECT * FROM missing",
    "PRAGMA table_info(a)",
];

const SCHEMA_CHANGES: [&str; 28] = [
    "CREATE TABLE made (x DEFAULT (changes()))",
    "CREATE TABLE IF NOT EXISTS made (x)",
    "CREATE TABLE made AS SELECT * FROM a ORDER BY id",
    "INSERT INTO made VALUES (1)",
    "DROP TABLE IF EXISTS made",
    "ALTER TABLE a ADD COLUMN more INTEGER DEFAULT 3 CHECK (more > 2)",
    "ALTER TABLE g ADD COLUMN twice NOT NULL AS (n * 2)",
    "ALTER TABLE a DROP COLUMN more",
    "ALTER TABLE kept RENAME COLUMN d TO e",
    "ALTER TABLE w RENAME TO v",
    "ALTER TABLE v RENAME TO w",
    "CREATE UNIQUE INDEX one ON kept (c)",
    "CREATE INDEX IF NOT EXISTS more_of_g ON g (v)",
    "DROP INDEX IF EXISTS one",
    "CREATE TRIGGER late AFTER INSERT ON w BEGIN INSERT INTO kept (c) VALUES (changes()); END",
    "DROP TRIGGER IF EXISTS late",
    "DROP TRIGGER a_kept",
    "CREATE VIEW IF NOT EXISTS looked AS SELECT * FROM kept",
    "CREATE VIRTUAL TABLE fn USING fts5 (x)",
    "INSERT INTO fn VALUES ('w1')",
    "DROP TABLE IF EXISTS fn",
    "CREATE VIRTUAL TABLE IF NOT EXISTS f4 USING fts4 (x)",
    "DROP TABLE f4",
    "INSERT INTO f5 (f5) VALUES ('optimize')",
    "INSERT INTO f5 (f5) VALUES ('integrity-check')",
    "INSERT INTO f4 (f4) VALUES ('rebuild')",
    "DELETE FROM f5",
    "REINDEX",
];

fn param() -> impl Strategy<Value = Option<i64>> {
    option::weighted(0.95, prop_oneof![15 => 1..9_i64, 1 => 70..75_i64, 1 => 88..92_i64])
}

fn sql() -> impl Strategy<Value = Sql> {
    let fixed = |texts: &'static [&'static str]| {
        select(texts).prop_map(|text| Sql { text: text.to_owned(), params: Vec::new() })
    };
    // Each has as many parameters as it needs, of the four that are there.
    let write = (select(&WRITES[..]), select(&CONFLICT[..]), vec(param(), 4)).prop_map(
        |((text, count), or, mut params)| {
            params.truncate(count);
            Sql { text: text.replace("{or}", or), params }
        },
    );
    prop_oneof![14 => write, 3 => fixed(&READS), 3 => fixed(&SCHEMA_CHANGES)]
}

fn step() -> impl Strategy<Value = Step> {
    let run = (sql(), prop::bool::weighted(0.4), prop::bool::weighted(0.7)).prop_map(
        |(sql, swallow, is_own)| {
            if is_own { Step::Own { sql, swallow } } else { Step::Run { sql, swallow } }
        },
    );
    let leaf = prop_oneof![12 => run, 1 => Just(Step::Fail)];
    leaf.prop_recursive(2, 8, 4, |inner| {
        (vec(inner, 0..4), prop::bool::weighted(0.3), any::<bool>())
            .prop_map(|(steps, fail, swallow)| Step::Savepoint { steps, fail, swallow })
    })
}

fn members() -> impl Strategy<Value = (bool, Vec<Member>)> {
    let closure = vec(step(), 1..5).prop_map(Member::Closure);
    let data = vec(sql(), 1..4).prop_map(Member::Data);
    (prop::bool::weighted(0.8), vec(prop_oneof![3 => closure, 2 => data], 1..50))
}

#[test]
fn transactions_over_all_of_sqlite_come_out_as_one_by_one() {
    run_seeds("wide", 40, || (schema(), members()));
}
