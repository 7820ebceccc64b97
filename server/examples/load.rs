//! What a durable insert over HTTP costs, each figure beside what it is compared with, from one run.
//!
//! ```text
//! cargo run --release --package groupcommit-serve --example load -- throughput
//! cargo run --release --package groupcommit-serve --example load -- latency
//! cargo run --release --package groupcommit-serve --example load -- batches
//! cargo run --release --package groupcommit-serve --example load -- idle     # needs ulimit -n 25000
//! ```
//!
//! Each prints its conditions in turn, three times, and the medians. `SECONDS=5` says how long each lasts,
//! `FOLDER` where the databases lie. Servers are processes of their own: this one, with a first argument
//! of `serve` or `plain`. `plain` is what a program without groupcommit does: one WAL commit with
//! `synchronous=FULL` a request.

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
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

const SCHEMA: &str =
    "CREATE TABLE IF NOT EXISTS readings (id INTEGER PRIMARY KEY, device TEXT, value REAL)";
const INSERT: &str = "INSERT INTO readings (device, value) VALUES (?1, ?2)";
const DEVICE: &str = "a device whose name has about fifty characters in it";
const ROWS_A_BATCH: usize = 100;
const REPETITIONS: usize = 3;

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", path] => runtime.block_on(serve(path)),
        ["plain", path] => runtime.block_on(plain(path)),
        ["throughput"] => compare(&[
            Condition::http("SELECT 1, 256 connections", "serve", 256, &select()),
            Condition::http("one insert a request, 256 connections", "serve", 256, &insert()),
            Condition::http("the same, one commit a request (plain)", "plain", 256, &insert()),
        ]),
        ["latency"] => compare(&[
            Condition::http("one insert a request, 1 connection", "serve", 1, &insert()),
            Condition::http("the same, plain", "plain", 1, &insert()),
        ]),
        ["batches"] => compare(&[
            Condition::http("100 inserts a request, 64 connections", "serve", 64, &batch()),
            Condition {
                idle: 0,
                server: "",
                ..Condition::http("the same in process, 64 threads", "", 64, &batch())
            },
        ]),
        ["idle"] => compare(&[
            Condition::http("one insert a request, 256 connections", "serve", 256, &insert()),
            Condition {
                idle: 9_744,
                ..Condition::http("the same beside 9,744 idle ones", "serve", 256, &insert())
            },
        ]),
        _ => Err("give one of: throughput, latency, batches, idle".into()),
    }
}

/// One thing to be measured.
struct Condition {
    name: &'static str,
    /// `serve`, `plain`, or nothing for a database in this process.
    server: &'static str,
    connections: usize,
    idle: usize,
    body: String,
}

impl Condition {
    fn http(name: &'static str, server: &'static str, connections: usize, body: &Value) -> Self {
        Self { name, server, connections, idle: 0, body: body.to_string() }
    }
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

fn compare(conditions: &[Condition]) -> Result<()> {
    let seconds = env::var("SECONDS").map_or(Ok(5.0), |text| text.parse())?;
    let duration = Duration::from_secs_f64(seconds);
    let mut all = vec![Vec::new(); conditions.len()];
    for _ in 0..REPETITIONS {
        for (condition, figures) in conditions.iter().zip(&mut all) {
            let measured = measure(condition, duration)?;
            print(condition.name, measured);
            figures.push(measured);
        }
    }
    println!("medians of {REPETITIONS}, and the first condition's against each:");
    let median = |figures: &[Figures], of: fn(&Figures) -> f64| {
        let mut values: Vec<f64> = figures.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    for (condition, figures) in conditions.iter().zip(&all) {
        let ratio = |of: fn(&Figures) -> f64| median(&all[0], of) / median(figures, of);
        println!(
            "{:45} {:9.0}/s  p50 {:6.0} us  p99 {:6.0} us  server {:6.0} MiB  first/this: {:.2} in throughput, {:.2} in p50",
            condition.name,
            median(figures, |figures| figures.requests_per_s),
            median(figures, |figures| figures.p50_us as f64),
            median(figures, |figures| figures.p99_us as f64),
            median(figures, |figures| figures.server_kib as f64) / 1_024.0,
            ratio(|figures| figures.requests_per_s),
            ratio(|figures| figures.p50_us as f64),
        );
    }
    Ok(())
}

fn print(name: &str, figures: Figures) {
    println!(
        "{name:45} {:9.0}/s  p50 {:6} us  p99 {:6} us",
        figures.requests_per_s, figures.p50_us, figures.p99_us
    );
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
        let is_error = self.answer.windows(14).any(|part| part == b"\"type\":\"error\"");
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

async fn serve(path: &str) -> Result<()> {
    let database = Database::open(path)?;
    database.transact(|tx| tx.execute(SCHEMA, ()))?;
    let options = groupcommit_serve::Options::default();
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
