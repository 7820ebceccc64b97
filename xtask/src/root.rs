//! Where the project lies, and which files of it the commands read.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// The project's root folder.
pub(crate) fn root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own)
}

/// The text of a file of the project.
pub(crate) fn read(path: impl AsRef<Path>) -> Result<String> {
    let path = root().join(path);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// The files of the documentation, relative to the root.
pub(crate) fn documents() -> Result<Vec<PathBuf>> {
    let mut documents =
        ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"].map(PathBuf::from).to_vec();
    for folder in ["docs", "data"] {
        for entry in fs::read_dir(root().join(folder)).context("cannot list the documentation")? {
            let name = entry?.file_name();
            let path = Path::new(folder).join(name);
            if path.extension().is_some_and(|extension| extension == "md") {
                documents.push(path);
            }
        }
    }
    documents.sort();
    Ok(documents)
}
