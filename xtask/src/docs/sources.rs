//! What the documentation says of the source: paths, versions, and the tests that hold promises.

use std::path::Path;

use anyhow::{Context, Result};
use pulldown_cmark::HeadingLevel;

use crate::{
    docs::markdown::Document,
    problem::Problem,
    root::{read, root},
};

/// The promises, each of which names the tests that hold it.
const PROMISES: &str = "docs/promises.md";

/// Every path in inline code exists: what begins with a folder of the project, and what ends like a
/// source file.
pub(crate) fn check_paths(path: &Path, document: &Document, problems: &mut Vec<Problem>) {
    for inline in &document.inline {
        let text = inline.value.as_str();
        let is_path_like = text.contains('/')
            && !text.starts_with(['/', '-', '.'])
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
        let first = text.split('/').next().unwrap_or(text);
        let of_the_project = is_path_like && root().join(first).is_dir() && !first.is_empty();
        if (of_the_project || is_source(Path::new(text))) && !root().join(text).exists() {
            problems.push(Problem::new(path, inline.line, format!("there is no `{text}`")));
        }
    }
}

fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs")
}

/// "Rust 1.x" means the version that the workspace asks for; the changelog's first release is the
/// workspace's version.
pub(crate) fn check_versions(path: &Path, text: &str, problems: &mut Vec<Problem>) -> Result<()> {
    let manifest = read("Cargo.toml")?;
    let field = |name: &str| {
        let line = manifest.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim_start_matches([' ', '=']).trim_matches('"').to_owned())
    };
    let rust = field("rust-version").context("Cargo.toml names no rust-version")?;
    for (number, line) in text.lines().enumerate() {
        for said in line.split("Rust ").skip(1) {
            let said: String =
                said.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
            let said = said.trim_end_matches('.');
            if !said.is_empty() && said != rust {
                let sentence = format!("Rust {said} is named, and Cargo.toml asks for {rust}");
                problems.push(Problem::new(path, number + 1, sentence));
            }
        }
    }
    if path == Path::new("CHANGELOG.md") {
        let version = field("version").context("Cargo.toml names no version")?;
        let latest = text.lines().find_map(|line| line.strip_prefix("## [")).unwrap_or_default();
        let first_release = text
            .lines()
            .filter_map(|line| line.strip_prefix("## ["))
            .find(|heading| !heading.starts_with("Unreleased"))
            .unwrap_or(latest);
        if !first_release.starts_with(&format!("{version}]")) {
            problems.push(Problem::new(path, 1, format!("its latest release is not {version}")));
        }
    }
    Ok(())
}

/// Every promise names tests, and every test named is in the file that it is said to be in.
pub(crate) fn check_promises(problems: &mut Vec<Problem>) -> Result<()> {
    let path = Path::new(PROMISES);
    let document = Document::parse(&read(path)?);
    let promises: Vec<_> = document
        .headings
        .iter()
        .filter(|heading| heading.value.level == HeadingLevel::H2)
        .collect();
    for (index, promise) in promises.iter().enumerate() {
        let end = promises.get(index + 1).map_or(usize::MAX, |next| next.line);
        let mut tests = 0;
        for item in document.items.iter().filter(|item| (promise.line..end).contains(&item.line)) {
            let [file, names @ ..] = item.value.as_slice() else { continue };
            let Ok(source) = read(file) else {
                problems.push(Problem::new(path, item.line, format!("there is no `{file}`")));
                continue;
            };
            for name in names {
                tests += 1;
                if !has_test(&source, name) {
                    let sentence = format!("{file} has no test `{name}`");
                    problems.push(Problem::new(path, item.line, sentence));
                }
            }
        }
        if tests == 0 {
            let sentence = format!("no test is named that holds \"{}\"", promise.value.text);
            problems.push(Problem::new(path, promise.line, sentence));
        }
    }
    Ok(())
}

/// Whether a source has a test function of this name: one that is marked as a test, or that a suite in the
/// same file lists: with its module, or declared there too.
fn has_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let listed: Vec<&str> = lines.iter().filter_map(|line| line.strip_suffix(',')).collect();
    let is_listed = listed.contains(&name);
    // The compiler then finds the function in that module.
    if listed.iter().any(|line| line.rsplit_once("::").is_some_and(|(_, last)| last == name)) {
        return true;
    }
    lines.iter().enumerate().any(|(number, line)| {
        let declares = line
            .strip_prefix("fn ")
            .or_else(|| line.strip_prefix("async fn "))
            .and_then(|rest| rest.strip_prefix(name))
            .is_some_and(|rest| rest.starts_with('('));
        let attributes = lines[..number]
            .iter()
            .rev()
            .take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        let is_marked =
            attributes.into_iter().any(|line| line.starts_with("#[") && line.contains("test"));
        declares && (is_listed || is_marked)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_a_function_marked_as_one() {
        let source = "#[test]\n#[ignore]\nfn one() {}\n\nfn two() {}\n\n#[tokio::test]\nasync fn three() {}\n";
        assert!(has_test(source, "one"));
        assert!(!has_test(source, "on"));
        assert!(!has_test(source, "two"));
        assert!(has_test(source, "three"));
        assert!(has_test("suite! {\n    four,\n}\n\nfn four(place: &Place) {}\n", "four"));
    }

    #[test]
    fn paths_that_are_gone_are_found() {
        let document = Document::parse("`core/src/lib.rs`, `core/src/gone.rs`, `a/b`, `x.rs`");
        let mut problems = Vec::new();
        check_paths(Path::new("d.md"), &document, &mut problems);
        let said: Vec<_> = problems.into_iter().map(|problem| problem.sentence).collect();
        assert_eq!(said, ["there is no `core/src/gone.rs`", "there is no `x.rs`"]);
    }
}
