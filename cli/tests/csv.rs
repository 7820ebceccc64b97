//! CSV: a created table holds exactly what the file says.

mod common;

use common::{Place, assert_equal_to_csv, flights_sample};

#[test]
fn the_sample_of_real_data_comes_back_equal() {
    let place = Place::new();
    let input = flights_sample();
    let ended = place
        .run(&["--table", "flights", "--null", "NA", "--json", input.to_str().expect("UTF-8")])
        .expect(0);
    let bytes = std::fs::read(&input).expect("reads");
    assert_equal_to_csv(&place, "flights", &bytes, &[]);
    let types = place.column("SELECT type FROM pragma_table_info('flights') WHERE name IN ('year', 'carrier', 'dep_time')");
    assert_eq!(types, ["'INTEGER'", "'INTEGER'", "'TEXT'"]);
    let summary = ended.summary();
    assert_eq!(summary["outcome"], "complete");
    assert_eq!(
        (&summary["records"], &summary["committed"], &summary["rejected"]),
        (&1500.into(), &1500.into(), &0.into())
    );
    assert_eq!(
        (&summary["durable"], &summary["resumed_from"]),
        (&true.into(), &serde_json::Value::Null)
    );
    assert!(summary["latency_ms"]["p50"].as_f64().expect("a number") > 0.0);
    assert!(summary["flushes"].as_u64().expect("a number") > 0);
}

#[test]
fn gzip_is_seen_through_in_a_file_and_on_standard_input() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, b"a,b\n1,x\n").expect("compresses");
    let mut bytes = encoder.finish().expect("compresses");
    // A gzip file may have several members: log rotation and `cat` make such files.
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, b"2,y\n").expect("compresses");
    bytes.extend(encoder.finish().expect("compresses"));

    let place = Place::new();
    place.write("input.csv.gz", &bytes);
    place.run(&["--table", "f", "input.csv.gz"]).expect(0);
    place.run_with(&["--table", "s", "-"], &bytes).expect(0);
    for table in ["f", "s"] {
        assert_eq!(place.rows(&format!("SELECT a, b FROM {table}")), [["1", "'x'"], ["2", "'y'"]]);
    }
}

#[test]
fn types_are_chosen_so_that_nothing_is_altered() {
    let place = Place::new();
    let input = "id,zip,price,big,note\n1,00701,1.50,9223372036854775807,\"two\nlines, \"\"quoted\"\"\"\n-2,10001,3,-9223372036854775808,\n";
    place.run_with(&["--table", "odd \"name\""], input.as_bytes()).expect(0);
    assert_eq!(
        place.rows("SELECT * FROM \"odd \"\"name\"\"\""),
        [
            ["1", "'00701'", "1.5", "9223372036854775807", "'two\nlines, \"quoted\"'"],
            ["-2", "'10001'", "3.0", "-9223372036854775808", "''"],
        ]
    );
}

#[test]
fn delimiters_types_and_byte_order_marks() {
    let place = Place::new();
    place.write("a.tsv", "\u{feff}id\tname\r\n1\tx,y\r\n");
    place.run(&["-t", "a", "a.tsv", "--type", "id=text"]).expect(0);
    place.run_with(&["-t", "a", "--delimiter", ";"], b"name;id\nz;2\n").expect(0);
    assert_eq!(place.rows("SELECT id, name FROM a"), [["'1'", "'x,y'"], ["'2'", "'z'"]]);
}

#[test]
fn a_header_alone_makes_an_empty_table() {
    let place = Place::new();
    place.run_with(&["-t", "t"], b"a,b\n").expect(0);
    assert_eq!(place.rows("SELECT a, b FROM t"), Vec::<Vec<String>>::new());
}

#[test]
fn a_header_of_numbers_is_remarked_upon() {
    let place = Place::new();
    place.run_with(&["-t", "t"], b"1,2\n3,4\n").expect(0).says("--no-header");
}

#[test]
fn zeros_behind_a_gzip_file_are_passed_over() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, b"a\n1\n2\n").expect("compresses");
    let mut bytes = encoder.finish().expect("compresses");
    bytes.extend([0; 10_000]);
    let place = Place::new();
    place.write("in.csv.gz", &bytes);
    place.run(&["-t", "t", "in.csv.gz"]).expect(0);
    assert_eq!(place.column("SELECT a FROM t"), ["1", "2"]);
}

#[test]
fn a_file_without_a_header_fills_the_columns_in_order() {
    let place = Place::new();
    place.run_with(&["-t", "made", "--no-header"], b"1,x\n2,y\n").expect(0);
    assert_eq!(place.rows("SELECT c1, c2 FROM made"), [["1", "'x'"], ["2", "'y'"]]);
    place
        .database()
        .execute_batch("CREATE TABLE t (name TEXT, twice AS (id * 2), id INTEGER)")
        .expect("creates");
    place.run_with(&["-t", "t", "--no-header"], b"x,1\n").expect(0);
    assert_eq!(place.rows("SELECT name, twice, id FROM t"), [["'x'", "2", "1"]]);
    place
        .run_with(&["-t", "t", "--no-header"], b"x,1,y\n")
        .expect(2)
        .says("3 fields")
        .says("2 columns");
}

#[test]
fn one_column_with_another_delimiter_in_it_is_asked_about() {
    let place = Place::new();
    place.run_with(&["-t", "t"], b"a;b\n1;2\n").expect(2).says("--delimiter ';'");
    place.run_with(&["-t", "t"], b"a\tb\n1\t2\n").expect(2).says("--delimiter tab");
    place.run_with(&["-t", "t", "--delimiter", ";"], b"a;b\n1;2\n").expect(0);
    place.run_with(&["-t", "one", "--delimiter", ","], b"a;b\n1;2\n").expect(0);
    assert_eq!(place.rows("SELECT a, b FROM t"), [["1", "2"]]);
    assert_eq!(place.rows("SELECT \"a;b\" FROM one"), [["'1;2'"]]);
}

#[test]
fn other_encodings_are_read_by_name_or_by_their_mark() {
    let place = Place::new();
    let ended = place.run_with(&["-t", "t"], b"a,b\n1,caf\xe9\n2,x\n").expect(1);
    ended.says("--encoding");
    place.run_with(&["-t", "l", "--encoding", "latin1"], b"a,b\n1,caf\xe9\n").expect(0);
    assert_eq!(place.column("SELECT b FROM l"), ["'café'"]);
    let utf_16 = "\u{feff}a\tb\r\n1\té😀\r\n".encode_utf16().flat_map(u16::to_le_bytes);
    place.write("excel.tsv", utf_16.collect::<Vec<_>>());
    place.run(&["-t", "u", "excel.tsv"]).expect(0);
    assert_eq!(place.column("SELECT b FROM u"), ["'é😀'"]);
    // What the encoding has no character for is rejected, not altered.
    let input = b"a,b\n1,\x81\xff\n2,\x83\x65\n";
    let ended = place.run_with(&["-t", "s", "--encoding", "shift_jis"], input).expect(1);
    ended.says("not valid Shift_JIS");
    assert_eq!(place.rows("SELECT a, b FROM s"), [["2", "'テ'"]]);
    place.run_with(&["-t", "t", "--encoding", "klingon"], b"").expect(2).says("windows-1252");
}

#[test]
fn ragged_records_are_accepted_by_choice() {
    let place = Place::new();
    let input = b"a,b,c\n1,x\n2,y,z,,\n3\n4,y,z,more\n";
    let ended = place.run_with(&["-t", "t", "--ragged"], input).expect(1);
    ended.says("there are 4 fields for 3 columns");
    assert_eq!(
        place.rows("SELECT a, b, c FROM t"),
        [["1", "'x'", "NULL"], ["2", "'y'", "'z'"], ["3", "NULL", "NULL"]]
    );
    let ended = place.run_with(&["-t", "t"], b"a,b,c\n5\n").expect(1);
    ended.says("there is 1 field for 3 columns");
}

#[test]
fn a_column_that_is_text_for_a_few_values_is_explained() {
    let place = Place::new();
    let input = b"n,zip,t\n1,10,x\nNA,20,y\n3,007,z\n";
    let ended = place.run_with(&["-t", "t"], input).expect(0);
    let ended = ended.says("column \"n\" is TEXT: \"NA\" in line 3 is no number; --null NA");
    let ended = ended.says("column \"zip\" is TEXT: \"007\" in line 4");
    assert!(!ended.err.contains("\"t\" is TEXT"), "{ended:?}");
}

#[test]
fn any_column_of_a_strict_table_keeps_text_as_it_is() {
    let place = Place::new();
    place
        .database()
        .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (a ANY) STRICT")
        .expect("creates");
    place.run_with(&["-t", "t"], b"a\n007\nx\n").expect(0);
    assert_eq!(place.column("SELECT a FROM t"), ["'007'", "'x'"]);
}

#[test]
fn the_help_has_examples() {
    let ended = Place::new().run(&["--help"]).expect(0);
    assert!(ended.out.contains("Examples:\n  groupcommit ingest app.db"), "{ended:?}");
}
