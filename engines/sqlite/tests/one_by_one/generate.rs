//! Random transactions over a schema in which much can go wrong.

use proptest::{collection::vec, option, prelude::*, sample::select};

use crate::steps::{Member, Sql, Step};

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

const CONFLICT: [&str; 6] =
    ["", " OR ABORT", " OR FAIL", " OR IGNORE", " OR REPLACE", " OR ROLLBACK"];

fn id() -> impl Strategy<Value = Option<i64>> {
    option::weighted(0.95, 1..7_i64)
}

/// Mostly harmless, sometimes one that a check or a trigger stops.
fn n() -> impl Strategy<Value = Option<i64>> {
    prop_oneof![12 => (1..6_i64).prop_map(Some), 5 => (70..75_i64).prop_map(Some),
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
            "SELECT changes(), total_changes(), last_insert_rowid()",
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
    prop_oneof![12 => writes(), 4 => reads(), 2 => schema_changes()]
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
