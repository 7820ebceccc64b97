//! Single-row inserts, all durable: a thousand in flight through groupcommit, against one connection
//! and against 25 that commit one a call, each with a prepared statement.
//!
//! Starts throw-away servers (one alone, then a Galera cluster of three nodes), runs the conditions
//! in turn for some seconds each, three rounds, and prints transactions per second and the ratios of
//! the medians.
//!
//! ```text
//! cargo run --release -p groupcommit-mysql --example measure -- [seconds]
//! ```

use std::{
    collections::VecDeque,
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use groupcommit_mysql::{
    Database, Statement,
    mysql_async::{self, Conn, Opts, OptsBuilder, prelude::Queryable as _},
};
use groupcommit_testkit::servers::{
    Life,
    mysql::{self, Kind},
};

type Done<T> = Result<T, Box<dyn Error + Send + Sync>>;

const INSERT: &str = "INSERT INTO t VALUES (?, ?)";

const ROW: &str = "a value of some forty bytes, as many are";

const IN_FLIGHT: usize = 1_000;

const ROUNDS: usize = 3;

fn main() -> Done<()> {
    let seconds = std::env::args().nth(1).map_or(Ok(3.0), |text| text.parse())?;
    let lasts = Duration::from_secs_f64(seconds);
    mysql::install_if_missing()?;
    for kind in [Kind::Single, Kind::Galera] {
        let servers = mysql::start(kind, Life::Process)?;
        servers.sql("CREATE TABLE test.t (id BIGINT PRIMARY KEY, v TEXT NOT NULL)")?;
        println!("{kind:?}, transactions per second:");
        let mut rates = [const { Vec::new() }; 3];
        // All conditions use the first node.
        let url = format!("mysql://root@127.0.0.1:{}/test", servers.port(0));
        for _ in 0..ROUNDS {
            let round =
                [connections(&url, 1, lasts)?, connections(&url, 25, lasts)?, merged(&url, lasts)?];
            println!(
                "  one connection {:.0}, 25 connections {:.0}, groupcommit {:.0}",
                round[0], round[1], round[2]
            );
            rates.iter_mut().zip(round).for_each(|(rates, rate)| rates.push(rate));
        }
        let [one, many, merged] = rates.map(|mut rates: Vec<f64>| {
            rates.sort_by(f64::total_cmp);
            rates[rates.len() / 2]
        });
        println!("  against 25 connections {:.2}, against one {:.2}", merged / many, merged / one);
        servers.stop()?;
    }
    Ok(())
}

/// The next id that no row has.
static NEXT: AtomicI64 = AtomicI64::new(0);

/// So many connections, each committing one a call.
fn connections(url: &str, count: usize, lasts: Duration) -> Done<f64> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let opts = OptsBuilder::from_opts(Opts::from_url(url)?).prefer_socket(false);
    runtime.block_on(async {
        let mut clients = Vec::new();
        for _ in 0..count {
            let mut conn = Conn::new(opts.clone()).await?;
            let insert = conn.prep(INSERT).await?;
            clients.push((conn, insert));
        }
        let began = Instant::now();
        let mut tasks = Vec::new();
        for (mut conn, insert) in clients {
            tasks.push(tokio::spawn(async move {
                let mut done = 0_u64;
                while began.elapsed() < lasts {
                    let id = NEXT.fetch_add(1, Ordering::Relaxed);
                    conn.exec_drop(&insert, (id, ROW)).await?;
                    done += 1;
                }
                conn.disconnect().await?;
                Ok::<_, mysql_async::Error>(done)
            }));
        }
        let mut done = 0;
        for task in tasks {
            done += task.await??;
        }
        Ok(done as f64 / began.elapsed().as_secs_f64())
    })
}

/// As many in flight as there would be callers.
fn merged(url: &str, lasts: Duration) -> Done<f64> {
    let db = Database::open(url)?;
    let insert: Arc<str> = INSERT.into();
    let submit = || {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        db.submit_statements(vec![Statement::new(insert.clone(), [id.into(), ROW.into()])])
    };
    let began = Instant::now();
    let mut tickets: VecDeque<_> = (0..IN_FLIGHT).map(|_| submit()).collect();
    let mut done = 0_u64;
    while let Some(ticket) = tickets.pop_front() {
        ticket.wait()?;
        done += 1;
        if began.elapsed() < lasts {
            tickets.push_back(submit());
        }
    }
    let rate = done as f64 / began.elapsed().as_secs_f64();
    let stats = db.stats();
    println!(
        "    groups of {:.0} on average, {:.1} ms each",
        stats.group_transactions.mean,
        stats.execute_ns.mean / 1e6
    );
    db.close()?;
    Ok(rate)
}
