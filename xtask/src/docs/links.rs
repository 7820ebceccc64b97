//! Relative links: the file is there, and so is the heading.

use std::path::Path;

use anyhow::Result;

use crate::{
    docs::markdown::Document,
    problem::Problem,
    root::{read, root},
};

pub(crate) fn check(path: &Path, document: &Document, problems: &mut Vec<Problem>) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new(""));
    for link in &document.links {
        let target = link.value.as_str();
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let file = if file.is_empty() { path.to_owned() } else { folder.join(file) };
        if !root().join(&file).exists() {
            problems.push(Problem::new(
                path,
                link.line,
                format!("the link `{target}` leads nowhere: there is no {}", file.display()),
            ));
        } else if !anchor.is_empty() && !has_anchor(&file, anchor)? {
            problems.push(Problem::new(
                path,
                link.line,
                format!(
                    "the link `{target}` leads nowhere: {} has no such heading",
                    file.display()
                ),
            ));
        }
    }
    Ok(())
}

fn has_anchor(file: &Path, anchor: &str) -> Result<bool> {
    Ok(Document::parse(&read(file)?).anchors().iter().any(|name| name == anchor))
}
