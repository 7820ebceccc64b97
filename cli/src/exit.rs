//! How the program ends: the exit codes, and the sentence that goes with a failure.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

/// The documented exit codes. A script can rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything asked for was done and is durable.
    Durable,
    /// The input was read to its end; some records were rejected, all others are durable.
    Rejected,
    /// Wrong usage, or the environment refused: a missing file, a full disk, a lock held.
    Environment,
    /// A commit or its flush could not be confirmed.
    Unknown,
    /// Stopped by Ctrl-C or a termination signal, after draining: 128 + SIGINT, as shells count.
    Interrupted,
}

impl Exit {
    /// The number that the shell sees.
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Durable => 0,
            Exit::Rejected => 1,
            Exit::Environment => 2,
            Exit::Unknown => 3,
            Exit::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

/// A failure of the program: one sentence that says what failed, on what, and what to do.
#[derive(Debug)]
pub(crate) struct Problem {
    /// The exit code it leads to.
    pub(crate) exit: Exit,
    sentence: String,
}

impl Problem {
    /// A wrong usage or a refusing environment (exit code 2).
    pub(crate) fn environment(sentence: impl Into<String>) -> Self {
        Problem { exit: Exit::Environment, sentence: sentence.into() }
    }

    /// A stop asked for by a signal before anything was begun (exit code 130).
    pub(crate) fn interrupted(sentence: impl Into<String>) -> Self {
        Problem { exit: Exit::Interrupted, sentence: sentence.into() }
    }

    /// A commit or flush that could not be confirmed (exit code 3).
    pub(crate) fn unknown(sentence: impl Into<String>) -> Self {
        Problem { exit: Exit::Unknown, sentence: sentence.into() }
    }
}

/// An error with everything that caused it, as one part of a sentence. A cause that only repeats what
/// it caused is left out.
pub(crate) fn explain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        let said = deeper.to_string();
        if !said.contains(text.as_str()) && !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = deeper.source();
    }
    text
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.sentence)
    }
}
