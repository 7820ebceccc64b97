//! Dependencies between the crates point one way.

use anyhow::{Context, Result, ensure};

use crate::program::cargo;

/// What each crate may depend on among the others; `xtask` may use all.
const MAY_USE: [(&str, &[&str]); 18] = [
    ("groupcommit-core", &[]),
    ("groupcommit-medium", &[]),
    ("groupcommit-statement", &[]),
    ("groupcommit-bridge", &["groupcommit-core"]),
    ("groupcommit-remote", &["groupcommit-core", "groupcommit-statement"]),
    (
        "groupcommit-sqlite",
        &["groupcommit-bridge", "groupcommit-core", "groupcommit-medium", "groupcommit-statement"],
    ),
    ("groupcommit-lmdb", &["groupcommit-core", "groupcommit-medium"]),
    ("groupcommit-mysql", &["groupcommit-core", "groupcommit-remote", "groupcommit-statement"]),
    ("groupcommit-postgres", &["groupcommit-core", "groupcommit-remote", "groupcommit-statement"]),
    ("groupcommit-rocksdb", &["groupcommit-core", "groupcommit-medium"]),
    (
        "groupcommit",
        &[
            "groupcommit-core",
            "groupcommit-statement",
            "groupcommit-bridge",
            "groupcommit-sqlite",
            "groupcommit-lmdb",
            "groupcommit-rocksdb",
            "groupcommit-mysql",
            "groupcommit-postgres",
            "groupcommit-remote",
        ],
    ),
    ("groupcommit-serve", &["groupcommit"]),
    ("groupcommit-python", &["groupcommit-bindings"]),
    ("groupcommit-bindings", &["groupcommit", "groupcommit-core", "groupcommit-medium"]),
    ("groupcommit-testkit", &["groupcommit-core", "groupcommit-remote", "groupcommit-statement"]),
    ("groupcommit-lab", &["groupcommit", "groupcommit-bridge"]),
    ("groupcommit-cli", &["groupcommit", "groupcommit-serve"]),
    (
        "groupcommit-testkit-power",
        &["groupcommit-core", "groupcommit-sqlite", "groupcommit-lmdb", "groupcommit-rocksdb"],
    ),
];

pub(crate) fn check() -> Result<()> {
    let output = cargo()
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("cannot start cargo")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let faults = faults(&serde_json::from_slice(&output.stdout)?);
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(())
}

/// The dependencies that point the wrong way, each as a sentence.
fn faults(metadata: &serde_json::Value) -> Vec<String> {
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let mut faults = Vec::new();
    for package in list(&metadata["packages"]) {
        let name = package["name"].as_str().unwrap_or_default();
        if name == "xtask" {
            continue;
        }
        let Some((_, allowed)) = MAY_USE.iter().find(|(known, _)| *known == name) else {
            faults.push(format!("{name} has no place among the layers in xtask/src/layers.rs"));
            continue;
        };
        for dependency in list(&package["dependencies"]) {
            let used = dependency["name"].as_str().unwrap_or_default();
            let is_local = !dependency["path"].is_null();
            if is_local && dependency["kind"].is_null() && !allowed.contains(&used) {
                faults.push(format!("{name} may not depend on {used}"));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_that_points_upwards_is_a_fault_and_one_for_tests_is_not() {
        let metadata = serde_json::json!({"packages": [
            {"name": "groupcommit-core", "dependencies": [
                {"name": "groupcommit", "path": "x", "kind": null},
                {"name": "groupcommit-sqlite", "path": "x", "kind": "dev"},
                {"name": "tracing", "kind": null},
            ]},
            {"name": "stranger", "dependencies": []},
        ]});
        assert_eq!(
            faults(&metadata),
            [
                "groupcommit-core may not depend on groupcommit",
                "stranger has no place among the layers in xtask/src/layers.rs",
            ]
        );
    }
}
