//! What a durable insert over HTTP costs, each figure beside what it is compared with, from one run.
//!
//! ```text
//! cargo run --release --package groupcommit-serve --example load -- throughput latency
//! ```
//!
//! The groups are `throughput`, `latency`, `batches` and `idle`; without a name it measures all. It measures the conditions in turn, three times. `SECONDS=5` sets the
//! length of a measurement, `FOLDER` the folder for databases, and `RECORD` a file for the
//! figures in JSON.
//!
//! Servers are processes of their own: this program, with a first argument of `serve`, `one` or `plain`.
//! `one` is the same server with one commit and one flush a request. `plain` is what a program without
//! groupcommit does: an axum handler with one WAL commit a request, `synchronous=FULL`.

use std::{
    env,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{Json, Router, extract::State, routing::post};
use groupcommit::sqlite::{Database, rusqlite};
use hdrhistogram::Histogram;
use memchr::memmem;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// As in the program that serves.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

const SCHEMA: &str =
    "CREATE TABLE IF NOT EXISTS readings (id INTEGER PRIMARY KEY, device TEXT, value REAL)";
const INSERT: &str = "INSERT INTO readings (device, value) VALUES (?1, ?2)";
const DEVICE: &str = "a device whose name has about fifty characters in it";
const ROWS_A_BATCH: usize = 100;
const REPETITIONS: usize = 3;

fn main() -> Result<()> {
    let (_, files) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, files, files)?;
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match arguments[..] {
        ["serve", path] => return runtime.block_on(serve(path, false)),
        ["one", path] => return runtime.block_on(serve(path, true)),
        ["plain", path] => return runtime.block_on(plain(path)),
        _ => {}
    }
    let is_asked = |group: &str| arguments.is_empty() || arguments.contains(&group);
    let ratios = ratios().into_iter().filter(|ratio| is_asked(ratio.group)).collect::<Vec<_>>();
    if ratios.is_empty() {
        return Err("give some of: throughput, latency, batches, idle".into());
    }
    let seconds = env::var("SECONDS").map_or(Ok(5.0), |text| text.parse())?;
    let needed = |condition: &Condition| {
        ratios.iter().any(|ratio| [ratio.of.0, ratio.to.0].contains(&condition.name))
    };
    let conditions: Vec<Condition> = conditions().into_iter().filter(needed).collect();
    let mut figures = vec![Vec::new(); conditions.len()];
    for _ in 0..REPETITIONS {
        for (condition, figures) in conditions.iter().zip(&mut figures) {
            let measured = measure(condition, Duration::from_secs_f64(seconds))?;
            println!(
                "{:45} {:9.0}/s  p50 {:6} us  p99 {:6} us  server {:5} MiB",
                condition.name,
                measured.requests_per_s,
                measured.p50_us,
                measured.p99_us,
                measured.server_kib >> 10
            );
            figures.push(measured);
        }
    }
    let figures_of = |name: &str| {
        let at = conditions.iter().position(|condition| condition.name == name);
        at.map_or(&[][..], |at| &figures[at][..])
    };
    let mut told = Vec::new();
    for Ratio { what, of, to, bound, .. } in &ratios {
        let each = figures_of(of.0).iter().zip(figures_of(to.0));
        let mut values: Vec<f64> = each.map(|(one, other)| of.1(one) / to.1(other)).collect();
        values.sort_by(f64::total_cmp);
        let value = values[values.len() / 2];
        let (target, holds) = match bound {
            Bound::AtLeast(limit) => (format!("at least {limit} ×"), value >= *limit),
            Bound::AtMost(limit) => (format!("at most {limit} ×"), value <= *limit),
        };
        let (value, met) = (format!("{value:.2} ×"), if holds { "yes" } else { "no" });
        println!("{what}: {value} ({target}: {met})");
        told.push(json!({"what": what, "target": target, "value": value, "met": met}));
    }
    if let Some(path) = env::var_os("RECORD") {
        let measured = |(condition, figures): (&Condition, &Vec<Figures>)| {
            let median = |of: fn(&Figures) -> f64| {
                let mut values: Vec<f64> = figures.iter().map(of).collect();
                values.sort_by(f64::total_cmp);
                values[values.len() / 2]
            };
            json!({
                "name": condition.name,
                "requests_per_s": median(|figures| figures.requests_per_s),
                "p50_us": median(|figures| figures.p50_us as f64),
                "p99_us": median(|figures| figures.p99_us as f64),
                "server_mib": median(|figures| figures.server_kib as f64) / 1_024.0,
            })
        };
        let conditions: Vec<Value> = conditions.iter().zip(&figures).map(measured).collect();
        let record = json!({"seconds": seconds, "repetitions": REPETITIONS, "conditions": conditions, "ratios": told});
        std::fs::write(path, record.to_string())?;
    }
    Ok(())
}

/// One thing to be measured.
struct Condition {
    name: &'static str,
    /// `serve`, `one`, `plain`, or nothing for a database in this process.
    server: &'static str,
    connections: usize,
    idle: usize,
    body: String,
}

const SELECT: &str = "`SELECT 1` a request, 256 connections";
const INSERTS: &str = "one insert a request, 256 connections";
const ONE_BY_ONE: &str = "the same, one commit a request";
const ALONE: &str = "one insert a request, 1 connection";
const PLAIN: &str = "the same, plain axum handler";
const BATCHES: &str = "100 inserts a request, 64 connections";
const IN_PROCESS: &str = "the same in process, 64 threads";
const BESIDE_IDLE: &str = "one insert a request, 256 of 10,000 connections";

fn conditions() -> [Condition; 8] {
    let http = |name, server, connections, idle, body: &Value| Condition {
        name,
        server,
        connections,
        idle,
        body: body.to_string(),
    };
    [
        http(SELECT, "serve", 256, 0, &select()),
        http(INSERTS, "serve", 256, 0, &insert()),
        http(ONE_BY_ONE, "one", 256, 0, &insert()),
        http(ALONE, "serve", 1, 0, &insert()),
        http(PLAIN, "plain", 1, 0, &insert()),
        http(BATCHES, "serve", 64, 0, &batch()),
        http(IN_PROCESS, "", 64, 0, &batch()),
        http(BESIDE_IDLE, "serve", 256, 9_744, &insert()),
    ]
}

/// A figure of a condition.
type Of = (&'static str, fn(&Figures) -> f64);

/// What is to hold of two figures of one repetition.
struct Ratio {
    group: &'static str,
    what: &'static str,
    of: Of,
    to: Of,
    bound: Bound,
}

enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

fn ratios() -> [Ratio; 6] {
    let throughput: fn(&Figures) -> f64 = |figures| figures.requests_per_s;
    let p50: fn(&Figures) -> f64 = |figures| figures.p50_us as f64;
    let p99: fn(&Figures) -> f64 = |figures| figures.p99_us as f64;
    let ratio = |group, what, of, to, bound| Ratio { group, what, of, to, bound };
    [
        ratio(
            "throughput",
            "256 connections: durable inserts, against `SELECT 1` from the same clients",
            (INSERTS, throughput),
            (SELECT, throughput),
            Bound::AtLeast(0.6),
        ),
        ratio(
            "throughput",
            "256 connections: against one commit a request in the same server",
            (INSERTS, throughput),
            (ONE_BY_ONE, throughput),
            Bound::AtLeast(15.0),
        ),
        ratio(
            "throughput",
            "256 connections: p99 latency, against p50",
            (INSERTS, p99),
            (INSERTS, p50),
            Bound::AtMost(5.0),
        ),
        ratio(
            "latency",
            "1 connection: p50 latency, against an axum handler with one WAL commit a request",
            (ALONE, p50),
            (PLAIN, p50),
            Bound::AtMost(1.25),
        ),
        ratio(
            "batches",
            "64 connections, 100 rows a request: rows, against the same batches in process",
            (BATCHES, throughput),
            (IN_PROCESS, throughput),
            Bound::AtLeast(0.5),
        ),
        ratio(
            "idle",
            "256 of 10,000 connections busy: inserts, against 256 alone",
            (BESIDE_IDLE, throughput),
            (INSERTS, throughput),
            Bound::AtLeast(0.9),
        ),
    ]
}

/// What one repetition of a condition came to.
#[derive(Clone, Copy)]
struct Figures {
    requests_per_s: f64,
    p50_us: u64,
    p99_us: u64,
    server_kib: u64,
}

fn select() -> Value {
    json!({"requests": [{"type": "execute", "stmt": {"sql": "SELECT 1"}}, {"type": "close"}]})
}

fn insert_stmt() -> Value {
    json!({"sql": INSERT, "args": [{"type": "text", "value": DEVICE}, {"type": "float", "value": 1.5}]})
}

fn insert() -> Value {
    json!({"requests": [{"type": "execute", "stmt": insert_stmt()}, {"type": "close"}]})
}

fn batch() -> Value {
    let mut steps = vec![json!({"stmt": {"sql": "BEGIN IMMEDIATE"}})];
    steps.extend(
        (0..ROWS_A_BATCH)
            .map(|step| json!({"stmt": insert_stmt(), "condition": {"type": "ok", "step": step}})),
    );
    steps.push(
        json!({"stmt": {"sql": "COMMIT"}, "condition": {"type": "ok", "step": ROWS_A_BATCH}}),
    );
    json!({"requests": [{"type": "batch", "batch": {"steps": steps}}, {"type": "close"}]})
}

fn measure(condition: &Condition, duration: Duration) -> Result<Figures> {
    let folder = env::var_os("FOLDER").map_or_else(env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(folder)?;
    let path = folder.path().join("load.db");
    if condition.server.is_empty() {
        return in_process(&path, condition.connections, duration);
    }
    let mut server = Command::new(env::current_exe()?)
        .arg(condition.server)
        .arg(&path)
        .stdout(Stdio::piped())
        .spawn()?;
    let measured = against(&mut server, condition, duration);
    server.kill()?;
    server.wait()?;
    measured
}

fn against(server: &mut Child, condition: &Condition, duration: Duration) -> Result<Figures> {
    let mut address = String::new();
    let stdout = server.stdout.as_mut().ok_or("no output")?;
    BufReader::new(stdout).read_line(&mut address)?;
    let address = address.trim().to_owned();
    // One thread of clients: the server needs the other processors.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let message: Arc<[u8]> = format!(
        "POST /v2/pipeline HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{}",
        condition.body.len(),
        condition.body
    )
    .into_bytes()
    .into();
    let status = format!("/proc/{}/status", server.id());
    runtime.block_on(async {
        let mut idle = Vec::with_capacity(condition.idle);
        for _ in 0..condition.idle {
            let mut connection = Connection::open(&address).await?;
            connection.ask(&message).await?;
            idle.push(connection);
        }
        let (counting, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let mut clients = Vec::with_capacity(condition.connections);
        for _ in 0..condition.connections {
            let mut connection = Connection::open(&address).await?;
            let (message, counting, stop) = (message.clone(), counting.clone(), stop.clone());
            clients.push(tokio::spawn(async move {
                let mut latencies_us = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let asked = Instant::now();
                    connection.ask(&message).await?;
                    if counting.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed) {
                        latencies_us.push(asked.elapsed().as_micros());
                    }
                }
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(latencies_us)
            }));
        }
        let began = Instant::now();
        counting.store(true, Ordering::Relaxed);
        tokio::time::sleep(duration).await;
        stop.store(true, Ordering::Relaxed);
        let elapsed = began.elapsed();
        let server_kib = resident_kib(&status)?;
        let mut latencies = Histogram::<u64>::new(3)?;
        for client in clients {
            for latency in client.await?? {
                latencies.record(u64::try_from(latency)?)?;
            }
        }
        drop(idle);
        Ok(Figures {
            requests_per_s: latencies.len() as f64 / elapsed.as_secs_f64(),
            p50_us: latencies.value_at_quantile(0.5),
            p99_us: latencies.value_at_quantile(0.99),
            server_kib,
        })
    })
}

fn resident_kib(status: &str) -> Result<u64> {
    let status = std::fs::read_to_string(status)?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()).ok_or("no VmRSS")?;
    Ok(number.parse()?)
}

/// A keep-alive connection that checks each answer.
struct Connection {
    socket: TcpStream,
    answer: Vec<u8>,
}

impl Connection {
    async fn open(address: &str) -> Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(Self { socket, answer: Vec::with_capacity(4_096) })
    }

    async fn ask(&mut self, message: &[u8]) -> Result<()> {
        self.socket.write_all(message).await?;
        self.answer.clear();
        let mut whole = usize::MAX;
        while self.answer.len() < whole {
            if self.socket.read_buf(&mut self.answer).await? == 0 {
                return Err("the server closed the connection".into());
            }
            if whole == usize::MAX
                && let Some(head) = self.answer.windows(4).position(|part| part == b"\r\n\r\n")
            {
                let text = std::str::from_utf8(&self.answer[..head])?.to_ascii_lowercase();
                let length = text.split("content-length: ").nth(1).ok_or("no length")?;
                let length: usize = length.lines().next().ok_or("no length")?.parse()?;
                whole = head + 4 + length;
            }
        }
        let is_error = memmem::find(&self.answer, b"\"type\":\"error\"").is_some();
        if self.answer.starts_with(b"HTTP/1.1 200") && !is_error {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&self.answer).into_owned().into())
        }
    }
}

/// The same batches through the library: what the network adds is the difference.
fn in_process(path: &Path, threads: usize, duration: Duration) -> Result<Figures> {
    let database = Database::open(path)?;
    database.transact(|tx| tx.execute(SCHEMA, ()))?;
    let stop = AtomicBool::new(false);
    let latencies = Mutex::new(Histogram::<u64>::new(3)?);
    let began = Instant::now();
    std::thread::scope(|scope| {
        let work = || {
            while !stop.load(Ordering::Relaxed) {
                let asked = Instant::now();
                let done = database.transact(|tx| {
                    (0..ROWS_A_BATCH).try_for_each(|_| tx.execute(INSERT, (DEVICE, 1.5)).map(drop))
                });
                done.map_err(|failure| failure.to_string())?;
                let mut latencies = latencies.lock().unwrap_or_else(PoisonError::into_inner);
                let micros = u64::try_from(asked.elapsed().as_micros()).unwrap_or(u64::MAX);
                latencies.record(micros).map_err(|error| error.to_string())?;
            }
            Ok::<_, String>(())
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        std::thread::sleep(duration);
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| "panicked")?)
    })?;
    let elapsed = began.elapsed();
    let latencies = latencies.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Figures {
        requests_per_s: latencies.len() as f64 / elapsed.as_secs_f64(),
        p50_us: latencies.value_at_quantile(0.5),
        p99_us: latencies.value_at_quantile(0.99),
        server_kib: resident_kib("/proc/self/status")?,
    })
}

fn announce(address: std::net::SocketAddr) -> Result<()> {
    println!("{address}");
    Ok(std::io::stdout().flush()?)
}

async fn serve(path: &str, one_commit_a_request: bool) -> Result<()> {
    let database = Database::open(path)?;
    database.transact(|tx| tx.execute(SCHEMA, ()))?;
    let mut options = groupcommit_serve::Options::default();
    options.one_commit_a_request = one_commit_a_request;
    let serving = groupcommit_serve::bind(database, "127.0.0.1:0", options).await?;
    announce(serving.address()?)?;
    serving.run(std::future::pending()).await;
    Ok(())
}

/// A handler that commits each request by itself, as programs do.
async fn plain(path: &str) -> Result<()> {
    let connection = rusqlite::Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute(SCHEMA, ())?;
    let service = Router::new()
        .route("/v2/pipeline", post(insert_plainly))
        .with_state(Arc::new(Mutex::new(connection)));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    announce(listener.local_addr()?)?;
    axum::serve(listener, service).await?;
    Ok(())
}

async fn insert_plainly(
    State(connection): State<Arc<Mutex<rusqlite::Connection>>>,
    Json(body): Json<Value>,
) -> Result<Json<Value>, String> {
    let args = &body["requests"][0]["stmt"]["args"];
    let (device, value) = (args[0]["value"].as_str(), args[1]["value"].as_f64());
    let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
    let mut statement = connection.prepare_cached(INSERT).map_err(|error| error.to_string())?;
    let rows = statement.execute((device, value)).map_err(|error| error.to_string())?;
    Ok(Json(
        json!({"affected_row_count": rows, "last_insert_rowid": connection.last_insert_rowid()}),
    ))
}
