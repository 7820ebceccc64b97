//! NDJSON: keys become columns, nested values stay JSON.

mod common;

use common::Place;

#[test]
fn keys_of_the_sample_become_columns_and_values_keep_their_text() {
    let place = Place::new();
    place.write(
        "events.jsonl",
        concat!(
            "{\"id\": 1, \"name\": \"caf\\u00e9\", \"ok\": true, \"tags\": [\"a\", {\"b\": 2.50}]}\n",
            "\n",
            "{\"name\": null, \"id\": 2, \"score\": 0.5}\r\n",
            "{\"id\": 3, \"score\": 2, \"name\": \"NA\", \"ok\": false, \"tags\": 12345678901234567890.5}",
        ),
    );
    place.run(&["-t", "e", "--null", "NA", "events.jsonl"]).expect(0);
    assert_eq!(
        place.rows("SELECT id, name, ok, tags, score FROM e"),
        [
            ["1", "'café'", "1", "'[\"a\", {\"b\": 2.50}]'", "NULL"],
            ["2", "NULL", "NULL", "NULL", "0.5"],
            ["3", "NULL", "0", "'12345678901234567890.5'", "2.0"],
        ]
    );
    assert_eq!(
        place.column("SELECT type FROM pragma_table_info('e')"),
        ["'INTEGER'", "'TEXT'", "'BOOLEAN'", "'TEXT'", "'REAL'"]
    );
    assert_eq!(place.column("SELECT json_extract(tags, '$[1].b') FROM e WHERE id = 1"), ["2.5"]);
}

#[test]
fn bad_lines_are_rejected_and_their_neighbours_commit() {
    let place = Place::new();
    let input = b"{\"a\":1}\n{\"a\":\n[1]\n{\"a\":\"x\"}\n{\"a\":2}\n{\"b\":1}\n{\"a\":3}\n";
    place.write("in.ndjson", input);
    // Only the first record is the sample, so `b` comes too late to be a column.
    place.run(&["-t", "t", "--sample", "1", "--rejects", "bad.csv", "in.ndjson"]).expect(1);
    assert_eq!(place.column("SELECT a FROM t"), ["1", "2", "3"]);
    let rejects = place.rejects("bad.csv");
    let lines: Vec<_> =
        rejects.iter().map(|reject| (reject[1].as_str(), reject[3].as_str())).collect();
    assert_eq!(lines, [("2", "{\"a\":"), ("3", "[1]"), ("4", "{\"a\":\"x\"}"), ("6", "{\"b\":1}")]);
}

#[test]
fn json_is_recognised_on_standard_input() {
    let place = Place::new();
    place.run_with(&["-t", "t"], b"\n {\"a\":1,\"b\":\"x,y\"}\n").expect(0);
    assert_eq!(place.rows("SELECT a, b FROM t"), [["1", "'x,y'"]]);
}

#[test]
fn arrays_and_keys_that_differ_in_case_are_explained() {
    let place = Place::new();
    place.write("in.json", "[\n  {\"a\": 1},\n  {\"a\": 2}\n]\n");
    place.run(&["-t", "t", "in.json"]).expect(2).says("JSON array").says("jq -c '.[]'");
    place.run_with(&["-t", "t"], b"[{\"a\":1}]").expect(2).says("JSON array");
    let ended = place.run_with(&["-t", "t"], b"{\"a\":1}\n{\"A\":2}\n").expect(2);
    ended.says("\"a\" and \"A\" differ only in case");
    let ended =
        place.run_with(&["-t", "t", "--sample", "1"], b"{\"a\":1}\n{\"A\":2}\n[3]\n").expect(1);
    let ended = ended.says("key \"A\" differs in case from column \"a\"");
    ended.says("a JSON array, not an object");
}

#[test]
fn an_existing_table_must_have_a_column_for_every_key() {
    let place = Place::new();
    place
        .database()
        .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (a, d DEFAULT 'left alone')")
        .expect("creates");
    place
        .run_with(&["-t", "t", "--format", "ndjson"], b"{\"a\":1,\"x\":2,\"y\":3}\n")
        .expect(2)
        .says("x, y");
    place
        .run_with(&["-t", "t", "--format", "ndjson"], b"{\"a\":[1]}\n{\"a\":\"7\"}\n{\"a\":7}\n")
        .expect(0);
    assert_eq!(
        place.rows("SELECT a, d FROM t"),
        [["'[1]'", "'left alone'"], ["'7'", "'left alone'"], ["7", "'left alone'"]]
    );
}
