//! Throw-away database servers, for tests and measurements.
//!
//! Every set of servers lives in a folder of its own below [`home`], runs as an account of its own
//! where the caller is root, listens on a free port of the loopback and on a socket in its folder,
//! and writes as durably as a server in use does.
//!
//! Invariants:
//! 1. A folder says who owns it (`owner`): a process by its number and its start, or nobody, which
//!    keeps the servers until they are stopped by name. [`sweep`] removes what the dead left.
//! 2. Servers that belong to a process end with it, however it ends: a shell waits for the end of a
//!    pipe that only this process holds open.

use std::{
    fs,
    io::{self, Write as _},
    net::TcpListener,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

pub mod mysql;
pub mod postgres;
pub mod proxy;

/// How long the servers of one set live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// As long as the process that started them.
    Process,
    /// Until they are stopped.
    Kept,
}

/// Why servers could not be started or stopped, as a sentence.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// Their programs are not installed, and could not be installed here.
    #[error("{0}")]
    Missing(String),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

/// The servers that a test needs; `None`, and a line that says so, where their programs are missing and
/// `GROUPCOMMIT_SERVERS` does not say `required`.
///
/// # Panics
///
/// When they could not be started, or are required.
#[must_use]
pub fn or_skip<S>(started: Result<S, Trouble>) -> Option<S> {
    let is_required = || std::env::var("GROUPCOMMIT_SERVERS").is_ok_and(|it| it == "required");
    match started {
        Ok(servers) => Some(servers),
        Err(Trouble::Missing(what)) if !is_required() => {
            eprintln!("skipped: {what}");
            None
        }
        Err(trouble) => panic!("{trouble}"),
    }
}

fn failed(doing: &str, path: &Path) -> impl FnOnce(io::Error) -> Trouble {
    let what = format!("could not {doing} {}", path.display());
    move |error| Trouble::Failed(format!("{what}: {error}"))
}

/// The folder of all throw-away servers of this machine's user; accounts of servers can reach it.
///
/// # Errors
///
/// What the file system says.
pub fn home() -> Result<PathBuf, Trouble> {
    let home = std::env::temp_dir().join("groupcommit-servers");
    fs::create_dir_all(&home).map_err(failed("create", &home))?;
    // Who may not own it need not set it: it was made so.
    drop(fs::set_permissions(&home, fs::Permissions::from_mode(0o755)));
    Ok(home)
}

/// The folder of one set of servers, with its owner.
#[derive(Debug)]
struct Place {
    folder: PathBuf,
    /// Ends the servers when its standard input does.
    watcher: Option<Child>,
}

impl Place {
    /// A new folder whose name begins with `kind`, given to `account` where there is one.
    fn new(kind: &str, life: Life, account: Option<&str>) -> Result<Self, Trouble> {
        let home = home()?;
        let folder = (0..10_000)
            .map(|number| home.join(format!("{kind}-{}-{number}", std::process::id())))
            .find(|folder| fs::create_dir(folder).is_ok())
            .ok_or_else(|| {
                Trouble::Failed(format!("could not create a folder in {}", home.display()))
            })?;
        let owner = match life {
            Life::Process => identity(std::process::id()).unwrap_or_default(),
            Life::Kept => KEPT.to_owned(),
        };
        let file = folder.join("owner");
        fs::write(&file, owner).map_err(failed("write", &file))?;
        if let Some(account) = account {
            run(Command::new("chown").arg(account).arg(&folder))?;
        }
        Ok(Self { folder, watcher: None })
    }

    /// Lets a shell run `stop` and remove the folder when this process is gone.
    fn watch(&mut self, stop: &str) -> Result<(), Trouble> {
        let script = format!("cat >/dev/null; {stop}; rm -rf {}", quoted(&self.folder));
        let watcher = Command::new("setsid")
            .args(["sh", "-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed("start a watcher for", &self.folder))?;
        self.watcher = Some(watcher);
        Ok(())
    }
}

impl Drop for Place {
    /// Has the watcher stop the servers now, and waits for it.
    fn drop(&mut self) {
        if let Some(mut watcher) = self.watcher.take() {
            drop(watcher.stdin.take());
            drop(watcher.wait());
        }
    }
}

const KEPT: &str = "kept";

/// A process by its number and the time it was started, since numbers are used again.
fn identity(process: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name may hold spaces; it ends with the last parenthesis.
    let after_name = &stat[stat.rfind(')')? + 2..];
    Some(format!("{process} {}", after_name.split(' ').nth(19)?))
}

/// Stops and removes the servers whose process is gone, and with `all` every other one too; returns
/// the folders that it removed.
///
/// Processes that sweep at once take turns. A folder that its own watcher removes meanwhile is no
/// error.
///
/// # Errors
///
/// What kept the last one from being stopped or removed; the others are removed.
pub fn sweep(all: bool) -> Result<Vec<PathBuf>, Trouble> {
    sweep_in(&home()?, all)
}

fn sweep_in(home: &Path, all: bool) -> Result<Vec<PathBuf>, Trouble> {
    let turn = fs::File::open(home).map_err(failed("open", home))?;
    turn.lock().map_err(failed("lock", home))?;
    let mut removed = Vec::new();
    let mut trouble = None;
    for entry in fs::read_dir(home).map_err(failed("list", home))?.flatten() {
        let folder = entry.path();
        if !is_left_over(&folder, all) {
            continue;
        }
        match remove(&folder) {
            Err(why) if folder.exists() => trouble = Some(why),
            _ => removed.push(folder),
        }
    }
    trouble.map_or(Ok(removed), Err)
}

/// Removes what the dead left, as far as it can be: new servers do not depend on it.
fn sweep_or_say() {
    if let Err(trouble) = sweep(false) {
        eprintln!("groupcommit: servers of a process that is gone are left: {trouble}");
    }
}

fn is_left_over(folder: &Path, all: bool) -> bool {
    let owner = fs::read_to_string(folder.join("owner")).unwrap_or_default();
    if owner == KEPT {
        return all;
    }
    if owner.is_empty() {
        // It is being made or removed, or was left half made.
        let age = folder.metadata().and_then(|data| data.modified()).map(|time| time.elapsed());
        return matches!(age, Ok(Ok(age)) if age.as_secs() >= 60);
    }
    let number = owner.split(' ').next().and_then(|number| number.parse().ok());
    number.and_then(identity).is_none_or(|now| now != owner)
}

fn remove(folder: &Path) -> Result<(), Trouble> {
    postgres::stop_in(folder)?;
    mysql::stop_in(folder)?;
    fs::remove_dir_all(folder).map_err(failed("remove", folder))
}

/// A port that is free now.
fn free_port() -> Result<u16, Trouble> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener
        .map(|address| address.port())
        .map_err(|error| Trouble::Failed(format!("could not find a free port: {error}")))
}

/// `program` as `account`, where there is one.
fn command_as(account: Option<&str>, program: &Path) -> Command {
    let mut command = match account {
        Some(account) => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", account, "--regid", account, "--init-groups", "--"]);
            command.arg(program);
            command
        }
        None => Command::new(program),
    };
    // The caller's folder may not be one that the account can enter.
    command.current_dir("/").stdin(Stdio::null());
    command
}

/// Runs a command to its end and returns what it printed.
fn run(command: &mut Command) -> Result<String, Trouble> {
    let output = command
        .output()
        .map_err(|error| Trouble::Failed(format!("could not start {command:?}: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Trouble::Failed(format!(
        "{command:?} ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    )))
}

fn append(path: &Path, text: &str) -> Result<(), Trouble> {
    fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(failed("write", path))
}

/// A path as a word of a shell's command.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// Installs Debian's packages, where that is allowed.
fn install(packages: &[&str]) -> Result<(), Trouble> {
    if is_root() && Path::new("/usr/bin/apt-get").exists() {
        run(Command::new("apt-get").args(["update", "--quiet"]))?;
        run(Command::new("apt-get")
            .args(["install", "--yes", "--no-install-recommends"])
            .args(packages)
            .env("DEBIAN_FRONTEND", "noninteractive"))?;
    }
    Ok(())
}

/// Writes a certificate for the loopback, `server.crt`, and its key, `server.key`, into `folder`; `None`,
/// and a line that says so, where there is no program for it.
///
/// # Panics
///
/// When the program fails.
#[must_use]
pub fn certify(folder: &Path) -> Option<()> {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", "server.key", "-out", "server.crt"])
        .current_dir(folder)
        .output();
    let Ok(made) = made else {
        eprintln!("skipped: the test of TLS; install openssl, which makes its certificate");
        return None;
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    // As the folder's owner, where the caller is another.
    let owner = ["--reference", ".", "server.key", "server.crt"];
    run(Command::new("chown").args(owner).current_dir(folder)).expect("it is ours");
    Some(())
}

/// Whether this process may become other accounts.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn processes_that_sweep_at_once_remove_what_the_dead_left_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let folder = |name: &str, owner: &str| {
            let folder = home.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("owner"), owner).unwrap();
            folder
        };
        let living = folder("living", &identity(std::process::id()).unwrap());
        let kept = folder("kept", KEPT);
        // The first process has not started at this time.
        let dead: Vec<PathBuf> = (0..8).map(|at| folder(&format!("dead-{at}"), "1 no")).collect();
        let removed: Vec<PathBuf> = thread::scope(|scope| {
            let sweeps: Vec<_> =
                (0..4).map(|_| scope.spawn(|| sweep_in(home.path(), false).unwrap())).collect();
            sweeps.into_iter().flat_map(|sweep| sweep.join().unwrap()).collect()
        });
        // Each once: whoever comes later finds it gone.
        assert_eq!(removed.len(), dead.len(), "{removed:?}");
        assert!(dead.iter().all(|folder| !folder.exists()));
        assert!(living.exists() && kept.exists());
        assert_eq!(sweep_in(home.path(), true).unwrap(), [kept]);
        assert!(living.exists());
    }
}
