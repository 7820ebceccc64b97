//! What is wrong in the documentation.

use std::path::Path;

/// Something wrong in a document.
#[derive(Debug)]
pub(crate) struct Problem {
    /// `FILE:LINE`.
    pub(crate) place: String,
    /// What is wrong, as a sentence.
    pub(crate) sentence: String,
}

impl Problem {
    pub(crate) fn new(path: &Path, line: usize, sentence: impl Into<String>) -> Self {
        Self { place: format!("{}:{line}", path.display()), sentence: sentence.into() }
    }
}
