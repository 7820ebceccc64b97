//! A failure goes through `?` into the error types that programs use, whatever the caller's own is.
#![cfg(not(shuttle))]

mod common;

use std::{error::Error, io};

use common::{Disk, Tx, open};
use groupcommit_core::Failure;

type Boxed = Box<dyn Error + Send + Sync>;

/// What a transaction comes to that returns `error`.
fn fail<E: Send + 'static>(error: fn() -> E) -> Result<(), Failure<E>> {
    let pipeline = open(&Disk::new());
    pipeline.transact(move |_: &mut Tx| Err(error()))
}

#[test]
fn every_error_of_a_caller_passes_through_the_question_mark() {
    let boxed = || -> Result<(), Boxed> {
        fail::<Boxed>(|| "no".into())?;
        Ok(())
    };
    let plain = || -> Result<(), Box<dyn Error>> {
        fail(|| io::Error::other("no"))?;
        Ok(())
    };
    let any = || -> anyhow::Result<()> {
        fail(|| anyhow::anyhow!("no").context("a sentence"))?;
        Ok(())
    };
    assert_eq!(boxed().unwrap_err().to_string(), "rejected: no");
    assert_eq!(plain().unwrap_err().to_string(), "rejected: no");
    assert_eq!(any().unwrap_err().to_string(), "rejected: a sentence: no");
}
