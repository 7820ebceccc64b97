//! Mutants that an ordinary test must catch: one that any contributor runs, without root.

use std::{io, path::Path, process::Command, process::Stdio};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::copy;
use crate::{
    hang,
    program::cargo,
    records::{Dated, Place, keep, runs, table_of},
    simulate::MUTANTS as CORE,
};

/// The mutants of SQLite's engine.
const SQLITE: &str = "engines/sqlite/tests/mutants";

/// The records of the last run.
const RECORDS: &str = "docs/measured/mutants-by-test.json";

/// A mutant, and the test that must fail with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mutant {
    folder: &'static str,
    name: &'static str,
    what: &'static str,
    package: &'static str,
    /// The options that select the test's program, and the test's name in it.
    test: (&'static [&'static str], &'static str),
}

/// A mutant of SQLite's engine, or of the core under it.
const fn sqlite(
    folder: &'static str,
    name: &'static str,
    what: &'static str,
    test: (&'static [&'static str], &'static str),
) -> Mutant {
    Mutant { folder, name, what, package: "groupcommit-sqlite", test }
}

const ALL: [Mutant; 9] = [
    sqlite(
        SQLITE,
        "fdatasync-skipped",
        "a flush of the log does nothing",
        (&["--lib"], "wal::tests::the_log_and_its_folder_are_synced"),
    ),
    sqlite(
        SQLITE,
        "folder-sync-skipped",
        "the folder of a new log is not synced",
        (&["--lib"], "wal::tests::the_log_and_its_folder_are_synced"),
    ),
    sqlite(
        SQLITE,
        "cache-trusted",
        "opening trusts what the page cache shows of a log from before",
        (&["--lib"], "recovery::tests::opening_forgets_what_the_page_cache_shows"),
    ),
    sqlite(
        SQLITE,
        "failed-commit-undone",
        "a commit that met an I/O error is taken for rolled back",
        (
            &["--test", "hazards"],
            "io_errors::a_commit_that_failed_in_the_middle_is_unknown_and_final",
        ),
    ),
    sqlite(
        SQLITE,
        "exclusive-error-ignored",
        "an I/O error in an exclusive is ignored",
        (
            &["--test", "hazards"],
            "io_errors::a_failed_checkpoint_in_an_exclusive_is_final_also_behind_another_error",
        ),
    ),
    sqlite(
        SQLITE,
        "exclusive-unchecked",
        "an exclusive begins without a look at whether a checkpoint has failed",
        (&["--test", "hazards"], "io_errors::a_failed_checkpoint_between_exclusives_is_final"),
    ),
    sqlite(
        SQLITE,
        "exclusive-unsettled",
        "an exclusive is lent the writing connection, which keeps what was set on it",
        (&["--test", "hazards"], "settings::nothing_that_an_exclusive_set_is_set_after_it"),
    ),
    sqlite(
        CORE,
        "watermark-after-flush",
        "a flush resolves also what was committed after it began",
        (&["--lib"], "wal::tests::a_flush_makes_nothing_durable_that_was_committed_after_it_began"),
    ),
    Mutant {
        folder: CORE,
        name: "groups-resolved-backwards",
        what: "the groups of a flush resolve the last first",
        package: "groupcommit-core",
        test: (
            &["--test", "durable_and_ordered"],
            "groups_committed_during_a_flush_wait_for_the_next_and_resolve_in_order",
        ),
    },
];

/// A mutant that a test caught.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Caught {
    mutant: String,
    folder: String,
    what: String,
    package: String,
    test: String,
}

/// The mutants whose names begin so.
pub(super) fn named(prefix: &str) -> Vec<Mutant> {
    ALL.into_iter().filter(|mutant| mutant.name.starts_with(prefix)).collect()
}

/// Fails unless each mutant's test passes in a copy of the sources, and fails with the mutant in it.
pub(super) fn catch(mutants: &[Mutant], saves: bool) -> Result<()> {
    let copy = copy::of_the_sources()?;
    for mutant in mutants {
        let passes = mutant.passes_its_test(&copy)?;
        ensure!(passes, "`{}` fails also without the mutant {}", mutant.test.1, mutant.name);
    }
    for mutant in mutants {
        let copy = copy::of_the_sources()?;
        copy::apply(&mutant.patch(), &copy)?;
        let Mutant { folder, name, what, package, test: (_, test) } = *mutant;
        let passes = mutant.passes_its_test(&copy).with_context(|| format!("the mutant {name}"))?;
        ensure!(!passes, "the mutant {name} ({what}) passes the test `{test}` of {package}");
        println!("{name}: caught by `{test}` of {package}");
        if saves {
            let record = Caught {
                mutant: name.to_owned(),
                folder: folder.to_owned(),
                what: what.to_owned(),
                package: package.to_owned(),
                test: test.rsplit("::").next().unwrap_or(test).to_owned(),
            };
            let run = Dated { place: Place::here()?, record };
            keep(RECORDS, run, &["mutant"])?;
        }
    }
    Ok(())
}

impl Mutant {
    fn patch(&self) -> String {
        format!("{}/{}.patch", self.folder, self.name)
    }

    /// Whether the mutant's test passes in the sources of `copy`.
    fn passes_its_test(&self, copy: &Path) -> Result<bool> {
        let (program, test) = self.test;
        let built = self.cargo_test(copy).args(program).arg("--no-run").status();
        ensure!(built.context("cannot start cargo")?.success(), "it does not compile: see above");
        // What a mutant's test prints is of no use to anybody.
        let mut tests = self.cargo_test(copy);
        tests.args(program).args(["--", "--exact", test]).stderr(Stdio::null());
        Ok(hang::status(&mut tests, hang::SILENCE_MAX, &mut io::sink())?.success())
    }

    fn cargo_test(&self, copy: &Path) -> Command {
        let mut command = cargo();
        command
            .current_dir(copy)
            .args(["test", "--quiet", "--locked", "--package", self.package, "--target-dir"])
            .arg(copy::folder());
        command
    }
}

/// The table of the documentation.
pub(crate) fn table() -> Result<String> {
    let columns = [
        ("mutant", "[{mutant}](../{folder}/{mutant}.patch)"),
        ("what it does", "{what}"),
        ("caught by", "`{test}` of `{package}`"),
        ("measured", "{place}"),
    ];
    table_of(&columns, &runs(RECORDS)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_patch_applies_once_and_has_a_test() {
        let copy = tempfile::tempdir().expect("a folder");
        copy::mirror(crate::root::root(), copy.path()).expect("a copy");
        for folder in [CORE, SQLITE] {
            for name in copy::patches_in(folder).expect("patches") {
                let patch = format!("{folder}/{name}.patch");
                copy::apply(&patch, copy.path()).expect("it applies");
                copy::apply(&patch, copy.path()).expect_err("not twice");
                copy::mirror(crate::root::root(), copy.path()).expect("a copy");
            }
        }
        let of_sqlite = copy::patches_in(SQLITE).expect("patches");
        assert!(of_sqlite.iter().all(|name| ALL.iter().any(|mutant| mutant.name == name)));
    }
}
