//! Notes what the measured program was built from: commit, compiler, rusqlite, flags of the bundled
//! SQLite.
//!
//! Each is `unknown` where it cannot be found out, as in a packaged source without its history.

use std::path::Path;
use std::process::Command;

fn main() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    note("RUSTC", output(&rustc, &["--version"]).as_deref());
    note("COMMIT", output("git", &["rev-parse", "HEAD"]).as_deref());
    let changes = output("git", &["status", "--porcelain", "--untracked-files=no"]);
    note("DIRTY", changes.map(|changes| (!changes.is_empty()).to_string()).as_deref());
    note("RUSQLITE", locked_version("../Cargo.lock", "rusqlite").as_deref());
    note("SQLITE_FLAGS", std::env::var("LIBSQLITE3_FLAGS").ok().as_deref());

    println!("cargo::rerun-if-env-changed=LIBSQLITE3_FLAGS");
    // Any change of a source, and any commit or checkout, may change the commit or whether it is
    // what is built.
    for path in
        ["../Cargo.lock", "../Cargo.toml", "../core", "../engines", "../groupcommit", "../cli", "."]
    {
        rerun_if_changed(path);
    }
    if let Some(log) = output("git", &["rev-parse", "--git-path", "logs/HEAD"]) {
        rerun_if_changed(&log);
    }
}

fn note(name: &str, value: Option<&str>) {
    println!("cargo::rustc-env=GROUPCOMMIT_LAB_{name}={}", value.unwrap_or("unknown"));
}

/// A path that does not exist would run this script at every build.
fn rerun_if_changed(path: &str) {
    if Path::new(path).exists() {
        println!("cargo::rerun-if-changed={path}");
    }
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn locked_version(lock_file: &str, package: &str) -> Option<String> {
    let lock = std::fs::read_to_string(lock_file).ok()?;
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines().skip_while(|line| *line != name);
    let version = lines.nth(1)?.strip_prefix("version = \"")?.strip_suffix('"')?;
    Some(version.to_owned())
}
