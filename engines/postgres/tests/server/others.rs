//! What others on the same server do and have: their schemas, constraints, locks.

use std::{sync::mpsc, thread};

use groupcommit_postgres::{Database, Error, Failure, Rejected, Statement, Ticket};

use crate::{
    server::{ids, insert, open, schema, shared, start},
    together::{code, in_one_group},
};
use groupcommit_testkit::servers::postgres::Kind;

/// The schema that a URL of these tests names.
fn name_in(url: &str) -> &str {
    url.rsplit("%3D").next().unwrap()
}

#[test]
fn a_deferred_constraint_that_somebody_else_drops_is_charged_to_nobody() {
    let url = schema();
    let schema = name_in(&url);
    let child = format!(
        "CREATE TABLE {schema}.child (of bigint REFERENCES {schema}.t DEFERRABLE INITIALLY DEFERRED)"
    );
    shared().sql(&child).unwrap();
    let db = Database::open(&url).unwrap();
    db.submit_statements(vec![insert(1)]).wait().unwrap();
    shared().sql(&format!("DROP TABLE {schema}.child")).unwrap();
    let tickets: Vec<_> =
        in_one_group(&db, || (2..10).map(|id| db.submit_statements(vec![insert(id)])).collect());
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    assert_eq!(ids(&db), (1..10).collect::<Vec<_>>());
}

#[test]
fn an_account_without_privileges_is_not_bothered_by_what_it_may_not_see() {
    let servers = start(Kind::Single);
    servers
        .sql(
            "CREATE ROLE app LOGIN; CREATE SCHEMA app AUTHORIZATION app; \
             CREATE SCHEMA closed; CREATE TABLE closed.p (id int PRIMARY KEY); \
             CREATE TABLE closed.c (of int REFERENCES closed.p DEFERRABLE INITIALLY DEFERRED)",
        )
        .unwrap();
    let db = Database::open(&servers.url().replace("postgres@", "app@")).unwrap();
    let table = "CREATE TABLE t (id bigint PRIMARY KEY, v text NOT NULL)";
    db.submit_statements(vec![Statement::new(table, [])]).wait().unwrap();
    let tickets: Vec<_> =
        in_one_group(&db, || [1, 1, 2].map(|id| db.submit_statements(vec![insert(id)])).into());
    let outcomes: Vec<bool> =
        tickets.into_iter().map(|ticket: Ticket<_, _>| ticket.wait().is_ok()).collect();
    assert_eq!(outcomes, [true, false, true]);
    let all = Statement::new("SELECT id FROM t ORDER BY id", []);
    assert_eq!(db.read_durable(&all).unwrap().rows.len(), 2);
    db.exclusive(|alone| alone.batch("VACUUM t")).unwrap();
}

#[test]
fn who_waits_for_a_lock_in_vain_fails_alone_and_the_others_wait_once() {
    let url = schema();
    let holder = Database::open(&url).unwrap();
    let db = Database::open(&format!("{url}%20-c%20lock_timeout%3D300ms")).unwrap();
    db.submit_statements(vec![insert(0)]).wait().unwrap();
    let change = Statement::new("UPDATE t SET v = 'changed' WHERE id = 0", []);
    let (started, has_started) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let held = change.clone();
    let holds = holder.submit(move |tx| {
        tx.run(std::slice::from_ref(&held))?;
        started.send(()).unwrap();
        released.recv().unwrap_err(); // until the other end is dropped
        Ok::<_, Error>(())
    });
    has_started.recv().unwrap();
    let before = shared().sql("SELECT count(*) FROM pg_stat_activity").unwrap();
    assert_ne!(before, "");
    let tickets: Vec<_> = in_one_group(&db, || {
        (0..16_i64)
            .map(|id| if id == 3 { change.clone() } else { insert(id + 100) })
            .map(|statement| db.submit_statements(vec![statement]))
            .collect()
    });
    for (id, ticket) in (0..).zip(tickets) {
        let result = ticket.wait();
        if id == 3 {
            assert_eq!(code(result), "55P03");
        } else {
            result.unwrap();
        }
    }
    // Each of the others twice at most: with the one that waited, and without it.
    assert!(db.stats().reruns <= 15, "{:?}", db.stats());
    drop(release);
    holds.wait().unwrap();
}

#[test]
fn a_statement_that_cannot_be_sent_is_refused_and_costs_no_connection() {
    let url = format!("{}&application_name=cannot_be_sent", schema());
    let db = Database::open(&url).unwrap();
    db.submit_statements(vec![insert(1)]).wait().unwrap();
    let process = "SELECT pid FROM pg_stat_activity WHERE application_name = 'cannot_be_sent'";
    let before = shared().sql(process).unwrap();
    let refused = db.submit_statements(vec![Statement::new("SELECT 'a\0b'", [])]).wait();
    assert!(matches!(refused, Err(Failure::Rejected(Rejected::Caller(Error::Nul)))), "{refused:?}");
    assert_eq!(shared().sql(process).unwrap(), before);
    let read = db.read(&Statement::new("SELECT 1 -- \0", []));
    assert!(matches!(read, Err(Failure::Rejected(Rejected::Caller(Error::Nul)))), "{read:?}");
    // In a value it is the server that refuses it.
    let value = Statement::new("INSERT INTO t VALUES (2, $1)", ["a\0b".into()]);
    assert_eq!(code(db.submit_statements(vec![value]).wait()), "22021");
    assert_eq!(ids(&db), [1]);
}

#[test]
fn nothing_is_sent_of_an_empty_statement_that_others_would_notice() {
    let db = open();
    let [empty, full] = in_one_group(&db, || {
        [vec![Statement::new(" -- nothing", [])], vec![insert(1)]]
            .map(|plan| db.submit_statements(plan))
    });
    assert_eq!(empty.wait().unwrap()[0].rows_affected, 0);
    full.wait().unwrap();
    for sql in ["DO $$ BEGIN COMMIT; END $$", "VACUUM", "CREATE INDEX CONCURRENTLY ON t (v)"] {
        let [fails, follows] = in_one_group(&db, || {
            [Statement::new(sql, []), Statement::new("UPDATE t SET v = v", [])]
                .map(|statement| db.submit_statements(vec![statement]))
        });
        let failed = code(fails.wait());
        assert!(failed == "2D000" || failed == "25001", "{sql}: {failed}");
        follows.wait().unwrap();
    }
    let all = thread::scope(|scope| scope.spawn(|| ids(&db)).join().unwrap());
    assert_eq!(all, [1]);
}

#[test]
fn settings_that_a_transaction_or_a_read_changes_are_its_own() {
    let url = schema();
    let schema = name_in(&url);
    let role = format!("{schema}_role");
    shared().sql(&format!("CREATE ROLE {role}; GRANT ALL ON SCHEMA {schema} TO {role}")).unwrap();
    let db = Database::options().readers(1).open(&url).unwrap();
    let look = || {
        let sql = "SELECT current_user::text, coalesce(current_setting('app.tenant', true), ''), \
                   current_setting('default_transaction_read_only')";
        Statement::new(sql, [])
    };
    let set = |name: &str, value: &str, local: bool| {
        let sql = "SELECT set_config($1, $2, $3)";
        Statement::new(sql, [name.into(), value.into(), local.into()])
    };
    let found = |read: bool| {
        let read_only = if read { "on" } else { "off" };
        vec![["postgres".into(), "".into(), read_only.into()].to_vec()]
    };
    for local in [true, false] {
        let first = vec![
            set("app.tenant", "a", local),
            set("role", &role, local),
            set("default_transaction_read_only", "on", local),
            look(),
        ];
        let [sets, finds] = in_one_group(&db, || {
            [first.clone(), vec![look()]].map(|plan| db.submit_statements(plan))
        });
        let own = [role.as_str().into(), "a".into(), "on".into()].to_vec();
        assert_eq!(sets.wait().unwrap()[3].rows, [own], "{local}");
        assert_eq!(finds.wait().unwrap()[0].rows, found(false), "{local}");
        // And in the next group.
        let next = db.submit_statements(vec![look(), insert(i64::from(local))]);
        assert_eq!(next.wait().unwrap()[0].rows, found(false), "{local}");
        for name in ["default_transaction_read_only", "app.tenant"] {
            db.read(&set(name, "off", local)).unwrap();
            assert_eq!(db.read(&look()).unwrap().rows, found(true), "{local}");
        }
    }
    for (name, body) in [
        ("f", "SELECT set_config('app.tenant', 'f', false)"),
        ("g", "BEGIN /* */ UPDATE t SET v = v; SET app.tenant = 'g'; RETURN 'g'; END"),
    ] {
        let language = if name == "f" { "sql" } else { "plpgsql" };
        shared()
            .sql(&format!(
                "CREATE FUNCTION {schema}.{name}() RETURNS text AS $${body}$$ LANGUAGE {language}"
            ))
            .unwrap();
        // Opened when it is there: another's function is found out at the next connection.
        let db = Database::options().readers(1).open(&url).unwrap();
        let call = Statement::new(format!("SELECT {name}()"), []);
        let [sets, finds] = in_one_group(&db, || {
            [vec![call.clone()], vec![look()]].map(|plan| db.submit_statements(plan))
        });
        assert_eq!(sets.wait().unwrap()[0].rows, [[name.into()]]);
        assert_eq!(finds.wait().unwrap()[0].rows, found(false), "{name}");
        if name == "f" {
            db.read(&call).unwrap();
        }
        assert_eq!(db.read(&look()).unwrap().rows, found(true), "{name}");
        db.close().unwrap();
    }
    let block = "DO $$ BEGIN SET app.tenant = 'b'; END $$";
    db.submit_statements(vec![Statement::new(block, [])]).wait().unwrap();
    assert_eq!(db.submit_statements(vec![look()]).wait().unwrap()[0].rows, found(false));
    shared().sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).unwrap();
}
