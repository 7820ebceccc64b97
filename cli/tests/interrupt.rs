//! Ctrl-C drains, says exactly what is durable, and --resume continues there.

mod common;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;

use common::{Ended, Place, signal};
use nix::sys::signal::Signal;

#[test]
fn ctrl_c_on_a_quiet_pipe_drains_and_tells_what_is_durable() {
    let place = Place::new();
    // The last line is only begun: it is no record yet.
    let (child, input) =
        place.fed(&["-t", "t", "--sample", "1", "--json"], b"a,b\n1,x\n2,y\n3,z\n4,", 3);
    signal(&child, Signal::SIGINT);
    let ended = Ended::from(child.wait_with_output().expect("ends")).expect(130);
    drop(input); // the pipe was open all the time: it was not the end of input that ended the program
    let ended = ended.says("every record through number 3 (line 4) is durable").says("--resume");
    let summary = ended.summary();
    assert_eq!(
        (&summary["outcome"], &summary["position"], &summary["durable"]),
        (&"interrupted".into(), &3.into(), &true.into())
    );
    assert_eq!(place.column("SELECT b FROM t"), ["'x'", "'y'", "'z'"]);

    place
        .run_with(&["-t", "t", "--sample", "1", "--resume"], b"a,b\n1,x\n2,y\n3,z\n4,v\n")
        .expect(0);
    assert_eq!(place.column("SELECT b FROM t"), ["'x'", "'y'", "'z'", "'v'"]);
}

#[test]
fn a_signal_before_the_first_record_begins_nothing() {
    let place = Place::new();
    let mut child = place.ingest(&["-t", "t", "-"]).stdin(Stdio::piped()).spawn().expect("starts");
    let input = child.stdin.take().expect("piped");
    // The program polls its input only once its handler is in place: the signal is caught from then on.
    wait_until_polling(&child);
    signal(&child, Signal::SIGTERM);
    let ended = Ended::from(child.wait_with_output().expect("ends"));
    drop(input);
    ended.expect(130).says("nothing was ingested");
    assert!(!place.path("test.db").exists());
}

/// Waits until the process's main thread sleeps in poll(2) on its input.
fn wait_until_polling(child: &std::process::Child) {
    let path = format!("/proc/{}/wchan", child.id());
    loop {
        let mut channel = String::new();
        let read =
            std::fs::File::open(&path).and_then(|mut file| file.read_to_string(&mut channel));
        if read.is_err() || channel.contains("poll") {
            return;
        }
        std::thread::yield_now();
    }
}

#[test]
fn progress_is_plain_lines_where_there_is_no_terminal() {
    let place = Place::new();
    let mut child =
        place.ingest(&["-t", "t", "--sample", "1"]).stdin(Stdio::piped()).spawn().expect("starts");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(b"a\n1\n2\n").expect("writes");
    let mut progress = String::new();
    let mut lines = BufReader::new(child.stderr.take().expect("piped"));
    // The pipe stays open until a line has come: progress goes on while the input is quiet.
    while !progress.contains("2 records durable") {
        progress.clear();
        assert_ne!(lines.read_line(&mut progress).expect("reads"), 0, "the program ended");
    }
    drop(input);
    assert_eq!(child.wait().expect("ends").code(), Some(0));
    assert!(progress.starts_with("groupcommit: ") && progress.contains("records/s"), "{progress}");
    assert!(!progress.contains('\u{1b}') && !progress.contains('\r'), "{progress:?}");
}
