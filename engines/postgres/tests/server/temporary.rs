//! Temporary objects: they belong to the transaction that created them, and shadow nothing for its
//! neighbours.

use groupcommit_postgres::{Database, Error, Statement, StatementResult, Ticket};

use crate::{
    server::{ids, insert, open},
    together::in_one_group,
};

fn run(db: &Database, statements: &[&str]) -> Ticket<Vec<StatementResult>, Error> {
    db.submit_statements(statements.iter().map(|sql| Statement::new(*sql, [])).collect())
}

#[test]
fn a_temporary_table_takes_no_acknowledged_rows_of_others() {
    let db = open();
    let mut expected = Vec::new();
    for (first, create) in [
        (10, "CREATE TEMP TABLE t (id bigint PRIMARY KEY, v text NOT NULL)"),
        (20, "SELECT 1::bigint AS id, 'a' AS v INTO TEMP t"),
        (30, "DO $$ BEGIN CREATE TEMP TABLE t (id bigint, v text); END $$"),
    ] {
        let (before, shadows, behind) = in_one_group(&db, || {
            (
                db.submit_statements(vec![insert(first)]),
                run(&db, &[create, "INSERT INTO t VALUES (7, 'mine')"]),
                [1, 2].map(|id| db.submit_statements(vec![insert(first + id)])),
            )
        });
        before.wait().unwrap();
        shadows.wait().unwrap();
        behind.into_iter().for_each(|ticket| drop(ticket.wait().unwrap()));
        // In the next group too.
        db.submit_statements(vec![insert(first + 3)]).wait().unwrap();
        expected.extend([0, 1, 2, 3].map(|id| first + id));
        assert_eq!(ids(&db), expected);
    }
}

#[test]
fn two_of_one_group_create_the_same_temporary_table() {
    let db = open();
    let scratch = "CREATE TEMP TABLE scratch (id bigint) ON COMMIT DROP";
    let tickets = in_one_group(&db, || {
        [1, 2, 3].map(|_| run(&db, &[scratch, "INSERT INTO scratch VALUES (1)"]))
    });
    for ticket in tickets {
        assert_eq!(ticket.wait().unwrap()[1].rows_affected, 1);
    }
}
