//! --resume and --restart, without any violence.

mod common;

use common::Place;

/// Leaves an ingest of `good.csv` into `t` unfinished behind its third record.
fn unfinished() -> Place {
    let place = Place::new();
    place.write("good.csv", "a,b\n1,x\n2,y\n3,z\n4,v\n5,w\n");
    // The third record is the last: then the file is cut, and the ledger put back to "not finished".
    place.run_with(&["-t", "t"], b"a,b\n1,x\n2,y\n3,z\n").expect(0);
    place.database().execute_batch("UPDATE _groupcommit_ingest SET finished = 0").expect("updates");
    place
}

#[test]
fn an_unfinished_ingest_is_not_begun_again_by_accident() {
    let place = unfinished();
    place
        .run(&["-t", "t", "good.csv"])
        .expect(2)
        .says("--resume")
        .says("--restart")
        .says("record 3");
    let ended = place.run(&["-t", "T", "good.csv", "--resume", "--json"]).expect(0);
    assert_eq!(
        (&ended.summary()["resumed_from"], &ended.summary()["records"]),
        (&3.into(), &2.into())
    );
    assert_eq!(place.column("SELECT a FROM t"), ["1", "2", "3", "4", "5"]);
}

#[test]
fn restart_begins_at_the_first_record_and_leaves_the_rows() {
    let place = unfinished();
    place.run(&["-t", "t", "good.csv", "--restart"]).expect(0);
    assert_eq!(place.column("SELECT a FROM t"), ["1", "2", "3", "1", "2", "3", "4", "5"]);
    place.run(&["-t", "t", "good.csv", "--restart", "--resume"]).expect(2);
}

#[test]
fn another_input_or_other_options_are_refused() {
    let place = unfinished();
    place.write("other.csv", "a,b\n1,x\n2,CHANGED\n3,z\n4,v\n");
    place.write("short.csv", "a,b\n1,x\n");
    place.write("header.csv", "b,a\n1,x\n2,y\n3,z\n4,v\n");
    place
        .run(&["-t", "t", "other.csv", "--resume"])
        .expect(2)
        .says("first 3 records are not the same");
    place.run(&["-t", "t", "header.csv", "--resume"]).expect(2).says("not the same");
    place.run(&["-t", "t", "short.csv", "--resume"]).expect(2).says("only 1 record");
    place.run(&["-t", "t", "good.csv", "--resume", "--null", "NA"]).expect(2).says("other options");
    assert_eq!(place.column("SELECT count(*) FROM t"), ["3"]);
}

#[test]
fn resume_begins_what_was_never_begun_and_says_when_nothing_is_left() {
    let place = Place::new();
    place.write("in.csv", "a\n1\n2\n");
    let first = place.run(&["-t", "t", "in.csv", "--resume", "--json"]).expect(0);
    assert_eq!(first.summary()["resumed_from"], serde_json::Value::Null);
    let second =
        place.run(&["-t", "t", "in.csv", "--resume", "--json"]).expect(0).says("finished already");
    assert_eq!(
        (&second.summary()["records"], &second.summary()["position"]),
        (&0.into(), &2.into())
    );
    place.write("in.csv", "a\n1\n2\n3\n");
    place.run(&["-t", "t", "in.csv", "--resume"]).expect(0);
    assert_eq!(place.column("SELECT a FROM t"), ["1", "2", "3"], "a file that grew is continued");
    place.run(&["-t", "t", "in.csv"]).expect(0);
    assert_eq!(
        place.column("SELECT count(*) FROM t"),
        ["6"],
        "a finished ingest is no obstacle to the next"
    );
}

#[test]
fn the_rejects_of_earlier_runs_stay_in_the_file_and_in_the_exit_code() {
    let place = Place::new();
    place.write("in.csv", "a\n1\nx\n2\n");
    let arguments = ["-t", "t", "in.csv", "--type", "a=integer", "--rejects", "bad.csv"];
    place.run(&arguments).expect(1);
    place.write("in.csv", "a\n1\nx\n2\ny\n3\n");
    place.run(&["-t", "t", "in.csv", "--rejects", "bad.csv", "--resume"]).expect(1);
    let contents: Vec<_> =
        place.rejects("bad.csv").into_iter().map(|mut reject| reject.remove(3)).collect();
    assert_eq!(contents, ["x", "y"]);
    assert_eq!(place.column("SELECT a FROM t"), ["1", "2", "3"]);
}
