//! Throw-away PostgreSQL servers: one alone, or a primary whose commits wait for one of two
//! replicas.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::{
    Life, Place, Trouble, append, command_as, failed, free_port, install, is_root, quoted, remove,
    run, sweep_or_say,
};

/// The account that the servers run as where the caller is root, whom PostgreSQL refuses.
const ACCOUNT: &str = "postgres";

/// How long a server may take to start, or a replica to be in step.
const START_MAX: Duration = Duration::from_mins(1);

/// What is said where the servers are missing.
const MISSING: &str = "PostgreSQL is not installed; on Debian: `apt-get install postgresql`";

/// Which servers to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One server.
    Single,
    /// A primary and two streaming replicas, of which one must have a commit before it returns.
    Replicated,
}

/// Servers that run.
#[derive(Debug)]
pub struct Servers {
    place: Place,
    bin: PathBuf,
    life: Life,
    nodes: Vec<Node>,
    /// Which of them takes writes.
    primary: usize,
}

/// One server.
#[derive(Debug)]
struct Node {
    data: PathBuf,
    port: u16,
}

/// The folder of PostgreSQL's programs, where they are installed.
fn programs() -> Option<PathBuf> {
    let of_debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = of_debian
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    versions.sort();
    let of_others = || {
        let output = Command::new("pg_config").arg("--bindir").output().ok()?;
        Some(PathBuf::from(String::from_utf8(output.stdout).ok()?.trim()))
    };
    let newest = versions.into_iter().rev().map(|(_, bin)| bin).chain(of_others());
    newest
        .into_iter()
        .find(|bin| ["initdb", "pg_ctl", "psql"].iter().all(|name| bin.join(name).is_file()))
}

/// Starts servers; installs their programs where they are missing and that is allowed.
///
/// # Errors
///
/// What kept them from starting; then none runs.
pub fn start(kind: Kind, life: Life) -> Result<Servers, Trouble> {
    if programs().is_none() {
        install(&["postgresql"])?;
    }
    let bin = programs().ok_or_else(|| Trouble::Missing(MISSING.to_owned()))?;
    sweep_or_say();
    let account = is_root().then_some(ACCOUNT);
    let place = Place::new("postgres", life, account)?;
    let mut servers = Servers { place, bin, life, nodes: Vec::new(), primary: 0 };
    match servers.start_all(kind) {
        Ok(()) => Ok(servers),
        Err(trouble) => remove(&servers.place.folder).and(Err(trouble)),
    }
}

impl Servers {
    /// Where clients connect to, over the loopback.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port())
    }

    /// The port of the primary.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.nodes[self.primary].port
    }

    /// The ports of all, in the order in which they were started.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(|node| node.port).collect()
    }

    /// The folder of the servers.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.place.folder
    }

    fn start_all(&mut self, kind: Kind) -> Result<(), Trouble> {
        let folder = self.place.folder.clone();
        let primary = folder.join("primary");
        if self.life == Life::Process {
            self.place.watch(&stop_script(&self.bin, &folder))?;
        }
        run(self
            .program("initdb")
            .args(["--no-sync", "--auth", "trust", "--username", "postgres"])
            .args(["--encoding", "UTF8", "--locale", "C", "--pgdata"])
            .arg(&primary))?;
        append(
            &primary.join("postgresql.conf"),
            &format!(
                "listen_addresses = '127.0.0.1'\nunix_socket_directories = '{}'\n\
                 fsync = on\nsynchronous_commit = on\nfull_page_writes = on\n\
                 max_connections = 200\nwal_level = replica\nmax_wal_senders = 10\n\
                 hot_standby = on\nwal_receiver_status_interval = 1s\n",
                folder.display()
            ),
        )?;
        self.start_node(&primary)?;
        if kind == Kind::Replicated {
            for name in ["replica1", "replica2"] {
                self.add_replica(name)?;
            }
            self.sql("ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'")?;
            self.sql("SELECT pg_reload_conf()")?;
            self.await_quorum()?;
        }
        let note = folder.join("url");
        fs::write(&note, self.url()).map_err(failed("write", &note))
    }

    fn add_replica(&mut self, name: &str) -> Result<(), Trouble> {
        let data = self.place.folder.join(name);
        let source = format!(
            "host={} port={} user=postgres application_name={name}",
            self.place.folder.display(),
            self.port()
        );
        run(self
            .program("pg_basebackup")
            .args(["--no-sync", "--checkpoint", "fast", "--wal-method", "stream"])
            .args(["--write-recovery-conf", "--dbname", &source, "--pgdata"])
            .arg(&data))?;
        self.start_node(&data)
    }

    /// Waits until both replicas are in the quorum: a replica that merely streams proves nothing.
    fn await_quorum(&self) -> Result<(), Trouble> {
        let until = Instant::now() + START_MAX;
        loop {
            let states = self.sql("SELECT sync_state FROM pg_stat_replication")?;
            if states.lines().filter(|state| *state == "quorum").count() == 2 {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(Trouble::Failed(format!("the replicas are no quorum, but: {states}")));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Starts the server on `data` on a free port; another port when somebody else took it first.
    fn start_node(&mut self, data: &Path) -> Result<(), Trouble> {
        let mut trouble = None;
        for _ in 0..5 {
            let port = free_port()?;
            let started = run(self
                .program("pg_ctl")
                .args(["start", "--wait", "--silent"])
                .args(["--timeout", &START_MAX.as_secs().to_string()])
                .args(["--options", &format!("-p {port}"), "--pgdata"])
                .arg(data)
                .arg("--log")
                .arg(data.with_extension("log"))
                .stdout(Stdio::null()));
            match started {
                Ok(_) => {
                    self.nodes.push(Node { data: data.to_owned(), port });
                    return Ok(());
                }
                Err(error) => trouble = Some(error),
            }
        }
        Err(trouble.unwrap_or_else(|| Trouble::Failed("no port was free".to_owned())))
    }

    /// Runs SQL on the primary as its superuser and returns the rows, one a line.
    ///
    /// # Errors
    ///
    /// What `psql` says.
    pub fn sql(&self, sql: &str) -> Result<String, Trouble> {
        self.sql_at(self.port(), sql)
    }

    fn sql_at(&self, port: u16, sql: &str) -> Result<String, Trouble> {
        run(self
            .program("psql")
            .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"])
            .args(["--set", "ON_ERROR_STOP=1", "--username", "postgres", "--dbname", "postgres"])
            .args(["--port", &port.to_string(), "--command", sql, "--host"])
            .arg(&self.place.folder))
    }

    /// Kills the primary as a crash would, and starts it again on its port.
    ///
    /// # Errors
    ///
    /// What `pg_ctl` says.
    pub fn crash_and_restart(&self) -> Result<(), Trouble> {
        let Node { data, port } = &self.nodes[self.primary];
        run(self
            .program("pg_ctl")
            .args(["restart", "--wait", "--silent", "--mode", "immediate"])
            .args(["--options", &format!("-p {port}"), "--pgdata"])
            .arg(data)
            .arg("--log")
            .arg(data.with_extension("log"))
            .stdout(Stdio::null()))
        .map(drop)
    }

    /// Kills the primary as a crash would.
    ///
    /// # Errors
    ///
    /// What `pg_ctl` says.
    pub fn kill_primary(&self) -> Result<(), Trouble> {
        let stop = ["stop", "--wait", "--silent", "--mode", "immediate", "--pgdata"];
        let data = &self.nodes[self.primary].data;
        run(self.program("pg_ctl").args(stop).arg(data)).map(drop)
    }

    /// The port of the replica that has received most of the log. Once the primary is gone it has
    /// every commit that was acknowledged; another may not.
    ///
    /// # Errors
    ///
    /// What `psql` says, or that there is no replica.
    pub fn foremost_replica(&self) -> Result<u16, Trouble> {
        let position =
            "SELECT coalesce(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) - '0/0'";
        let mut foremost = None;
        for (_, node) in self.nodes.iter().enumerate().filter(|(at, _)| *at != self.primary) {
            let said = self.sql_at(node.port, position)?;
            let bytes: u64 = said.trim().parse().map_err(|error| {
                Trouble::Failed(format!("the replica's position in the log is `{said}`: {error}"))
            })?;
            foremost = foremost.max(Some((bytes, node.port)));
        }
        let (_, port) =
            foremost.ok_or_else(|| Trouble::Failed("there is no replica".to_owned()))?;
        Ok(port)
    }

    /// Makes the replica that listens on `port` the primary, which waits for no other.
    ///
    /// # Errors
    ///
    /// What `pg_ctl` says, or that none listens there.
    pub fn promote(&mut self, port: u16) -> Result<(), Trouble> {
        let at = self.nodes.iter().position(|node| node.port == port);
        let at = at.ok_or_else(|| Trouble::Failed(format!("no replica listens on {port}")))?;
        let promote = ["promote", "--wait", "--silent", "--pgdata"];
        run(self.program("pg_ctl").args(promote).arg(&self.nodes[at].data))?;
        self.primary = at;
        Ok(())
    }

    fn program(&self, name: &str) -> Command {
        command_as(is_root().then_some(ACCOUNT), &self.bin.join(name))
    }
}

/// The commands of a shell that stop every server below `folder`, the replicas first.
fn stop_script(bin: &Path, folder: &Path) -> String {
    let pg_ctl = quoted(&bin.join("pg_ctl"));
    let account = if is_root() {
        format!("setpriv --reuid {ACCOUNT} --regid {ACCOUNT} --init-groups -- ")
    } else {
        String::new()
    };
    let folder = quoted(folder);
    format!(
        "cd /; for data in {folder}/replica* {folder}/primary; do \
         if [ -f \"$data/postmaster.pid\" ]; then \
         {account}{pg_ctl} stop --silent --wait --mode immediate --pgdata \"$data\"; fi; done"
    )
}

/// Stops the servers of a set by its folder alone, as far as they run.
pub(super) fn stop_in(folder: &Path) -> Result<(), Trouble> {
    let Some(bin) = programs() else { return Ok(()) };
    run(Command::new("sh").args(["-c", &stop_script(&bin, folder)])).map(drop)
}
