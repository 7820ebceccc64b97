//! Bad records are rejected with line and reason; their neighbours commit.

mod common;

use std::fmt::Write as _;

use common::Place;

#[test]
fn every_sort_of_bad_record_is_told_and_costs_no_neighbour() {
    let place = Place::new();
    place
        .database()
        .execute_batch(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE t (id INTEGER PRIMARY KEY, zip INTEGER, name TEXT NOT NULL CHECK (length(name) < 5));",
        )
        .expect("creates");
    let mut input =
        b"id,zip,name\n1,10,a\n1,10,dup\n2,007,b\n3,10\n4,10,toolong\n\n5,x,e\n6,10,\"f\n\"\n7,10,"
            .to_vec();
    input.extend(b"\xff\n8,10,h\n9,10,\"open\n10,10,i\n");
    place.write("in.csv", &input);
    place.run(&["-t", "t", "--rejects", "bad.csv", "in.csv"]).expect(1);
    assert_eq!(place.column("SELECT id FROM t"), ["1", "6", "8", "10"]);
    let rejects = place.rejects("bad.csv");
    let found: Vec<_> =
        rejects.iter().map(|r| (r[0].as_str(), r[1].as_str(), r[3].as_str())).collect();
    assert_eq!(
        found,
        [
            ("2", "3", "1,10,dup"),
            ("3", "4", "2,007,b"),
            ("4", "5", "3,10"),
            ("5", "6", "4,10,toolong"),
            ("6", "8", "5,x,e"),
            ("8", "11", "7,10,\u{fffd}"),
            ("10", "13", "9,10,\"open"),
        ]
    );
    for (reject, part) in
        rejects.iter().zip(["UNIQUE", "\"007\"", "2 fields", "CHECK", "\"x\"", "UTF-8", "quote"])
    {
        assert!(reject[2].contains(part), "{reject:?} should say {part}");
    }
}

#[test]
fn a_stray_quote_costs_its_own_line_alone() {
    let place = Place::new();
    // The first pairs with a quote far behind, the second is never closed; a text of two lines is whole.
    let mut input = "id,name\n1,\"stray\n".to_owned();
    (2..=500).for_each(|id| writeln!(input, "{id},x").expect("writes"));
    input.push_str("501,\"a\nb\"\n502,y\n503,\"open\n");
    (504..=1_000).for_each(|id| writeln!(input, "{id},z").expect("writes"));
    place.write("in.csv", &input);
    let ended = place.run(&["-t", "t", "--rejects", "bad.csv", "in.csv", "--json"]).expect(1);
    assert_eq!(
        (&ended.summary()["committed"], &ended.summary()["rejected"]),
        (&998.into(), &2.into())
    );
    let rejects = place.rejects("bad.csv");
    let found: Vec<_> =
        rejects.iter().map(|r| (r[0].as_str(), r[1].as_str(), r[3].as_str())).collect();
    assert_eq!(found, [("1", "2", "1,\"stray"), ("503", "505", "503,\"open")]);
    assert!(rejects[0][2].contains("line 2") && rejects[1][2].contains("line 505"), "{rejects:?}");
    assert_eq!(place.column("SELECT name FROM t WHERE id = 501"), ["'a\nb'"]);
    assert_eq!(place.column("SELECT count(*) FROM t WHERE name IN ('x', 'y', 'z')"), ["997"]);
}

#[test]
fn a_quote_that_is_open_for_more_than_a_record_may_hold_loses_nothing() {
    let place = Place::new();
    let line = "x".repeat(1 << 20);
    let mut input = "id,name\n1,\"stray\n".to_owned();
    (2..=19).for_each(|id| writeln!(input, "{id},{line}").expect("writes"));
    place.write("in.csv", &input);
    let ended = place.run(&["-t", "t", "in.csv", "--json"]).expect(1);
    assert_eq!(
        (&ended.summary()["committed"], &ended.summary()["rejected"]),
        (&18.into(), &1.into())
    );
    assert_eq!(place.column("SELECT sum(id) FROM t"), ["189"]);
}

#[test]
fn whatever_the_schema_refuses_is_a_rejected_record() {
    let place = Place::new();
    place
        .database()
        .execute_batch(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE i (id INTEGER, v TEXT); CREATE INDEX e ON i (json_extract(v, '$.a'));
             CREATE TABLE c (id INTEGER, v TEXT CHECK (json_extract(v, '$.a') IS NULL));
             CREATE TABLE g (id INTEGER, v TEXT, a AS (json_extract(v, '$.a')) STORED);
             CREATE TABLE r (id INTEGER, v TEXT);
             CREATE TRIGGER b BEFORE INSERT ON r BEGIN SELECT json_extract(new.v, '$.a'); END;",
        )
        .expect("creates");
    place.write("in.csv", "id,v\n1,{}\n2,{\n3,{}\n");
    for table in ["i", "c", "g", "r"] {
        let file = format!("{table}.bad.csv");
        place.run(&["-t", table, "in.csv", "--rejects", &file]).expect(1);
        assert_eq!(place.column(&format!("SELECT id FROM {table}")), ["1", "3"], "{table}");
        let rejects = place.rejects(&file);
        assert!(rejects.len() == 1 && rejects[0][2].contains("malformed JSON"), "{rejects:?}");
    }
    // A trigger that no record can satisfy is no record's fault.
    let breaks = "CREATE TRIGGER z AFTER INSERT ON c BEGIN INSERT INTO nowhere VALUES (1); END";
    place.database().execute_batch(breaks).expect("creates");
    place.run_with(&["-t", "c"], b"id,v\n4,{}\n").expect(2).says("no such table").says("--resume");
    place.database().execute_batch("DROP TRIGGER z").expect("drops");
    place.run_with(&["-t", "c", "--resume"], b"id,v\n4,{}\n").expect(0);
    assert_eq!(place.column("SELECT id FROM c"), ["1", "3", "4"]);
}

#[test]
fn rejected_bytes_are_kept_as_they_are() {
    let place = Place::new();
    place.write("in.csv", b"a,b\n1,caf\xe9\n2,x\n");
    let arguments = ["-t", "t", "in.csv", "--rejects", "bad.csv"];
    place.run(&arguments).expect(1);
    let kept = std::fs::read(place.path("bad.csv")).expect("reads");
    assert!(kept.ends_with(b"\"1,caf\xe9\"\n"), "{}", kept.escape_ascii());
    // From the database too.
    place.run(&[&arguments[..], &["--resume"]].concat()).expect(1);
    assert_eq!(std::fs::read(place.path("bad.csv")).expect("reads"), kept);
}

#[test]
fn a_value_behind_the_sample_is_never_altered() {
    let place = Place::new();
    let ended = place
        .run_with(
            &["-t", "t", "--sample", "1", "--json"],
            b"a,b\n1,1.5\n007,2\n1.0,2\n2,1e400\n3,4\n",
        )
        .expect(1);
    assert_eq!(place.rows("SELECT a, b FROM t"), [["1", "1.5"], ["3", "4.0"]]);
    assert_eq!(ended.summary()["rejected"], 3);
    assert!(ended.err.contains("record 2 (line 3) rejected: column \"a\" is INTEGER"), "{ended:?}");
}

#[test]
fn triggers_and_conflict_clauses_leave_nothing_behind() {
    let place = Place::new();
    place
        .database()
        .execute_batch(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE log (a);
             CREATE TABLE t (a INTEGER PRIMARY KEY, how TEXT UNIQUE ON CONFLICT ROLLBACK);
             CREATE TRIGGER g BEFORE INSERT ON t BEGIN
                 INSERT INTO log VALUES (new.a);
                 SELECT RAISE(FAIL, 'odd one') WHERE new.a = 3;
                 SELECT RAISE(ROLLBACK, 'worse') WHERE new.a = 5;
             END;",
        )
        .expect("creates");
    let mut input = String::from("a,how\n");
    for number in 1..=200 {
        let value = if number % 50 == 0 { "same".to_owned() } else { number.to_string() };
        writeln!(input, "{number},{value}").expect("writes");
    }
    let ended =
        place.run_with(&["-t", "t", "--rejects", "bad.csv", "--json"], input.as_bytes()).expect(1);
    assert_eq!(ended.summary()["committed"], 195);
    let rejected: Vec<_> =
        place.rejects("bad.csv").into_iter().map(|mut reject| reject.remove(0)).collect();
    assert_eq!(rejected, ["3", "5", "100", "150", "200"]);
    assert_eq!(place.column("SELECT a FROM log EXCEPT SELECT a FROM t"), Vec::<String>::new());
    assert_eq!(place.column("SELECT count(*) FROM log"), ["195"]);
}

#[test]
fn deferred_foreign_keys_reject_their_own_record_only() {
    let place = Place::new();
    place
        .database()
        .execute_batch(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE parent (id INTEGER PRIMARY KEY);
             INSERT INTO parent VALUES (1);
             CREATE TABLE child (id INTEGER PRIMARY KEY, parent REFERENCES parent DEFERRABLE INITIALLY DEFERRED);",
        )
        .expect("creates");
    let mut input = String::from("id,parent\n");
    for number in 1..=300 {
        let value = if number % 10 == 0 { 2 } else { 1 };
        writeln!(input, "{number},{value}").expect("writes");
    }
    let ended = place.run_with(&["-t", "child", "--json"], input.as_bytes()).expect(1);
    assert_eq!(
        (&ended.summary()["committed"], &ended.summary()["rejected"]),
        (&270.into(), &30.into())
    );
    assert_eq!(place.column("SELECT count(*) FROM child WHERE parent = 2"), ["0"]);
    assert_eq!(place.column("SELECT record FROM _groupcommit_rejects LIMIT 2"), ["10", "20"]);
}
