//! SQL: one statement a line, each its own transaction.

mod common;

use std::fmt::Write as _;

use common::Place;

#[test]
fn each_line_stands_or_falls_alone() {
    let place = Place::new();
    place.write(
        "dump.sql",
        concat!(
            "-- a dump\n",
            "CREATE TABLE t (a INTEGER PRIMARY KEY, b);\n",
            "\n",
            "INSERT INTO t VALUES (1, 'x');\n",
            "INSERT INTO t VALUES (1, 'again');\n",
            "INSERT OR FAIL INTO t VALUES (2, 'kept?'), (1, 'fails');\n",
            "INSERT OR ROLLBACK INTO t VALUES (1, 'ends the transaction');\n",
            "INSERT INTO nowhere VALUES (1);\n",
            "BEGIN;\n",
            "INSERT INTO t VALUES (3, 'z')\n",
            "UPDATE t SET b = b || '!' WHERE a = 1; INSERT INTO t VALUES (1, 'undoes the line');\n",
            "SELECT * FROM t;\n",
        ),
    );
    place.run(&["dump.sql", "--rejects", "bad.csv"]).expect(1);
    assert_eq!(place.rows("SELECT a, b FROM t"), [["1", "'x'"], ["3", "'z'"]]);
    let rejects = place.rejects("bad.csv");
    let lines: Vec<_> = rejects.iter().map(|reject| reject[1].as_str()).collect();
    assert_eq!(lines, ["5", "6", "7", "8", "11"]);
    assert!(rejects[0][2].contains("UNIQUE"), "{rejects:?}");
    assert!(rejects[3][2].contains("no such table: nowhere"), "{rejects:?}");
    assert_eq!(rejects[2][3], "INSERT OR ROLLBACK INTO t VALUES (1, 'ends the transaction');");
}

#[test]
fn the_output_of_dump_makes_the_same_database() {
    let place = Place::new();
    // As the shell of SQLite writes it: a frame, statements of several lines, and a trigger.
    let dump = "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\nCREATE TABLE t\n(a INTEGER PRIMARY KEY,\n b TEXT -- ; '\n);\n\
                INSERT INTO t VALUES(1,'one;\n\ntwo');\nCREATE TABLE log(a);\n\
                CREATE TRIGGER g AFTER INSERT ON t BEGIN\n  INSERT INTO log VALUES (new.a);\nEND;\n\
                INSERT INTO t VALUES(2,'z');\nCOMMIT;\n";
    let ended = place.run_with(&["--json"], dump.as_bytes()).expect(0);
    assert_eq!(ended.summary()["committed"], 5);
    assert_eq!(place.rows("SELECT a, b FROM t"), [["1", "'one;\n\ntwo'"], ["2", "'z'"]]);
    assert_eq!(place.column("SELECT a FROM log"), ["2"]);
}

#[test]
fn many_lines_that_end_the_transaction_cost_no_neighbour() {
    let place = Place::new();
    let mut input = String::from("CREATE TABLE t (a INTEGER PRIMARY KEY);\n");
    for number in 1..=500 {
        writeln!(input, "INSERT OR ROLLBACK INTO t VALUES ({number});").expect("writes");
        if number % 7 == 0 {
            input.push_str("INSERT OR ROLLBACK INTO t VALUES (1);\n");
        }
    }
    let ended = place.run_with(&["--format", "sql", "--json"], input.as_bytes()).expect(1);
    assert_eq!(ended.summary()["rejected"], 71);
    assert_eq!(place.column("SELECT count(*), sum(a) FROM t"), ["500"]);
    assert_eq!(place.column("SELECT sum(a) FROM t"), ["125250"]);
}
