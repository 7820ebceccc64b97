//! A disk that runs full in the middle of an ingest, and a log or a database that vanishes under it.

mod common;

use std::io::{BufRead as _, BufReader, Write as _};
use std::iter;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Ended, Place};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Runs a command for which a right may be missing; says so where it fails.
fn may(program: &str, arguments: &[&str]) -> bool {
    let done = Command::new(program).args(arguments).output();
    let done = done.is_ok_and(|output| output.status.success());
    if !done {
        eprintln!("skipped: `{program} {}` is not possible here", arguments.join(" "));
    }
    done
}

/// A small ext4 on a loop device, unmounted at the end.
struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    fn mount(megabytes: u64) -> Option<Self> {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let (image, point) = (folder.path().join("image"), folder.path().join("disk"));
        std::fs::create_dir(&point).expect("creates");
        let file = std::fs::File::create(&image).expect("creates");
        file.set_len(megabytes << 20).expect("sets its length");
        let (image, point) = (text(&image), text(&point));
        let made = may("mkfs.ext4", &["-q", "-F", "-m", "0", image])
            && may("mount", &["-o", "loop", image, point]);
        made.then_some(Self { folder })
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join("disk").join(name)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        may("umount", &["-l", text(&self.folder.path().join("disk"))]);
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn a_disk_that_runs_full_stops_it_at_a_durable_position_and_it_goes_on_when_there_is_room() {
    const RECORDS: u64 = 60_000;
    let Some(disk) = SmallDisk::mount(32) else { return };
    std::fs::write(disk.path("ballast"), vec![7; 20 << 20]).expect("fits");
    let place = Place::new();
    let lines = (1..=RECORDS).map(|number| format!("{number},{}\n", "x".repeat(200)));
    let input: String = iter::once("a,b\n".to_owned()).chain(lines).collect();
    let input = place.write("in.csv", input);
    let ingest = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_groupcommit"));
        command.arg("ingest").arg(disk.path("test.db")).args(["-t", "t", "--json"]).args(more);
        Ended::from(command.arg(&input).output().expect("runs"))
    };

    let full = ingest(&[]).expect(2).says("full").says("--resume");
    let durable = full.summary()["position"].as_u64().expect("a number");
    assert!(durable > 0 && durable < RECORDS, "{durable}");
    // Still full: nothing more goes in, and nothing is lost.
    ingest(&["--resume"]).expect(2).says("full");

    std::fs::remove_file(disk.path("ballast")).expect("removes");
    let done = ingest(&["--resume"]).expect(0);
    assert_eq!(done.summary()["position"], RECORDS, "{done:#?}");
    let database = rusqlite::Connection::open(disk.path("test.db")).expect("opens");
    let counted: (i64, i64, i64) = database
        .query_row("SELECT count(*), sum(a), sum(length(b)) FROM t", (), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .expect("counts");
    let records = RECORDS.cast_signed();
    assert_eq!(counted, (records, records * (records + 1) / 2, records * 200));
}

#[test]
fn a_log_that_vanishes_leaves_the_outcome_unknown_which_is_exit_code_3() {
    let place = Place::new();
    let (child, mut input) = place.fed(&["-t", "t", "--sample", "1", "--json"], b"a\n1\n2\n", 2);
    std::fs::remove_file(place.path("test.db-wal")).expect("removes");
    input.write_all(b"3\n4\n").expect("writes");
    drop(input);
    let ended = Ended::from(child.wait_with_output().expect("ends")).expect(3);
    let ended = ended.says("unknown").says("test.db-wal").says("--resume");
    assert_eq!(ended.summary()["outcome"], "unknown");
    place.run_with(&["-t", "t", "--resume"], b"a\n1\n2\n3\n4\n").expect(0);
    assert_eq!(place.column("SELECT a FROM t"), ["1", "2", "3", "4"]);
}

#[test]
fn a_database_that_is_deleted_amid_an_ingest_is_no_success() {
    let place = Place::new();
    let (child, mut input) = place.fed(&["-t", "t", "--sample", "1", "--json"], b"a\n1\n2\n", 2);
    for ending in ["", "-wal", "-shm"] {
        std::fs::remove_file(place.path(&format!("test.db{ending}"))).expect("removes");
    }
    input.write_all(b"3\n4\n").expect("writes");
    drop(input);
    let ended = Ended::from(child.wait_with_output().expect("ends"));
    let summary = ended.summary();
    assert_eq!((&summary["outcome"], &summary["durable"]), (&"unknown".into(), &false.into()));
    // The records that another process saw may or may not have been flushed by then.
    assert!(summary["position"].as_u64().expect("a number") <= 2, "{ended:#?}");
    ended.expect(3).says("test.db");
}

#[test]
fn a_database_that_is_deleted_before_ctrl_c_is_not_called_durable() {
    let place = Place::new();
    let mut child = place
        .ingest(&["-t", "t", "--sample", "1", "--json"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(b"a\n1\nno number\n").expect("writes");
    // Told once it is durable, and so no flush is under way when the file goes.
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line.contains("rejected"))));
    std::fs::remove_file(place.path("test.db")).expect("removes");
    kill(Pid::from_raw(i32::try_from(child.id()).expect("a pid")), Signal::SIGINT)
        .expect("signals");
    let said: Vec<_> = lines.map(|line| line.expect("a line")).collect();
    let ended = Ended::from(child.wait_with_output().expect("ends"));
    drop(input); // the pipe was open all the time: it was not the end of input that ended the program
    assert_eq!(ended.summary()["durable"], false, "{ended:#?}");
    ended.expect(3);
    assert!(said.iter().any(|line| line.contains("cannot close")), "{said:?}");
}
