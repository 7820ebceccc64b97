//! How many connections there are: looked at again and again while a measurement runs, where the
//! connections end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use groupcommit::sql::{Engine, sqlite_path};

use crate::error::{Cause, LabError};
use crate::server::failed;

/// A pause between two looks, each of which costs the database something.
const PAUSE: Duration = Duration::from_millis(5);

/// Looks until it is told to end.
pub(super) struct Counting {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Counting {
    /// Begins to look at the database at `url`.
    pub(super) fn begin(url: &str) -> Result<Self, LabError> {
        let mut look = look(url).map_err(failed("look at the connections of", url))?;
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let mut most = 0;
            while !over.load(Ordering::Relaxed) {
                most = most.max(look());
                thread::sleep(PAUSE);
            }
            most
        });
        Ok(Self { is_over, thread: Some(thread) })
    }

    /// The most connections seen at once.
    pub(super) fn end(mut self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

type Look = Box<dyn FnMut() -> u64 + Send>;

fn look(url: &str) -> Result<Look, Cause> {
    match Engine::of_url(url)? {
        Engine::Sqlite => {
            // Each connection has the file open once; what holds it for other reasons is counted too.
            let path = sqlite_path(url)?.canonicalize()?;
            Ok(Box::new(move || {
                let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
                let is_ours = |entry: &std::fs::DirEntry| {
                    std::fs::read_link(entry.path()).is_ok_and(|link| link == path)
                };
                open.filter(is_ours).count() as u64
            }))
        }
        #[cfg(feature = "mysql")]
        Engine::Mysql => super::mysql::look(url),
        #[cfg(feature = "postgres")]
        Engine::Postgres => super::postgres::look(url),
        other => Err(format!("nobody counts the connections of {other}").into()),
    }
}
