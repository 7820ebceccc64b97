//! The packages of other languages, tested from outside by a script of each.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use groupcommit_testkit::servers::{Life, mysql, or_skip, postgres};

use crate::root::root;

/// Runs `script`, with the URLs of a PostgreSQL and a MariaDB of its own in the environment.
pub(crate) fn run(script: &str) -> Result<()> {
    let postgres = or_skip(postgres::start(postgres::Kind::Single, Life::Process));
    let mysql = or_skip(mysql::start(mysql::Kind::Single, Life::Process));
    let mut command = Command::new(root().join(script));
    if let Some(servers) = &postgres {
        command.env("GROUPCOMMIT_POSTGRES", servers.url());
    }
    if let Some(servers) = &mysql {
        command.env("GROUPCOMMIT_MYSQL", servers.url());
    }
    let status = command.status().with_context(|| format!("cannot start {script}"))?;
    ensure!(status.success(), "{script} failed ({status})");
    Ok(())
}
