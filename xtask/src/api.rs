//! `cargo xtask api`: what each published library offers to its users, a line an item, in `docs/api`.
//! A change of an interface is a change of these files, so that nobody breaks one unnoticed.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, ensure};
use public_api::Builder;

use crate::{
    program::{cargo, target_folder},
    root::root,
};

/// The libraries, each with the features that show all of it. RocksDB's compiles C++ for many minutes
/// and offers what LMDB's does.
const LIBRARIES: [(&str, &str); 11] = [
    ("groupcommit", "bridge,sqlite,lmdb,postgres,mysql"),
    ("groupcommit-bridge", ""),
    ("groupcommit-core", ""),
    ("groupcommit-lmdb", ""),
    ("groupcommit-medium", ""),
    ("groupcommit-mysql", ""),
    ("groupcommit-postgres", ""),
    ("groupcommit-remote", ""),
    ("groupcommit-serve", ""),
    ("groupcommit-sqlite", ""),
    ("groupcommit-statement", ""),
];

pub(crate) fn write() -> Result<()> {
    for (library, features) in LIBRARIES {
        let path = listing(library);
        fs::write(&path, offered(library, features)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Fails when a library offers something else than is listed.
pub(crate) fn check() -> Result<()> {
    let mut changed = Vec::new();
    for (library, features) in LIBRARIES {
        if fs::read_to_string(listing(library)).ok() != Some(offered(library, features)?) {
            changed.push(library);
        }
    }
    ensure!(
        changed.is_empty(),
        "the interface of {} changed: run `cargo xtask api`, look at the difference, and say it in \
         CHANGELOG.md",
        changed.join(", ")
    );
    Ok(())
}

fn listing(library: &str) -> PathBuf {
    root().join("docs/api").join(library).with_extension("txt")
}

/// The interface of a library, without what every type has.
fn offered(library: &str, features: &str) -> Result<String> {
    let status = cargo()
        .args(["rustdoc", "--quiet", "--lib", "--package", library, "--features", features])
        .args(["--", "-Z", "unstable-options", "--output-format", "json"])
        .env("RUSTDOC", root().join("xtask/rustdoc-json"))
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "rustdoc cannot read {library}: see above");
    let json = target_folder().join("doc").join(library.replace('-', "_")).with_extension("json");
    let api = Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()?;
    Ok(api.to_string())
}
