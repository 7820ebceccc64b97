//! Parameters as literals: what the server reads is what was given, whatever its `sql_mode`, and it is
//! of the type that a bound parameter would have.

use std::fmt::Write as _;

use groupcommit_mysql::{Database, Statement, Value};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};

use crate::server::database;

fn any_value() -> impl Strategy<Value = Value> {
    let hostile = proptest::collection::vec(
        prop_oneof![
            Just("'"),
            Just("\\"),
            Just("\""),
            Just("`"),
            Just(";"),
            Just("?"),
            Just("-- "),
            Just("#"),
            Just("/*"),
            Just("*/"),
            Just("\0"),
            Just("\n"),
            Just("\r"),
            Just("\x1a"),
            Just("%"),
            Just("_"),
            Just("å"),
            Just("漢"),
            Just("😀"),
            Just("a"),
            Just("\u{5c}\u{27}"),
            Just("x'"),
            Just(" COMMIT "),
        ],
        0..12,
    );
    prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::Int),
        Just(Value::Int(i64::MIN)),
        any::<f64>().prop_filter("finite", |float| float.is_finite()).prop_map(Value::Float),
        any::<String>().prop_map(Value::Text),
        hostile.prop_map(|parts| Value::Text(parts.concat())),
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(Value::Bytes),
    ]
}

/// Asks the server for all values in one statement, and for the text of each in hexadecimal.
fn come_back(db: &Database, values: &[Value]) -> Result<(), TestCaseError> {
    let mut sql = "SELECT 'a?', ".to_owned();
    for _ in values {
        write!(sql, "?, HEX(?)/* ? */, ").unwrap();
    }
    sql += "\"?\" -- ?";
    let params = values.iter().flat_map(|value| [value.clone(), value.clone()]);
    let row = db.read(&Statement::new(sql, params)).unwrap().rows.remove(0);
    prop_assert_eq!(row.len(), 2 * values.len() + 2);
    for (value, back) in values.iter().zip(row[1..].chunks(2)) {
        match (value, &back[0]) {
            // A float has to be the same to the last bit, the sign of zero apart.
            (Value::Float(given), Value::Float(back)) if *given != 0.0 => {
                prop_assert_eq!(given.to_bits(), back.to_bits());
            }
            (given, back) => prop_assert_eq!(given, back),
        }
        let bytes = match value {
            Value::Text(text) => text.as_bytes(),
            Value::Bytes(bytes) => bytes,
            _ => continue,
        };
        let mut hex = String::new();
        bytes.iter().for_each(|byte| write!(hex, "{byte:02X}").unwrap());
        prop_assert_eq!(&back[1], &Value::Text(hex));
    }
    Ok(())
}

#[test]
fn every_value_comes_back_as_it_was_given() {
    let db = Database::open(&database()).unwrap();
    let values = proptest::collection::vec(any_value(), 1..8);
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    runner.run(&values, |values| come_back(&db, &values)).unwrap();
    let extremes = [f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324, 1e22, 1e23, 0.1, 1.0 / 3.0]
        .map(Value::Float);
    come_back(&db, &extremes).unwrap();
}

#[test]
fn every_value_comes_back_where_a_backslash_stands_for_itself() {
    let servers = crate::server::start(groupcommit_testkit::servers::mysql::Kind::Single);
    servers.crash_and_restart(&["sql_mode=ANSI,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES"]).unwrap();
    let db = Database::open(&servers.url()).unwrap();
    let values = proptest::collection::vec(any_value(), 1..8);
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    runner
        .run(&values, |values| {
            let sql = format!(
                "SELECT {}'\\', \"t\".\"?\" FROM (SELECT 1 AS \"?\") AS t",
                "?, ".repeat(values.len())
            );
            let mut row = db.read(&Statement::new(sql, values.clone())).unwrap().rows.remove(0);
            prop_assert_eq!(row.pop(), Some(Value::Int(1)));
            prop_assert_eq!(row.pop(), Some(Value::Text("\\".to_owned())));
            for (given, back) in values.iter().zip(&row) {
                if !matches!(given, Value::Float(zero) if *zero == 0.0) {
                    prop_assert_eq!(given, back);
                }
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_literal_does_not_join_what_is_beside_it() {
    let db = Database::open(&database()).unwrap();
    let read = |sql: &str, params: Vec<Value>| {
        let mut result = db.read(&Statement::new(sql, params)).unwrap();
        (result.columns.remove(0), result.rows.remove(0).remove(0))
    };
    assert_eq!(read("SELECT ? 'name'", vec!["a".into()]), ("name".into(), "a".into()));
    assert_eq!(read("SELECT 5-? AS a", vec![(-3).into()]).1, Value::Int(8));
}

#[test]
fn what_is_stored_is_what_was_given() {
    let db = Database::open(&database()).unwrap();
    db.exclusive(|alone| {
        alone.batch(
            "CREATE TABLE kinds (id INT PRIMARY KEY, n BIGINT, u BIGINT UNSIGNED, f DOUBLE, \
             d DECIMAL(30, 10), s TEXT CHARACTER SET utf8mb4, b LONGBLOB, at DATETIME(6), y BOOL)",
        )
    })
    .unwrap();
    let values: Vec<Value> = vec![
        1.into(),
        i64::MIN.into(),
        "18446744073709551615".into(),
        0.1.into(),
        "12345678901234567890.0123456789".into(),
        "it's \\ \u{1F600}\0".into(),
        Value::Bytes((0..=255).collect()),
        "2026-01-02 03:04:05.678901".into(),
        true.into(),
    ];
    let insert = "INSERT INTO kinds VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
    db.submit_statements(vec![Statement::new(insert, values.clone())]).wait().unwrap();
    let mut row = db.read(&Statement::new("SELECT * FROM kinds", [])).unwrap().rows.remove(0);
    assert_eq!(row.pop(), Some(Value::Int(1)));
    assert_eq!(row, values[..8]);
}

#[test]
fn every_value_comes_back_where_the_server_ignores_the_clients_character_set() {
    let servers = crate::server::start(groupcommit_testkit::servers::mysql::Kind::Single);
    // In which a backslash can be the second half of a letter.
    let options = ["character-set-client-handshake=OFF", "character-set-server=gbk"];
    servers.crash_and_restart(&options).unwrap();
    let db = Database::open(&servers.url()).unwrap();
    let values = ["小\\' , 'x", "\u{801}\\", "漢字 😀"].map(Value::from);
    come_back(&db, &values).unwrap();
    let select = || Statement::new("SELECT ?, ?, ?", values.clone());
    let rows = |results: Vec<Vec<Value>>| assert_eq!(results.concat(), values);
    rows(db.submit_statements(vec![select()]).wait().unwrap().remove(0).rows);
    let alone = select();
    rows(db.exclusive(move |db| db.run(&alone)).unwrap().rows);
}

#[test]
fn an_exclusive_that_changes_how_texts_are_read_is_followed() {
    let db = Database::open(&database()).unwrap();
    let value = Value::from(r"a\b' 漢字");
    let select = Statement::new("SELECT ?", [value.clone()]);
    let rows = db.exclusive(move |alone| {
        let mut rows = Vec::new();
        for sql_mode in ["NO_BACKSLASH_ESCAPES", ""] {
            alone.run(&Statement::new(format!("SET SESSION sql_mode = '{sql_mode}'"), []))?;
            rows.append(&mut alone.run(&select)?.rows);
        }
        alone.batch("SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'; SET NAMES gbk")?;
        rows.append(&mut alone.run(&select)?.rows);
        Ok::<_, groupcommit_mysql::Error>(rows)
    });
    assert_eq!(rows.unwrap(), [[value.clone()], [value.clone()], [value]]);
}
