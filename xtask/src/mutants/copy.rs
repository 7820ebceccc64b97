//! The copy of the sources that mutants are put into.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::{program::target_folder, root::root};

/// Where mutants are built: all of them in one folder, so that what they depend on is built once,
/// but never in the one of the real sources. Cargo takes the crates of two copies of a workspace for
/// the same, and would hand out a mutant as the real thing.
pub(crate) fn folder() -> PathBuf {
    target_folder().join("mutants")
}

/// A fresh copy of the sources.
pub(crate) fn of_the_sources() -> Result<PathBuf> {
    let copy = folder().join("source");
    mirror(root(), &copy)?;
    Ok(copy)
}

/// Neither the repository's history nor what was built is copied.
fn is_source(path: &Path) -> bool {
    !path.ends_with(".git") && !path.join("CACHEDIR.TAG").exists()
}

/// Makes `to` equal to `from`; what is equal already is left alone, so that it is not built again.
pub(crate) fn mirror(from: &Path, to: &Path) -> Result<()> {
    let failed = || format!("cannot copy {}", from.display());
    if !from.is_dir() {
        let content = fs::read(from).with_context(failed)?;
        if fs::read(to).ok().as_ref() != Some(&content) {
            fs::write(to, content).with_context(failed)?;
        }
        return Ok(());
    }
    fs::create_dir_all(to).with_context(failed)?;
    let names = |folder: &Path| -> Result<Vec<PathBuf>> {
        let entries = fs::read_dir(folder).with_context(failed)?;
        entries.map(|entry| Ok(entry?.file_name().into())).collect()
    };
    let mut kept = names(from)?;
    kept.retain(|name| is_source(&from.join(name)));
    for gone in names(to)?.iter().filter(|name| !kept.contains(name)) {
        let gone = to.join(gone);
        let removed =
            if gone.is_dir() { fs::remove_dir_all(&gone) } else { fs::remove_file(&gone) };
        removed.with_context(failed)?;
    }
    kept.iter().try_for_each(|name| mirror(&from.join(name), &to.join(name)))
}

/// The names of the patches in a folder of the project, in order.
pub(crate) fn patches_in(folder: &str) -> Result<Vec<String>> {
    let entries =
        fs::read_dir(root().join(folder)).with_context(|| format!("cannot list {folder}"))?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
    let patches = paths.iter().filter(|path| path.extension().is_some_and(|it| it == "patch"));
    let mut names: Vec<String> =
        patches.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).collect();
    names.sort();
    Ok(names)
}

/// Applies a patch, named by its path in the project, to the copy and nowhere else.
pub(crate) fn apply(patch: &str, copy: &Path) -> Result<()> {
    let said =
        fs::read_to_string(root().join(patch)).with_context(|| format!("cannot read {patch}"))?;
    let changed: Vec<PathBuf> =
        said.lines().filter_map(|line| line.strip_prefix("+++ b/")).map(|p| copy.join(p)).collect();
    ensure!(!changed.is_empty(), "{patch} changes nothing");
    let read = || changed.iter().map(fs::read).collect::<Result<Vec<_>, _>>();
    let before = read()?;
    let output = Command::new("git")
        .arg("apply")
        .arg(root().join(patch))
        .current_dir(copy)
        // Else it would look for the repository around the copy, and leave out what is not in it.
        .env("GIT_CEILING_DIRECTORIES", copy.parent().unwrap_or(copy))
        .output()
        .context("cannot start git, which applies the mutants")?;
    let why = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success() && read()? != before,
        "{patch} no longer applies; make it anew: {why}"
    );
    Ok(())
}
