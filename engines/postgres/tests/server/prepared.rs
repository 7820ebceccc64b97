//! How much one connection keeps prepared.

use groupcommit_postgres::{Database, Statement, Value};

use crate::server::{ids, insert, open};

/// The statements that the writer has prepared on the server, and the bytes of their texts.
fn prepared(db: &Database) -> (i64, i64) {
    let sql = "SELECT count(*), sum(length(statement))::int8 FROM pg_prepared_statements";
    let row = db.submit_statements(vec![Statement::new(sql, [])]).wait().unwrap()[0].rows.remove(0);
    match row[..] {
        [Value::Int(count), Value::Int(bytes)] => (count, bytes),
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn long_texts_are_not_kept_beyond_a_bound_in_bytes() {
    const TEXT_BYTES: i64 = 1 << 20;
    let db = open();
    let long = |id: i64, bytes: i64| {
        let filling = "x".repeat(usize::try_from(bytes).unwrap());
        Statement::new(format!("INSERT INTO t VALUES ({id}, $1) /* {filling} */"), ["".into()])
    };
    let mut most = 0;
    for id in 0..20 {
        db.submit_statements(vec![long(id, TEXT_BYTES)]).wait().unwrap();
        let (_, bytes) = prepared(&db);
        most = most.max(bytes);
    }
    assert!((2 * TEXT_BYTES..=8 * TEXT_BYTES).contains(&most), "{most} bytes");
    // One that is longer than all that may be kept is not kept, and takes no other's place.
    db.submit_statements(vec![insert(100)]).wait().unwrap();
    db.submit_statements(vec![long(101, 9 * TEXT_BYTES)]).wait().unwrap();
    let (_, bytes) = prepared(&db);
    assert!(bytes <= 8 * TEXT_BYTES, "{bytes} bytes");
    assert_eq!(ids(&db), (0..20).chain([100, 101]).collect::<Vec<_>>());
}

#[test]
fn many_texts_are_not_kept_beyond_a_bound_in_number() {
    let db = open();
    for first in (0..1_200).step_by(100) {
        let plan = (first..first + 100)
            .map(|id| Statement::new(format!("INSERT INTO t VALUES ({id}, '')"), []))
            .collect();
        db.submit_statements(plan).wait().unwrap();
        let (count, _) = prepared(&db);
        assert!(count <= 510, "{count}");
    }
    assert_eq!(ids(&db).len(), 1_200);
}
