//! Streams: what a client's requests have in common, and the batons that lead to it.
//!
//! A stream without a transaction and without stored SQL is nothing but a number, so it never expires:
//! a baton that says so is honoured even when the stream was forgotten. A baton of a stream that had
//! state is honoured only while that state is there.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use crate::{
    error::{Refusal, SqlError},
    program::StoredSql,
    slot::Hold,
};

/// Streams that are remembered before the oldest are forgotten.
const STREAMS_MAX: usize = 16_384;

/// Texts that a stream may store, and their bytes together.
const STORED_MAX: usize = 128;
const STORED_BYTES_MAX: usize = 256 << 10;

/// The state of one stream.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    pub(crate) stored: StoredSql,
    pub(crate) hold: Hold,
}

impl Stream {
    fn has_state(&self) -> bool {
        !self.stored.is_empty() || !matches!(self.hold, Hold::None)
    }
}

/// Keeps a text under a number.
pub(crate) fn store(stored: &mut StoredSql, id: i32, sql: Arc<str>) -> Result<(), SqlError> {
    let bytes: usize = stored.values().map(|sql| sql.len()).sum();
    if stored.len() >= STORED_MAX || bytes + sql.len() > STORED_BYTES_MAX {
        let message = format!(
            "a stream stores at most {STORED_MAX} SQL texts of together {STORED_BYTES_MAX} bytes"
        );
        return Err(SqlError::new("SQL_STORE_TOO_MANY", message));
    }
    stored.insert(id, sql);
    Ok(())
}

/// A stream in use by one request.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// It has a number once a baton was given out.
    id: Option<u128>,
    sequence: u64,
    pub(crate) stream: Stream,
}

/// The streams between their requests.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    known: Mutex<HashMap<u128, Entry>>,
    /// Makes batons of other servers, and of this one's past, look foreign.
    key: RandomState,
}

#[derive(Debug)]
struct Entry {
    /// That of the one baton that is valid.
    sequence: u64,
    /// `None` while a request uses it.
    stream: Option<Stream>,
    used: Instant,
}

impl Streams {
    /// The stream of a request with this baton.
    pub(crate) fn begin(&self, baton: Option<&str>) -> Result<Session, Refusal> {
        let Some(baton) = baton else { return Ok(Session::default()) };
        let invalid = || Refusal::bad_request("INVALID_BATON", "Received an invalid baton");
        let (id, sequence, has_state) = self.read(baton).ok_or_else(invalid)?;
        let mut known = self.lock();
        let stream = match known.get_mut(&id) {
            Some(entry) if entry.sequence == sequence && entry.stream.is_some() => {
                entry.stream.take()
            }
            Some(_) => {
                let message = "Received a baton that has already been used";
                return Err(Refusal::bad_request("BATON_REUSED", message));
            }
            None if has_state => {
                let message = "The stream has expired due to inactivity";
                return Err(Refusal::bad_request("STREAM_EXPIRED", message));
            }
            None => None,
        };
        Ok(Session { id: Some(id), sequence, stream: stream.unwrap_or_default() })
    }

    /// The request has ended; a baton for the next one.
    pub(crate) fn end(&self, mut session: Session) -> String {
        let id = *session.id.get_or_insert_with(|| uuid::Uuid::new_v4().as_u128());
        session.sequence += 1;
        let has_state = session.stream.has_state();
        let mut known = self.lock();
        if known.len() >= STREAMS_MAX {
            forget(&mut known);
        }
        let stream = Some(session.stream);
        known.insert(id, Entry { sequence: session.sequence, stream, used: Instant::now() });
        self.write(id, session.sequence, has_state)
    }

    /// The request had no effect, and its baton stays valid.
    pub(crate) fn give_back(&self, session: Session) {
        let mut known = self.lock();
        if let Some(entry) = session.id.and_then(|id| known.get_mut(&id)) {
            entry.stream = Some(session.stream);
        }
    }

    /// The stream is closed; its transaction is rolled back.
    pub(crate) fn close(&self, session: &Session) {
        if let Some(id) = session.id {
            self.lock().remove(&id);
        }
    }

    /// Closes all streams that no request uses.
    pub(crate) fn close_all(&self) {
        let closed = std::mem::take(&mut *self.lock());
        drop(closed); // without the lock
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u128, Entry>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, id: u128, sequence: u64, has_state: bool) -> String {
        let seal = self.key.hash_one((id, sequence, has_state));
        format!("{id:032x}.{sequence:x}.{}.{seal:016x}", u8::from(has_state))
    }

    fn read(&self, baton: &str) -> Option<(u128, u64, bool)> {
        let mut parts = baton.split('.');
        let id = u128::from_str_radix(parts.next()?, 16).ok()?;
        let sequence = u64::from_str_radix(parts.next()?, 16).ok()?;
        let has_state = parts.next()? == "1";
        (self.write(id, sequence, has_state) == baton).then_some((id, sequence, has_state))
    }
}

/// Makes room: forgets the streams without state, and if need be those that were used longest ago.
fn forget(known: &mut HashMap<u128, Entry>) {
    known.retain(|_, entry| entry.stream.as_ref().is_none_or(Stream::has_state));
    if known.len() > STREAMS_MAX / 2 {
        let mut used: Vec<Instant> = known.values().map(|entry| entry.used).collect();
        let (_, oldest_kept, _) = used.select_nth_unstable(STREAMS_MAX / 4);
        let oldest_kept = *oldest_kept;
        known.retain(|_, entry| entry.used > oldest_kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_state() -> Stream {
        Stream { stored: StoredSql::from([(1, "SELECT 1".into())]), hold: Hold::None }
    }

    #[test]
    fn a_baton_leads_to_its_stream_once() {
        let streams = Streams::default();
        let first = streams.end(Session { stream: with_state(), ..Session::default() });
        let session = streams.begin(Some(&first)).unwrap();
        assert_eq!(session.stream.stored.len(), 1);
        assert_eq!(streams.begin(Some(&first)).unwrap_err().code, "BATON_REUSED");
        let second = streams.end(session);
        assert_eq!(streams.begin(Some(&first)).unwrap_err().code, "BATON_REUSED");
        let session = streams.begin(Some(&second)).unwrap();
        streams.close(&session);
        assert_eq!(streams.begin(Some(&second)).unwrap_err().code, "STREAM_EXPIRED");
    }

    #[test]
    fn a_foreign_baton_is_refused() {
        let streams = Streams::default();
        let foreign = Streams::default().end(Session::default());
        let long = "f".repeat(1 << 16);
        for baton in ["", "x", "1.2.3", "....", &foreign, &long] {
            assert_eq!(streams.begin(Some(baton)).unwrap_err().code, "INVALID_BATON", "{baton}");
        }
    }

    #[test]
    fn a_stream_without_state_is_honoured_though_it_was_forgotten() {
        let streams = Streams::default();
        let stateless = streams.end(Session::default());
        let stateful = streams.end(Session { stream: with_state(), ..Session::default() });
        for _ in 0..3 * STREAMS_MAX {
            streams.end(Session::default());
        }
        assert!(streams.lock().len() <= STREAMS_MAX);
        assert!(streams.begin(Some(&stateless)).is_ok());
        assert_eq!(streams.begin(Some(&stateful)).unwrap().stream.stored.len(), 1);
    }
}
