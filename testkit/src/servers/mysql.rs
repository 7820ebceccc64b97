//! Throw-away MariaDB servers: one alone, or a Galera cluster of three nodes on the loopback.
//!
//! A node is one process with a folder for its data and a file of options beside it, and a folder of
//! its own for temporary files too: a server that starts removes those of others. Nodes are ended by
//! killing them: nothing of theirs is kept.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::{
    Life, Place, Trouble, command_as, failed, free_port, install, is_root, quoted, remove, run,
    sweep_or_say,
};

/// The account that the servers run as where the caller is root.
const ACCOUNT: &str = "mysql";

/// How long a server may take to start, or a node to be in step.
const START_MAX: Duration = Duration::from_mins(2);

/// What is said where the servers are missing.
const MISSING: &str = "MariaDB or Galera is not installed; on Debian: \
                       `apt-get install mariadb-server galera-4 rsync`";

/// Galera's library, where Debian's package puts it.
const PROVIDER: &str = "/usr/lib/galera/libgalera_smm.so";

/// Which servers to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One server.
    Single,
    /// Three nodes of which each takes writes, and which certify each other's.
    Galera,
}

/// Servers that run.
#[derive(Debug)]
pub struct Servers {
    place: Place,
    kind: Kind,
    life: Life,
    nodes: Vec<Node>,
}

/// One server.
#[derive(Debug)]
struct Node {
    /// The options' file; the data is in the folder beside it, of the same name.
    options: PathBuf,
    port: u16,
}

impl Node {
    fn socket(&self) -> PathBuf {
        self.options.with_extension("sock")
    }

    fn client(&self) -> Command {
        let mut client = Command::new("mariadb");
        client
            .args(["--no-defaults", "--user=root", "--batch", "--skip-column-names"])
            .arg(format!("--socket={}", self.socket().display()));
        client
    }

    fn sql(&self, sql: &str) -> Result<String, Trouble> {
        run(self.client().arg("--execute").arg(sql))
    }
}

/// Whether the programs, and Galera's library, are installed.
fn are_installed() -> bool {
    let finds = |name: &str| {
        ["/usr/sbin", "/usr/bin", "/usr/local/bin", "/usr/local/sbin"]
            .iter()
            .any(|folder| Path::new(folder).join(name).is_file())
    };
    ["mariadbd", "mariadb", "mariadb-install-db", "rsync"].iter().all(|name| finds(name))
        && Path::new(PROVIDER).is_file()
}

/// Installs what is missing with Debian's package manager, where that is allowed. No service is
/// left running by it.
fn install_if_missing() -> Result<(), Trouble> {
    if are_installed() {
        return Ok(());
    }
    let was_running = is_service_running();
    install(&["mariadb-server", "mariadb-client", "galera-4", "rsync"])?;
    if !was_running && is_service_running() {
        run(Command::new("service").args(["mariadb", "stop"]))?;
    }
    if are_installed() { Ok(()) } else { Err(Trouble::Missing(MISSING.to_owned())) }
}

/// Whether the service that Debian's package sets up has been started.
fn is_service_running() -> bool {
    Path::new("/run/mysqld/mysqld.pid").exists()
}

/// Starts servers; installs their programs where they are missing and that is allowed.
///
/// # Errors
///
/// What kept them from starting; then none runs.
pub fn start(kind: Kind, life: Life) -> Result<Servers, Trouble> {
    install_if_missing()?;
    sweep_or_say();
    let place = Place::new("mysql", life, is_root().then_some(ACCOUNT))?;
    let mut servers = Servers { place, kind, life, nodes: Vec::new() };
    match servers.start_all() {
        Ok(()) => Ok(servers),
        Err(trouble) => remove(&servers.place.folder).and(Err(trouble)),
    }
}

impl Servers {
    /// Where clients connect to, over the loopback: all nodes, the first before the others.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<String> =
            self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        format!("mysql://root@{}/test", hosts.join(","))
    }

    /// The port of a node, counted from 0.
    #[must_use]
    pub fn port(&self, node: usize) -> u16 {
        self.nodes[node].port
    }

    /// The folder of the servers.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.place.folder
    }

    fn start_all(&mut self) -> Result<(), Trouble> {
        let folder = self.place.folder.clone();
        if self.life == Life::Process {
            self.place.watch(&stop_script(&folder))?;
        }
        let count = if self.kind == Kind::Galera { 3 } else { 1 };
        let ports = free_ports(count * PORTS)?;
        let addresses: Vec<String> =
            ports.chunks(PORTS).map(|ports| format!("127.0.0.1:{}", ports[1])).collect();
        let addresses = addresses.join(",");
        let mut installs = Vec::new();
        for (index, ports) in ports.chunks(PORTS).enumerate() {
            let options = folder.join(format!("node{index}.cnf"));
            let text = options_of(&options, self.kind, ports, &addresses);
            fs::write(&options, text).map_err(failed("write", &options))?;
            self.nodes.push(Node { options: options.clone(), port: ports[0] });
            installs.push(install_data(&options)?);
        }
        // All of them have ended before any failure is told, and the folder removed.
        let ended: Vec<_> = installs.iter_mut().map(std::process::Child::wait).collect();
        for (node, ended) in self.nodes.iter().zip(ended) {
            let status = ended.map_err(failed("install a database in", &folder))?;
            if !status.success() {
                return Err(Trouble::Failed(format!(
                    "mariadb-install-db ended with {status}: {}",
                    last_lines(&node.options.with_extension("install"))
                )));
            }
        }
        for node in 0..self.nodes.len() {
            self.start_node(node, self.kind == Kind::Galera && node == 0)?;
        }
        self.nodes[0].sql("CREATE DATABASE test CHARACTER SET utf8mb4")?;
        let note = folder.join("url");
        fs::write(&note, self.url()).map_err(failed("write", &note))
    }

    /// Starts a node, the first of a cluster with `is_first`, and waits until it serves clients.
    fn start_node(&self, node: usize, is_first: bool) -> Result<(), Trouble> {
        let this = &self.nodes[node];
        let mut command = command_as(is_root().then_some(ACCOUNT), Path::new("mariadbd"));
        // Only the first option may name the file of the others.
        command.arg(format!("--defaults-file={}", this.options.display()));
        if is_first {
            command.arg("--wsrep-new-cluster");
        }
        let spawn =
            || detached(&command).spawn().map_err(failed("start a server with", &this.options));
        let mut server = spawn()?;
        let until = Instant::now() + START_MAX;
        loop {
            let state = match self.kind {
                Kind::Single => this.sql("SELECT 'Synced'"),
                Kind::Galera => this.sql(
                    "SELECT variable_value FROM information_schema.global_status \
                     WHERE variable_name = 'wsrep_local_state_comment'",
                ),
            };
            if state.is_ok_and(|state| state.trim() == "Synced") {
                // Ends with its server, whoever ends that.
                thread::spawn(move || server.wait());
                return Ok(());
            }
            let has_ended = server.try_wait().is_ok_and(|status| status.is_some());
            let is_late = Instant::now() > until;
            if has_ended && !is_late && self.kind == Kind::Galera && !is_first {
                // It gives up where the others, on a busy machine, do not answer in time.
                server = spawn()?;
            } else if has_ended || is_late {
                return Err(Trouble::Failed(format!(
                    "the server of {} did not start: {}",
                    this.options.display(),
                    last_lines(&this.options.with_extension("log"))
                )));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Runs SQL on a node as its superuser and returns the rows, one a line.
    ///
    /// # Errors
    ///
    /// What `mariadb` says.
    pub fn sql_on(&self, node: usize, sql: &str) -> Result<String, Trouble> {
        self.nodes[node].sql(sql)
    }

    /// As [`sql_on`](Self::sql_on) the first node.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn sql(&self, sql: &str) -> Result<String, Trouble> {
        self.sql_on(0, sql)
    }

    /// Kills a node as a crash would, and waits until it is gone.
    ///
    /// # Errors
    ///
    /// What the shell says.
    pub fn kill(&self, node: usize) -> Result<(), Trouble> {
        let pid = self.nodes[node].options.with_extension("pid");
        run(Command::new("sh").args(["-c", &kill_script(&quoted(&pid))])).map(drop)
    }

    /// Starts a node again that was killed.
    ///
    /// # Errors
    ///
    /// What kept it from starting.
    pub fn restart(&self, node: usize) -> Result<(), Trouble> {
        self.start_node(node, false)
    }

    /// Kills the first server and starts it again on its port, with these options besides.
    ///
    /// # Errors
    ///
    /// As [`kill`](Self::kill) and [`restart`](Self::restart).
    pub fn crash_and_restart(&self, options: &[&str]) -> Result<(), Trouble> {
        self.kill(0)?;
        let file = &self.nodes[0].options;
        super::append(file, &format!("{}\n", options.join("\n")))?;
        self.restart(0)
    }
}

/// The end of a log.
fn last_lines(log: &Path) -> String {
    let log = fs::read_to_string(log).unwrap_or_default();
    let last: Vec<&str> = log.lines().rev().take(12).collect();
    last.into_iter().rev().collect::<Vec<_>>().join("\n")
}

/// Ports that a node needs: for clients, for its group, and for both ways of bringing it into step.
const PORTS: usize = 4;

/// Ports that are free now, each another.
fn free_ports(count: usize) -> Result<Vec<u16>, Trouble> {
    let mut ports = Vec::new();
    while ports.len() < count {
        let port = free_port()?;
        if !ports.contains(&port) {
            ports.push(port);
        }
    }
    Ok(ports)
}

/// The options' file of a node; `addresses` are those of all nodes of its cluster.
fn options_of(file: &Path, kind: Kind, ports: &[u16], addresses: &str) -> String {
    let base = file.with_extension("");
    let base = base.display();
    let port = ports[0];
    let text = format!(
        "[mariadbd]\ndatadir={base}\nsocket={base}.sock\npid-file={base}.pid\n\
         log-error={base}.log\ntmpdir={base}.tmp\nport={port}\nbind-address=127.0.0.1\nskip-name-resolve=ON\n\
         character-set-server=utf8mb4\nmax_connections=200\nperformance_schema=OFF\n\
         innodb_buffer_pool_size=64M\ninnodb_flush_log_at_trx_commit=1\n"
    );
    if kind == Kind::Single {
        return text;
    }
    let (group, step, whole) = (ports[1], ports[2], ports[3]);
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    format!(
        "{text}binlog_format=ROW\ndefault_storage_engine=InnoDB\ninnodb_autoinc_lock_mode=2\n\
         wsrep_on=ON\nwsrep_provider={PROVIDER}\nwsrep_cluster_name=groupcommit\n\
         wsrep_cluster_address=gcomm://{addresses}\nwsrep_node_name={name}\n\
         wsrep_node_address=127.0.0.1\nwsrep_node_incoming_address=127.0.0.1:{port}\n\
         wsrep_sst_method=rsync\nwsrep_sst_receive_address=127.0.0.1:{whole}\n\
         wsrep_provider_options=\"base_host=127.0.0.1;base_port={group};\
         gmcast.listen_addr=tcp://127.0.0.1:{group};ist.recv_addr=127.0.0.1:{step};\
         gcache.size=32M;evs.keepalive_period=PT0.3S;evs.suspect_timeout=PT2S;\
         evs.inactive_timeout=PT4S;evs.install_timeout=PT4S\"\n"
    )
}

/// Begins to fill the folder of a node's data.
fn install_data(options: &Path) -> Result<std::process::Child, Trouble> {
    let log = options.with_extension("install");
    let output = fs::File::create(&log).map_err(failed("create", &log))?;
    let errors = output.try_clone().map_err(failed("create", &log))?;
    let account = is_root().then_some(ACCOUNT);
    let scratch = options.with_extension("tmp");
    run(command_as(account, Path::new("mkdir")).arg(&scratch))?;
    let mut install = command_as(account, Path::new("mariadb-install-db"));
    install
        .env("TMPDIR", scratch)
        .arg("--no-defaults")
        .arg(format!("--datadir={}", options.with_extension("").display()))
        .args(["--auth-root-authentication-method=normal", "--skip-test-db"])
        .stdout(output)
        .stderr(errors);
    install.spawn().map_err(failed("install a database for", options))
}

/// The same command in a session of its own, which no signal to this one's terminal reaches.
fn detached(command: &Command) -> Command {
    let mut detached = Command::new("setsid");
    detached
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    detached
}

/// The commands of a shell that kill the server of a file with its number, and wait for its end.
fn kill_script(pid_file: &str) -> String {
    format!(
        "pid=$(cat {pid_file} 2>/dev/null); \
         if [ -n \"$pid\" ] && [ \"$(cat /proc/$pid/comm 2>/dev/null)\" = mariadbd ]; then \
         kill -KILL \"$pid\"; \
         while [ \"$(cat /proc/$pid/comm 2>/dev/null)\" = mariadbd ] && \
         ! grep -q '^State:.Z' /proc/$pid/status 2>/dev/null; do sleep 0.05; done; fi; \
         rm -f {pid_file}"
    )
}

/// The commands of a shell that kill every server below `folder`.
fn stop_script(folder: &Path) -> String {
    let kill = kill_script("\"$file\"");
    format!("cd /; for file in {}/node*.pid; do {kill}; done", quoted(folder))
}

/// Kills the servers of a set by its folder alone, as far as they run.
pub(super) fn stop_in(folder: &Path) -> Result<(), Trouble> {
    run(Command::new("sh").args(["-c", &stop_script(folder)])).map(drop)
}
