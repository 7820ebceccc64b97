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
    assert_eq!(place.column("SELECT id FROM t"), ["1", "6", "8"]);
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
            ("10", "13", "9,10,\"open\n10,10,i"),
        ]
    );
    for (reject, part) in
        rejects.iter().zip(["UNIQUE", "\"007\"", "2 fields", "CHECK", "\"x\"", "UTF-8", "quote"])
    {
        assert!(reject[2].contains(part), "{reject:?} should say {part}");
    }
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
