//! Single-row inserts, all durable: a thousand in flight through groupcommit, against one connection
//! and against 25 that commit one a call. And whether several pipelines beside each other (lanes: a
//! caller would choose one by a key, and order holds within it) serve better than one.
//!
//! Starts throw-away servers (one alone, then one with two synchronous replicas), runs the
//! conditions in turn for some seconds each, three rounds, and prints transactions per second and
//! the ratios of the medians.
//!
//! ```text
//! cargo run --release -p groupcommit-postgres --example measure -- [seconds]
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

use groupcommit_postgres::{Database, Statement};
use groupcommit_testkit::servers::{
    Life,
    postgres::{self, Kind},
};
use tokio_postgres::NoTls;

type Done<T> = Result<T, Box<dyn Error + Send + Sync>>;

const INSERT: &str = "INSERT INTO t VALUES ($1, $2)";

const ROW: &str = "a value of some forty bytes, as many are";

const IN_FLIGHT: usize = 1_000;

const ROUNDS: usize = 3;

fn main() -> Done<()> {
    let seconds = std::env::args().nth(1).map_or(Ok(3.0), |text| text.parse())?;
    let lasts = Duration::from_secs_f64(seconds);
    let bin = postgres::programs_or_install()?;
    for kind in [Kind::Single, Kind::Replicated] {
        let servers = postgres::start(&bin, kind, Life::Process)?;
        servers.sql("CREATE TABLE t (id bigint PRIMARY KEY, v text NOT NULL)")?;
        println!("{kind:?}, transactions per second:");
        let mut rates = [const { Vec::new() }; 5];
        for _ in 0..ROUNDS {
            let url = servers.url();
            let round = [
                connections(&url, 1, lasts)?,
                connections(&url, 25, lasts)?,
                merged(&url, 1, lasts)?,
                merged(&url, 2, lasts)?,
                merged(&url, 4, lasts)?,
            ];
            let [one, many, merged, lanes_2, lanes_4] = round;
            println!(
                "  one connection {one:.0}, 25 connections {many:.0}, groupcommit {merged:.0}, \
                 in 2 lanes {lanes_2:.0}, in 4 lanes {lanes_4:.0}"
            );
            rates.iter_mut().zip(round).for_each(|(rates, rate)| rates.push(rate));
        }
        let [one, many, merged, lanes_2, lanes_4] = rates.map(|mut rates: Vec<f64>| {
            rates.sort_by(f64::total_cmp);
            rates[rates.len() / 2]
        });
        println!("  against 25 connections {:.2}, against one {:.2}", merged / many, merged / one);
        println!(
            "  2 lanes against one {:.2}, 4 lanes against one {:.2}",
            lanes_2 / merged,
            lanes_4 / merged
        );
        servers.stop()?;
    }
    Ok(())
}

/// The next id that no row has.
static NEXT: AtomicI64 = AtomicI64::new(0);

/// So many connections, each committing one a call.
fn connections(url: &str, count: usize, lasts: Duration) -> Done<f64> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let url: Arc<str> = url.into();
    runtime.block_on(async {
        let mut clients = Vec::new();
        for _ in 0..count {
            let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
            drop(tokio::spawn(connection));
            let insert = client.prepare(INSERT).await?;
            clients.push((client, insert));
        }
        let began = Instant::now();
        let mut tasks = Vec::new();
        for (client, insert) in clients {
            tasks.push(tokio::spawn(async move {
                let mut done = 0_u64;
                while began.elapsed() < lasts {
                    let id = NEXT.fetch_add(1, Ordering::Relaxed);
                    client.execute(&insert, &[&id, &ROW]).await?;
                    done += 1;
                }
                Ok::<_, tokio_postgres::Error>(done)
            }));
        }
        let mut done = 0;
        for task in tasks {
            done += task.await??;
        }
        Ok(done as f64 / began.elapsed().as_secs_f64())
    })
}

/// As many in flight as there would be callers, spread over so many pipelines.
fn merged(url: &str, lanes: usize, lasts: Duration) -> Done<f64> {
    let lanes = (0..lanes).map(|_| Database::open(url)).collect::<Result<Vec<_>, _>>()?;
    let insert: Arc<str> = INSERT.into();
    let mut turn = lanes.iter().cycle();
    let mut submit = || {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let db = turn.next().unwrap_or(&lanes[0]);
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
    let stats = lanes[0].stats();
    println!(
        "    {} lanes: groups of {:.0} on average, {:.1} ms each",
        lanes.len(),
        stats.group_transactions.mean,
        stats.execute_ns.mean / 1e6
    );
    lanes.iter().try_for_each(Database::close)?;
    Ok(rate)
}
