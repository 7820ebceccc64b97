//! Random transactions over a schema in which much can go wrong.

use proptest::{collection::vec, option, prelude::*, sample::select};

use crate::{
    reference::SWITCHES,
    steps::{Member, Sql, Step},
};

/// Values of `n` of 90 and above break a check.
const TABLES: &str = "
    CREATE TABLE parent (
        id INTEGER PRIMARY KEY,
        u INTEGER UNIQUE,
        n INTEGER NOT NULL CHECK (n < 90)
    );
    CREATE TABLE child (
        id INTEGER PRIMARY KEY,
        p INTEGER NOT NULL REFERENCES parent (id) ON UPDATE CASCADE
    );
    CREATE TABLE late (
        id INTEGER PRIMARY KEY,
        p INTEGER REFERENCES parent (id) ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED
    );
    CREATE TABLE owned (
        id INTEGER PRIMARY KEY,
        p INTEGER REFERENCES late (id) DEFERRABLE INITIALLY DEFERRED
    );
    CREATE TABLE log (a INTEGER PRIMARY KEY AUTOINCREMENT, id, n);
    CREATE VIEW both AS SELECT id, n FROM parent;
    INSERT INTO parent VALUES (1, 1, 1), (2, 2, 2);
    INSERT INTO child VALUES (1, 1);
    INSERT INTO late VALUES (1, 2);";

/// Values of `n` from 70 on make a trigger raise an error of each kind.
const TRIGGERS: &str = "
    CREATE TRIGGER log_it AFTER INSERT ON parent
        BEGIN INSERT INTO log (id, n) VALUES (NEW.id, NEW.n); END;
    CREATE TRIGGER before_rollback BEFORE INSERT ON parent WHEN NEW.n = 70
        BEGIN INSERT INTO log (id) VALUES (-1); SELECT RAISE(ROLLBACK, 'r'); END;
    CREATE TRIGGER before_abort BEFORE INSERT ON parent WHEN NEW.n = 71
        BEGIN INSERT INTO log (id) VALUES (-2); SELECT RAISE(ABORT, 'a'); END;
    CREATE TRIGGER before_fail BEFORE INSERT ON parent WHEN NEW.n = 72
        BEGIN INSERT INTO log (id) VALUES (-3); SELECT RAISE(FAIL, 'f'); END;
    CREATE TRIGGER before_ignore BEFORE INSERT ON parent WHEN NEW.n = 73
        BEGIN INSERT INTO log (id) VALUES (-4); SELECT RAISE(IGNORE); END;
    CREATE TRIGGER after_fail AFTER INSERT ON parent WHEN NEW.n = 74
        BEGIN SELECT RAISE(FAIL, 'f'); END;
    CREATE TRIGGER update_rollback AFTER UPDATE ON parent WHEN NEW.n = 70
        BEGIN SELECT RAISE(ROLLBACK, 'r'); END;
    CREATE TRIGGER update_fail BEFORE UPDATE ON parent WHEN NEW.n = 72
        BEGIN SELECT RAISE(FAIL, 'f'); END;
    CREATE TRIGGER delete_fail BEFORE DELETE ON parent WHEN OLD.n = 5
        BEGIN SELECT RAISE(FAIL, 'f'); END;
    CREATE TRIGGER through_view INSTEAD OF INSERT ON both
        BEGIN INSERT INTO parent (id, n) VALUES (NEW.id, NEW.n); END;";

/// With triggers or without: the engine looks closer at members that may have run one.
pub(crate) fn schema() -> impl Strategy<Value = String> {
    select(vec![TABLES.to_owned(), format!("{TABLES}{TRIGGERS}")])
}

/// Values of `n` from 80 on make a trigger of a trigger do so.
const NESTED: &str = "
    CREATE TRIGGER nested_rollback BEFORE INSERT ON log WHEN NEW.n = 80
        BEGIN SELECT RAISE(ROLLBACK, 'r'); END;
    CREATE TRIGGER nested_abort AFTER INSERT ON log WHEN NEW.n = 81
        BEGIN SELECT RAISE(ABORT, 'a'); END;
    CREATE TRIGGER nested_fail AFTER INSERT ON log WHEN NEW.n = 82
        BEGIN SELECT RAISE(FAIL, 'f'); END;
    CREATE TRIGGER nested_ignore BEFORE INSERT ON log WHEN NEW.n = 83
        BEGIN SELECT RAISE(IGNORE); END;
    CREATE TRIGGER nested_conflict AFTER INSERT ON log WHEN NEW.n = 84
        BEGIN INSERT OR ROLLBACK INTO parent VALUES (NEW.id, NULL, 1); END;";

/// What the hostile ones need besides.
const MORE: &str = "
    CREATE TABLE huge (id INTEGER PRIMARY KEY, b BLOB);
    INSERT INTO huge VALUES (1, zeroblob(100000));";

pub(crate) fn hostile_schema() -> impl Strategy<Value = String> {
    select(vec![format!("{TABLES}{MORE}"), format!("{TABLES}{TRIGGERS}{NESTED}{MORE}")])
}

const CONFLICT: [&str; 6] =
    ["", " OR ABORT", " OR FAIL", " OR IGNORE", " OR REPLACE", " OR ROLLBACK"];

fn id() -> impl Strategy<Value = Option<i64>> {
    option::weighted(0.95, 1..7_i64)
}

/// Mostly harmless, sometimes one that a check or a trigger stops.
fn n() -> impl Strategy<Value = Option<i64>> {
    prop_oneof![12 => (1..6_i64).prop_map(Some), 5 => (70..75_i64).prop_map(Some), 3 => (80..85_i64).prop_map(Some),
                1 => Just(Some(95)), 1 => Just(None)]
}

fn statement(text: &str, params: Vec<Option<i64>>) -> Sql {
    Sql { text: text.to_owned(), params }
}

fn writes() -> impl Strategy<Value = Sql> {
    let conflict = || select(&CONFLICT[..]);
    let parent = (conflict(), id(), id(), n()).prop_map(|(or, id, u, n)| {
        statement(&format!("INSERT{or} INTO parent VALUES (?1, ?2, ?3)"), vec![id, u, n])
    });
    let parents =
        (conflict(), vec((id(), id(), n()), 3), any::<bool>()).prop_map(|(or, rows, returning)| {
            let returning = if returning { " RETURNING *" } else { "" };
            let text = format!(
                "INSERT{or} INTO parent VALUES (?1, ?2, ?3), (?4, ?5, ?6), (?7, ?8, ?9){returning}"
            );
            let params = rows.into_iter().flat_map(|(id, u, n)| [id, u, n]).collect();
            statement(&text, params)
        });
    let upsert = (
        select(
            &[
                "(id) DO UPDATE SET u = excluded.u, n = n + 1",
                "(u) DO UPDATE SET id = id + 1",
                "DO NOTHING",
                "(id) DO NOTHING",
            ][..],
        ),
        id(),
        id(),
        n(),
    )
        .prop_map(|(action, id, u, n)| {
            let text = format!("INSERT INTO parent VALUES (?1, ?2, ?3) ON CONFLICT {action}");
            statement(&text, vec![id, u, n])
        });
    let update = (conflict(), id(), n(), id()).prop_map(|(or, u, n, from)| {
        let text = format!("UPDATE{or} parent SET u = ?1, n = ?2 WHERE id >= ?3");
        statement(&text, vec![u, n, from])
    });
    let renumber = (conflict(), id(), id()).prop_map(|(or, to, from)| {
        statement(&format!("UPDATE{or} parent SET id = ?1 WHERE id = ?2"), vec![to, from])
    });
    let table = || select(&["child", "late", "owned"][..]);
    let child = (conflict(), table(), id(), id()).prop_map(|(or, table, id, p)| {
        statement(&format!("INSERT{or} INTO {table} VALUES (?1, ?2)"), vec![id, p])
    });
    let move_child = (table(), id(), id()).prop_map(|(table, p, id)| {
        statement(&format!("UPDATE {table} SET p = ?1 WHERE id = ?2"), vec![p, id])
    });
    let any_table = select(&["parent", "child", "late", "owned", "log"][..]);
    let delete = (any_table, id()).prop_map(|(table, from)| {
        let column = if table == "log" { "a" } else { "id" };
        statement(&format!("DELETE FROM {table} WHERE {column} >= ?1"), vec![from])
    });
    let view =
        (id(), n()).prop_map(|(id, n)| statement("INSERT INTO both VALUES (?1, ?2)", vec![id, n]));
    prop_oneof![
        4 => parent, 3 => parents, 3 => upsert, 3 => update, 1 => renumber,
        4 => child, 2 => move_child, 2 => delete, 1 => view
    ]
}

fn reads() -> impl Strategy<Value = Sql> {
    select(
        &[
            "SELECT * FROM parent ORDER BY id",
            "SELECT * FROM log",
            "SELECT (SELECT count(*) FROM child), (SELECT count(*) FROM late)",
            "SELECT count(*) FROM missing",
        ][..],
    )
    .prop_map(|text| statement(text, Vec::new()))
}

fn schema_changes() -> impl Strategy<Value = Sql> {
    select(
        &[
            "CREATE TABLE extra (x)",
            "CREATE TABLE IF NOT EXISTS extra (x, y)",
            "DROP TABLE extra",
            "INSERT INTO extra (x) VALUES (1)",
            "CREATE TABLE copy AS SELECT * FROM parent",
            "DROP TABLE IF EXISTS copy",
            "ALTER TABLE log ADD COLUMN w DEFAULT 3",
            "CREATE UNIQUE INDEX one ON log (id)",
            "DROP INDEX one",
            "DROP TABLE child",
        ][..],
    )
    .prop_map(|text| statement(text, Vec::new()))
}

fn sql() -> impl Strategy<Value = Sql> {
    let counters = Just("SELECT changes(), total_changes(), last_insert_rowid()")
        .prop_map(|text| statement(text, Vec::new()));
    prop_oneof![12 => writes(), 3 => reads(), 1 => counters, 2 => schema_changes()]
}

fn step() -> impl Strategy<Value = Step> {
    let run =
        (sql(), prop::bool::weighted(0.5)).prop_map(|(sql, swallow)| Step::Run { sql, swallow });
    let leaf = prop_oneof![40 => run, 1 => Just(Step::Fail), 1 => Just(Step::Panic)];
    leaf.prop_recursive(3, 12, 4, |inner| {
        (vec(inner, 0..4), prop::bool::weighted(0.3), any::<bool>())
            .prop_map(|(steps, fail, swallow)| Step::Savepoint { steps, fail, swallow })
    })
}

/// The transactions of one group.
pub(crate) fn members() -> impl Strategy<Value = Vec<Member>> {
    let closure = vec(step(), 0..5).prop_map(Member::Closure);
    let data = vec(sql(), 0..4).prop_map(Member::Data);
    vec(prop_oneof![3 => closure, 1 => data], 1..12)
}

const FORBIDDEN: [&str; 16] = [
    "BEGIN IMMEDIATE",
    "COMMIT",
    "END",
    "ROLLBACK",
    "SAVEPOINT s",
    "RELEASE s",
    "ROLLBACK TO s",
    "PRAGMA foreign_keys = OFF",
    "PRAGMA defer_foreign_keys = ON",
    "PRAGMA synchronous = OFF",
    "PRAGMA user_version = 7",
    "ATTACH ':memory:' AS other",
    "DETACH main",
    "CREATE TEMP TABLE parent (id, u, n)",
    "CREATE TEMP TRIGGER x AFTER INSERT ON log BEGIN SELECT RAISE(ROLLBACK, 'x'); END",
    "CREATE TEMP VIEW parent AS SELECT 1",
];

const CURSORS: [&str; 3] = [
    "SELECT * FROM parent ORDER BY id",
    "SELECT * FROM parent, log, child",
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
];

const ENDLESS: [&str; 3] = [
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
     INSERT OR REPLACE INTO huge SELECT 10 + i % 5, zeroblob(i % 5000) FROM n",
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
     SELECT (SELECT sum(i) FROM n), count(*) FROM parent",
];

const EXCLUSIVES: [&str; 9] = [
    "VACUUM",
    "PRAGMA user_version = 7",
    "PRAGMA foreign_keys = ON",
    "BEGIN; INSERT INTO log (id) VALUES (-9); COMMIT",
    "BEGIN; INSERT INTO log (id) VALUES (-10)",
    "INSERT INTO log (id) VALUES (-11); SELECT * FROM missing",
    "ATTACH ':memory:' AS other; CREATE TABLE other.parent (x)",
    "CREATE TEMP TABLE parent (id, u, n)",
    "CREATE TEMP TRIGGER x AFTER INSERT ON log BEGIN SELECT RAISE(ROLLBACK, 'x'); END",
];

/// Statements whose rows are long, and others that random ones do not come upon.
fn heavy() -> impl Strategy<Value = Sql> {
    let fixed = select(
        &[
            "INSERT INTO huge (b) VALUES (zeroblob(3000000))",
            "INSERT INTO huge (b) VALUES (zeroblob(2000000000))",
            "UPDATE huge SET b = b || b",
            "DELETE FROM huge WHERE length(b) > 200000",
            "ANALYZE parent",
            "REINDEX",
            "VACUUM main INTO missing",
        ][..],
    );
    fixed.prop_map(|text| statement(text, Vec::new()))
}

fn hostile_step() -> impl Strategy<Value = Step> {
    let forbidden = (select(&FORBIDDEN[..]), any::<u8>(), prop::bool::weighted(0.7))
        .prop_map(|(sql, way, swallow)| Step::Forbidden { sql, way, swallow });
    let blob = (0..4_i64, 0..120_000_usize).prop_map(|(row, at)| Step::BlobHandle { row, at });
    let heavy =
        (heavy(), prop::bool::weighted(0.7)).prop_map(|(sql, swallow)| Step::Run { sql, swallow });
    prop_oneof![
        8 => step(), 3 => forbidden, 3 => heavy, 2 => blob, 1 => Just(Step::Interrupt),
        1 => Just(Step::Sleep), 1 => select(&SWITCHES[..]).prop_map(Step::Switch),
        2 => select(&CURSORS[..]).prop_map(Step::LeakCursor)
    ]
}

/// Whether steps come to their end in any case, and always do the same.
fn is_steady(step: &Step) -> bool {
    match step {
        Step::Run { swallow, .. } | Step::Forbidden { swallow, .. } => *swallow,
        Step::Sleep | Step::BlobHandle { .. } => true,
        _ => false,
    }
}

/// The transactions of one case, and whether all are queued before the first runs.
pub(crate) fn hostile_members() -> impl Strategy<Value = (bool, Vec<Member>)> {
    // With a cursor open an interrupt lasts; then it depends on whether a statement was prepared
    // before, by a neighbour too, whether preparing it fails or running it.
    let steps = || {
        vec(hostile_step(), 0..5).prop_map(|mut steps| {
            if steps.iter().any(|step| matches!(step, Step::LeakCursor(_))) {
                steps.retain(|step| !matches!(step, Step::Interrupt));
            }
            steps
        })
    };
    let member = prop_oneof![
        12 => steps().prop_map(Member::Closure),
        2 => vec(prop_oneof![sql(), heavy()], 0..4).prop_map(Member::Data),
        1 => (steps(), select(&ENDLESS[..])).prop_map(|(steps, sql)| {
            Member::Endless(steps.into_iter().filter(is_steady).collect(), sql)
        }),
        1 => steps().prop_map(Member::Cancelled),
        1 => steps().prop_map(Member::Dropped),
        1 => select(&EXCLUSIVES[..]).prop_map(Member::Exclusive)
    ];
    (any::<bool>(), vec(member, 1..20)).prop_map(|(held, mut members)| {
        if held {
            // It waits for those before it, which wait to be released.
            members.retain(|member| !matches!(member, Member::Exclusive(_)));
        }
        (held, members)
    })
}
