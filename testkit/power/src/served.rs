//! Power cuts under `groupcommit serve`: the server runs on the medium, its clients outside. A client
//! sends each request, with a key, again and again until it is answered: across power cuts too.
//!
//! Each request inserts a row and counts it, in one transaction. So a request that was lost, was
//! applied twice or in part shows in the rows. An answer counts as heard if the cut had not begun when
//! it was read; see [`Promised::take_in`](crate::verify::Promised::take_in).

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use rusqlite::Connection;

use crate::{
    companion::is_verbose,
    cuts::{Options, Record},
    disk::Disk,
    medium::Medium,
    schedule::{Schedule, Terms},
    verify::Violations,
};

/// Clients at once.
const CLIENTS: usize = 16;

/// Answers between two power cuts, at most.
const ANSWERS_MAX: u64 = 600;

/// How long the clients may hear nothing while the server has power.
const SILENCE_MAX: Duration = Duration::from_mins(1);

/// How long to wait before looking whether a device has lost power, or asking a server again.
const PAUSE: Duration = Duration::from_millis(10);

/// The database on the medium.
const FILE: &str = "app.db";

const SCHEMA: &str = "PRAGMA journal_mode = WAL;
    CREATE TABLE IF NOT EXISTS t (client, number);
    CREATE TABLE IF NOT EXISTS total (rows);
    INSERT INTO total SELECT 0 WHERE NOT EXISTS (SELECT * FROM total);";

/// What the clients share.
#[derive(Default)]
struct Clients {
    power: Mutex<Power>,
    restored: Condvar,
    ends: AtomicBool,
    /// Requests that each client knows to be answered: those with lower numbers.
    heard: [AtomicU64; CLIENTS],
    /// Answered while the power was being cut, and how many of these were gone.
    late: AtomicU64,
    late_lost: AtomicU64,
    /// Refused for good, which no request is to be.
    refused: AtomicU64,
}

/// Where the server is, while it has power.
#[derive(Debug, Clone, Default, PartialEq)]
struct Power {
    address: Option<String>,
    /// Power cuts so far: an address may come again.
    cuts: u64,
}

impl Clients {
    fn power(&self) -> MutexGuard<'_, Power> {
        self.power.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for power; `None` at the end.
    fn powered(&self) -> Option<(String, u64)> {
        let mut power = self.power();
        loop {
            if self.ends.load(SeqCst) {
                return None;
            }
            if let Some(address) = &power.address {
                return Some((address.clone(), power.cuts));
            }
            power = self.restored.wait(power).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Sends request after request, each until it is answered.
    fn ask(&self, client: u64, heard: &AtomicU64, progress: &mpsc::Sender<()>) {
        let mut connection = None;
        let mut was_late = false;
        let mut number = 0;
        while let Some((address, cuts)) = self.powered() {
            let answer = send(&mut connection, &address, client, number);
            let is_late = self.power().cuts != cuts || self.power().address.is_none();
            match answer {
                Ok(answer) if answer.status == 200 => {
                    // Answered before, but the answer did not count.
                    if std::mem::take(&mut was_late) && !answer.is_replayed {
                        self.late_lost.fetch_add(1, SeqCst);
                    }
                    if is_late {
                        self.late.fetch_add(1, SeqCst);
                        was_late = true;
                        continue;
                    }
                    number += 1;
                    heard.store(number, SeqCst);
                    let _at_the_end = progress.send(());
                }
                Ok(answer) if [400, 413, 422].contains(&answer.status) => {
                    println!("{client}-{number} was refused: {}", answer.text);
                    self.refused.fetch_add(1, SeqCst);
                }
                _ => {
                    connection = None;
                    thread::sleep(PAUSE);
                }
            }
        }
    }
}

struct Answer {
    status: u16,
    text: String,
    /// The key had been committed before.
    is_replayed: bool,
}

/// Sends a request on `connection`, which is opened if it is not.
fn send(
    connection: &mut Option<BufReader<TcpStream>>,
    address: &str,
    client: u64,
    number: u64,
) -> Result<Answer> {
    let socket = match connection {
        Some(socket) => socket,
        None => connection.insert(BufReader::new(TcpStream::connect(address)?)),
    };
    let body = format!(
        r#"{{"requests":[{{"type":"batch","batch":{{"steps":[
            {{"stmt":{{"sql":"INSERT INTO t VALUES ({client}, {number})"}}}},
            {{"stmt":{{"sql":"UPDATE total SET rows = rows + 1"}}}}]}}}},{{"type":"close"}}]}}"#
    );
    let message = format!(
        "POST /v2/pipeline HTTP/1.1\r\nhost: localhost\r\nidempotency-key: \"{client}-{number}\"\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.get_mut().write_all(message.as_bytes())?;
    let mut line = String::new();
    socket.read_line(&mut line)?;
    let status = line.split(' ').nth(1).context("no status")?.parse()?;
    let (mut length, mut is_replayed) = (0, false);
    loop {
        line.clear();
        ensure!(socket.read_line(&mut line)? > 0, "the connection ended");
        let line = line.trim_end().to_ascii_lowercase();
        match line.split_once(": ") {
            Some(("content-length", value)) => length = value.parse()?,
            Some(("idempotency-replayed", _)) => is_replayed = true,
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    socket.read_exact(&mut body)?;
    let text = String::from_utf8_lossy(&body).into_owned();
    ensure!(status != 200 || !text.contains("\"type\":\"error\""), "{text}");
    Ok(Answer { status, text, is_replayed })
}

/// The server's process. Killed when dropped.
struct Server(Child);

impl Server {
    fn start(program: &Path, database: &Path) -> Result<(Self, String)> {
        let mut command = Command::new(program);
        command.arg("serve").arg(database).args(["--listen", "127.0.0.1:0"]);
        if !is_verbose() {
            command.stderr(Stdio::null());
        }
        let mut process = command.stdout(Stdio::piped()).spawn().context("cannot start it")?;
        let stdout = process.stdout.take().context("no pipe")?;
        let server = Self(process);
        let mut said = String::new();
        BufReader::new(stdout).read_line(&mut said)?;
        let address = said.split("http://").nth(1).and_then(|rest| rest.split(';').next());
        let address = address.with_context(|| format!("the server said no address: {said}"))?;
        Ok((server, address.to_owned()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

/// Cuts the power of `medium` as often as `options` say; fills `record` in.
pub(crate) fn cycles(
    options: &Options,
    program: &Path,
    medium: &mut Medium,
    record: &mut Record,
) -> Result<Violations> {
    let database = medium.path().join(FILE);
    let mut violations = Violations::default();
    let clients = Clients::default();
    let (progress, has_progressed) = mpsc::channel();
    let mut done = || -> Result<()> {
        Connection::open(&database)?.execute_batch(SCHEMA)?;
        for cycle in options.first..options.first + options.cycles {
            let terms = Terms { seed: options.seed, medium: options.medium };
            let schedule = Schedule::of(terms, cycle);
            if let Some(disk) = medium.disk() {
                disk.set_flush_time(Duration::from_micros(schedule.flush_us))?;
            }
            let (server, address) = Server::start(program, &database)?;
            if let (Some(disk), Some((operation, number))) = (medium.disk(), schedule.cut_at) {
                disk.cut_at(operation, number)?;
            }
            clients.power().address = Some(address);
            clients.restored.notify_all();
            let answers = fastrand::Rng::with_seed(options.seed ^ cycle << 8).u64(1..=ANSWERS_MAX);
            wait(answers, &has_progressed, medium)?;
            {
                let mut power = clients.power();
                *power = Power { address: None, cuts: power.cuts + 1 };
            }
            medium.switch().cut()?;
            drop(server);
            medium.cycle_power(schedule.survivors, options.seed ^ cycle)?;
            let found =
                judge(&database, &clients, record).with_context(|| format!("cycle {cycle}"))?;
            if !found.is_none() {
                println!("cycle {cycle}: {found}");
            }
            violations.add(found);
            record.cycles += 1;
            if !violations.is_none() {
                break;
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        for (client, heard) in (0..).zip(&clients.heard) {
            let (clients, progress) = (&clients, progress.clone());
            scope.spawn(move || clients.ask(client, heard, &progress));
        }
        let done = done();
        clients.ends.store(true, SeqCst);
        let _waiting = clients.power();
        clients.restored.notify_all();
        done
    })?;
    record.acknowledged = clients.heard.iter().map(|heard| heard.load(SeqCst)).sum();
    record.late = clients.late.load(SeqCst);
    record.late_lost = clients.late_lost.load(SeqCst);
    violations.other += clients.refused.load(SeqCst);
    Ok(violations)
}

/// Waits for so many answers, or until the device has lost power.
fn wait(answers: u64, has_progressed: &mpsc::Receiver<()>, medium: &mut Medium) -> Result<()> {
    // Those that were still under way at the last cut.
    while has_progressed.try_recv().is_ok() {}
    let mut heard = 0;
    let mut since = Instant::now();
    while heard < answers {
        match has_progressed.recv_timeout(PAUSE) {
            Ok(()) => (heard, since) = (heard + 1, Instant::now()),
            Err(RecvTimeoutError::Timeout) => {
                let told = medium.disk().map(Disk::tell).transpose()?;
                if told.is_some_and(|told| !told.has_power) {
                    return Ok(());
                }
                ensure!(since.elapsed() < SILENCE_MAX, "the server answers nothing any more");
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    Ok(())
}

/// Compares the rows with what the clients were told.
fn judge(database: &PathBuf, clients: &Clients, record: &mut Record) -> Result<Violations> {
    let connection = Connection::open(database)?;
    let said: String = connection.query_row("PRAGMA integrity_check", (), |row| row.get(0))?;
    let total: u32 = connection.query_row("SELECT rows FROM total", (), |row| row.get(0))?;
    let mut rows = BTreeMap::<(u64, u64), u64>::new();
    let mut select = connection.prepare("SELECT client, number FROM t")?;
    for row in select.query_map((), |row| Ok((row.get::<_, u32>(0)?, row.get::<_, u32>(1)?)))? {
        let (client, number) = row?;
        *rows.entry((client.into(), number.into())).or_default() += 1;
    }
    let mut violations = Violations::default();
    if said != "ok" {
        println!("integrity_check: {said}");
        violations.other += 1;
    }
    violations.partial += u64::from(u64::from(total) != rows.values().sum::<u64>());
    // Twice, or nobody has asked for it.
    violations.other += rows.values().map(|times| times - 1).sum::<u64>();
    for (client, heard) in (0..).zip(&clients.heard) {
        let heard = heard.load(SeqCst);
        let is_there = |number: &u64| rows.contains_key(&(client, *number));
        violations.lost += (0..heard).filter(|number| !is_there(number)).count() as u64;
        // The one that the client waits for an answer to.
        record.unknown += 1;
        let of_client = rows.range((client, heard + 1)..(client + 1, 0));
        violations.other += of_client.count() as u64;
    }
    Ok(violations)
}
