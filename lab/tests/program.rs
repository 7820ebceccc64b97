//! `groupcommit-bench` as a user runs it: measure, compare, draw, and be refused.

use std::path::Path;
use std::process::{Command, Output};

fn bench(arguments: &[&str], folder: &Path) -> Output {
    let program = env!("CARGO_BIN_EXE_groupcommit-bench");
    Command::new(program).args(arguments).current_dir(folder).output().expect("starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn records_of_a_run_are_compared_and_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = ["write", "--rows=300", "--batch=1", "--in-flight=20", "--repeat=1"];
    let measured = bench(&write, folder.path());
    assert!(measured.status.success(), "{}", text(&measured.stderr));
    assert!(text(&measured.stdout).contains("groupcommit-async"), "{}", text(&measured.stdout));
    assert!(text(&measured.stderr).contains("300 rows verified"), "{}", text(&measured.stderr));

    let compared = bench(&["compare", "bench-results", "bench-results"], folder.path());
    assert!(compared.status.success(), "{}", text(&compared.stderr));
    assert!(text(&compared.stdout).contains("1.00"), "{}", text(&compared.stdout));

    let drawn = bench(&["report", "bench-results", "--out", "page"], folder.path());
    assert!(drawn.status.success(), "{}", text(&drawn.stderr));
    let page = folder.path().join(text(&drawn.stdout).trim());
    assert_eq!(page, folder.path().join("page/report.html"));
    assert!(page.is_file());

    let shown = bench(&["report", "bench-results", "--format", "text"], folder.path());
    assert_eq!(
        text(&shown.stdout),
        text(&measured.stdout),
        "a run prints the report of its records"
    );
    let file = ["report", "bench-results/results.json", "--format=markdown", "--out=measured.md"];
    assert!(bench(&file, folder.path()).status.success());
    let markdown = std::fs::read_to_string(folder.path().join("measured.md")).expect("written");
    assert!(markdown.contains("| groupcommit-async |"), "{markdown}");
}

#[test]
fn a_folder_without_records_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    for arguments in [&["report", "nowhere/at-all"][..], &["compare", "nowhere/at-all", "."]] {
        let refused = bench(arguments, folder.path());
        assert_eq!(refused.status.code(), Some(2));
        let sentence = text(&refused.stderr);
        assert!(
            sentence.starts_with("groupcommit-bench: could not read nowhere/at-all"),
            "{sentence}"
        );
        assert!(sentence.contains("No such file"), "the cause is missing: {sentence}");
    }
    assert_eq!(bench(&["report"], folder.path()).status.code(), Some(2), "a folder is needed");
}
