//! A thousand open databases: threads of the process while all are written, CPU time while idle.

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use groupcommit::sqlite::Database;
use nix::sys::{
    resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit},
    time::TimeValLike,
};

use crate::measured::Databases;

const DATABASES: usize = 1_000;

/// Transactions that each database is given at once.
const TRANSACTIONS: i64 = 20;

/// How long to watch the idle process.
const IDLE: Duration = Duration::from_secs(10);

/// How long threads without work may take to end.
const REST: Duration = Duration::from_mins(1);

pub(crate) fn measure(folder: &Path) -> Result<Databases> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    let databases: Vec<Database> = (0..DATABASES)
        .map(|n| {
            let db = Database::open(folder.join(format!("{n}.db")))?;
            db.transact(|tx| tx.execute("CREATE TABLE t (k INTEGER)", ()))?;
            Ok(db)
        })
        .collect::<Result<_>>()?;
    let mut threads_max = threads()?;
    let mut tickets = Vec::new();
    for key in 0..TRANSACTIONS {
        for db in &databases {
            tickets.push(db.submit(move |tx| tx.execute("INSERT INTO t VALUES (?1)", [key])));
        }
        threads_max = threads_max.max(threads()?);
    }
    for ticket in tickets {
        ticket.wait()?;
    }
    threads_max = threads_max.max(threads()?);
    // Threads without work end by themselves; then only this one is left. Nothing tells of it.
    let waiting = Instant::now();
    while threads()? > 1 {
        ensure!(waiting.elapsed() < REST, "{} threads are left long after the work", threads()?);
        thread::sleep(Duration::from_millis(100));
    }
    let (began, cpu_before) = (Instant::now(), cpu_seconds()?);
    thread::sleep(IDLE);
    let (idle, cpu) = (began.elapsed(), cpu_seconds()? - cpu_before);
    for db in databases {
        db.close()?;
    }
    Ok(Databases {
        open: DATABASES as u64,
        threads_max,
        idle_seconds: idle.as_secs_f64(),
        idle_cpu_seconds: cpu,
    })
}

/// Threads of this process.
fn threads() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status").context("needs Linux's /proc")?;
    let line = status.lines().find_map(|line| line.strip_prefix("Threads:"));
    Ok(line.context("no Threads")?.trim().parse()?)
}

fn cpu_seconds() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(micros as f64 / 1e6)
}
