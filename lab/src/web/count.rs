//! How many connections there are: looked at again and again while a measurement runs, where the
//! connections end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use groupcommit::sql::{Engine, sqlite_path};

#[cfg(feature = "_remote")]
use crate::client::Blocking;
use crate::error::{Cause, LabError};
#[cfg(feature = "_remote")]
use crate::remote::Lane;
use crate::server::failed;
#[cfg(feature = "postgres")]
use crate::web::work::NAME;

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
        Engine::Mysql => {
            // Those from before may take their time to end.
            let younger = "SELECT count(*) FROM information_schema.processlist \
                           WHERE db = DATABASE() AND id > CONNECTION_ID() AND ? = ?";
            look_with::<Lane<crate::mysql::MysqlClient>>(url, younger.to_owned(), &[1, 1])
        }
        #[cfg(feature = "postgres")]
        Engine::Postgres => {
            let named =
                format!("SELECT count(*) FROM pg_stat_activity WHERE application_name = '{NAME}'");
            look_with::<Lane<crate::postgres::PostgresClient>>(url, named, &[])
        }
        other => Err(format!("nobody counts the connections of {other}").into()),
    }
}

/// Asks the server again and again.
#[cfg(feature = "_remote")]
fn look_with<B: Blocking>(url: &str, sql: String, numbers: &'static [i64]) -> Result<Look, Cause> {
    let mut client = B::connect(url)?;
    Ok(Box::new(move || {
        let count = client.run(&sql, numbers, None).ok().flatten();
        count.map_or(0, i64::cast_unsigned)
    }))
}
