//! --resume and --restart, without any violence.

mod common;

use common::Place;

/// Leaves an ingest of `good.csv` into `t` unfinished behind its third record.
fn unfinished() -> Place {
    let place = Place::new();
    // The third record is the last, and the ledger is put back to "not finished"; then the file grows.
    place.write("good.csv", "a,b\n1,x\n2,y\n3,z\n");
    place.run(&["-t", "t", "good.csv"]).expect(0);
    place.database().execute_batch("UPDATE _groupcommit_ingest SET finished = 0").expect("updates");
    place.write("good.csv", "a,b\n1,x\n2,y\n3,z\n4,v\n5,w\n");
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
    place
        .run(&["-t", "t", "other.csv", "--resume"])
        .expect(2)
        .says("first 3 records are not the same");
    let ended = place.run(&["-t", "t", "short.csv", "--resume"]).expect(2);
    ended.says("it has only 1 record, and 3 records are durable");
    place.run(&["-t", "t", "good.csv", "--resume", "--null", "NA"]).expect(2).says("other options");
    place.write("good.csv", "b,a\n1,x\n2,y\n3,z\n4,v\n");
    place.run(&["-t", "t", "good.csv", "--resume"]).expect(2).says("not the same");
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
    // Once more by mistake: the rows are not doubled. Another input of the same name is another.
    place.run(&["-t", "t", "in.csv"]).expect(2).says("to its end (3 records)").says("--restart");
    assert_eq!(place.column("SELECT count(*) FROM t"), ["3"]);
    place.run(&["-t", "t", "in.csv", "--restart"]).expect(0);
    assert_eq!(place.column("SELECT count(*) FROM t"), ["6"]);
    place.write("in.csv", "a\n7\n");
    place.run(&["-t", "t", "in.csv"]).expect(0);
    assert_eq!(place.column("SELECT count(*) FROM t"), ["7"]);
}

#[test]
fn two_inputs_go_into_one_table_each_with_its_own_position() {
    let place = unfinished();
    place.write("other.csv", "a,b\n6,u\n");
    place.run(&["-t", "t", "other.csv"]).expect(0);
    place.write("other.csv", "a,b\n6,u\n7,t\n");
    place.run(&["-t", "t", "other.csv", "--resume"]).expect(0);
    place.run(&["-t", "t", "good.csv", "--resume"]).expect(0);
    assert_eq!(place.column("SELECT a FROM t ORDER BY a"), ["1", "2", "3", "4", "5", "6", "7"]);
    // A pipe may bring one input after the other.
    place.run_with(&["-t", "t"], b"a,b\n8,s\n").expect(0);
    place.run_with(&["-t", "t"], b"a,b\n9,r\n").expect(0);
    place.run_with(&["-t", "t"], b"a,b\n9,r\n").expect(2).says("already");
    assert_eq!(place.column("SELECT count(*) FROM t"), ["9"]);
}

#[test]
fn one_record_is_spoken_of_in_the_singular() {
    let place = Place::new();
    place.write("in.csv", "a\n1\n");
    let ended = place.run(&["-t", "t", "in.csv"]).expect(0);
    assert!(ended.out.starts_with("t: 1 record committed"), "{ended:?}");
    place.write("in.csv", "a\n2\n");
    place
        .run(&["-t", "t", "in.csv", "--resume"])
        .expect(2)
        .says("its first record is not the same");
}

#[test]
fn the_rejects_of_earlier_runs_stay_in_the_file_and_in_the_exit_code() {
    let place = Place::new();
    place.write("in.csv", "a\n1\nx\n2\n");
    let arguments = ["-t", "t", "in.csv", "--type", "a=integer", "--rejects", "bad.csv"];
    place.run(&arguments).expect(1);
    place.write("in.csv", "a\n1\nx\n2\ny\n3\n");
    // The same command, --type included.
    place.run(&[&arguments[..], &["--resume"]].concat()).expect(1);
    let contents: Vec<_> =
        place.rejects("bad.csv").into_iter().map(|mut reject| reject.remove(3)).collect();
    assert_eq!(contents, ["x", "y"]);
    assert_eq!(place.column("SELECT a FROM t"), ["1", "2", "3"]);
}
