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
    place
        .run_with(&["-t", "t"], b"1,2\n3,4\n")
        .expect(0)
        .says("is a number; a CSV needs a header line");
}
