//! What becomes NULL, and what does not.

mod common;

use common::Place;

const INPUT: &[u8] = b"n,t\n1,x\n,\nNA,NA\n-,-\n";

#[test]
fn an_empty_field_is_null_only_where_a_number_is_expected() {
    let place = Place::new();
    place.run_with(&["-t", "t", "--null", "NA", "--null", "-"], INPUT).expect(0);
    assert_eq!(
        place.rows("SELECT n, t FROM t"),
        [["1", "'x'"], ["NULL", "''"], ["NULL", "NULL"], ["NULL", "NULL"]]
    );
}

#[test]
fn without_the_option_the_same_texts_are_values() {
    let place = Place::new();
    place.run_with(&["-t", "t"], INPUT).expect(0);
    assert_eq!(
        place.rows("SELECT n, t FROM t"),
        [["'1'", "'x'"], ["''", "''"], ["'NA'", "'NA'"], ["'-'", "'-'"]]
    );
}

#[test]
fn the_empty_text_can_be_null_everywhere() {
    let place = Place::new();
    place.run_with(&["-t", "t", "--null", "", "--null=NA", "--null=-"], INPUT).expect(0);
    assert_eq!(place.column("SELECT count(*) FROM t WHERE t IS NULL AND n IS NULL"), ["3"]);
}
