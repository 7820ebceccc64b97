//! Dependencies between the crates point one way.

use anyhow::{Context, Result, ensure};

use crate::program::cargo;

/// Each crate may depend on those of the layers above its own in this list. Nothing of a product depends
/// on the testkit or the lab.
const LAYERS: [&[&str]; 8] = [
    &["groupcommit-core", "groupcommit-medium", "groupcommit-statement"],
    &["groupcommit-bridge", "groupcommit-remote"],
    &[
        "groupcommit-sqlite",
        "groupcommit-lmdb",
        "groupcommit-rocksdb",
        "groupcommit-mysql",
        "groupcommit-postgres",
    ],
    &["groupcommit"],
    &["groupcommit-serve", "groupcommit-bindings"],
    &["groupcommit-cli", "groupcommit-python", "groupcommit-node"],
    &["groupcommit-testkit", "groupcommit-testkit-power", "groupcommit-lab"],
    &["xtask"],
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
    let layer_of = |name: &str| LAYERS.iter().position(|layer| layer.contains(&name));
    let mut faults = Vec::new();
    for package in list(&metadata["packages"]) {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(layer) = layer_of(name) else {
            faults.push(format!("{name} has no place among the layers in xtask/src/layers.rs"));
            continue;
        };
        for dependency in list(&package["dependencies"]) {
            let used = dependency["name"].as_str().unwrap_or_default();
            let is_checked = !dependency["path"].is_null() && dependency["kind"].is_null();
            if is_checked && layer_of(used).is_none_or(|used| used >= layer) {
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
