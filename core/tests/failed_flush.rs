//! Promises 6 and 7: the four outcomes, and that a failed flush is final.

mod common;

use common::{Disk, explore, open, put, thread};
use groupcommit_core::{Failure, NotRun, Outcome};

#[test]
fn nothing_is_called_durable_after_a_failed_flush() {
    explore(|| {
        let disk = Disk::failing_after(1);
        let pipeline = open(&disk);
        let writers: Vec<_> = (0..3_u64)
            .map(|writer| {
                let (pipeline, disk) = (pipeline.clone(), disk.clone());
                thread::spawn(move || {
                    for n in 0..2 {
                        let value = writer * 10 + n;
                        match pipeline.submit(put(value)).wait() {
                            Ok(_) => assert!(disk.durable().contains(&value)),
                            Err(Failure::Unknown(_)) => assert!(disk.values().contains(&value)),
                            Err(Failure::NotRun(NotRun::Failed(_))) => {
                                assert!(!disk.values().contains(&value), "it was run");
                            }
                            Err(other) => panic!("{other:?}"),
                        }
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        // The disk says that all is well again, but nobody asks it.
        assert!(disk.flushes.load(std::sync::atomic::Ordering::Relaxed) <= 2);
        let refused = pipeline.transact(put(99));
        if disk.flushes.load(std::sync::atomic::Ordering::Relaxed) == 2 {
            assert_eq!(Outcome::of(&refused), Outcome::NotRun);
            assert!(pipeline.flush().is_err());
            assert!(pipeline.close().is_err());
        }
    });
}

#[test]
fn a_rejected_member_stays_rejected_when_its_flush_fails() {
    explore(|| {
        let disk = Disk::failing_after(0);
        let pipeline = open(&disk);
        let kept = pipeline.submit(put(1));
        let rejected = pipeline.submit(|tx: &mut common::Tx| {
            tx.put(2);
            Err::<(), _>("no")
        });
        let panicked = pipeline
            .submit(|_: &mut common::Tx| -> Result<(), String> { panic!("a test's panic") });
        assert_eq!(Outcome::of(&kept.wait()), Outcome::Unknown);
        let outcome = Outcome::of(&rejected.wait());
        assert!(matches!(outcome, Outcome::Rejected | Outcome::NotRun), "{outcome:?}");
        let outcome = Outcome::of(&panicked.wait());
        assert!(matches!(outcome, Outcome::Rejected | Outcome::NotRun), "{outcome:?}");
        assert!(!disk.values().contains(&2));
    });
}
