//! Cursors: a batch whose rows are sent one a line, so that a read of any size streams.

use std::sync::Arc;

use futures_util::stream;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::{
    Response,
    body::Frame,
    header::{self, HeaderValue},
};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::{
    error::{Failed, Refusal},
    memory::Memory,
    program::Program,
    protocol::{CursorEntry, CursorHead, CursorRequest},
    response::Body,
    run,
    server::Server,
    slot::Hold,
};

/// Bytes that are gathered before they are sent, if more is there at once.
const CHUNK_BYTES: usize = 16 << 10;

/// The entries of a batch: as they are read, or of a batch that has run.
pub(crate) enum Entries {
    Read(mpsc::Receiver<(CursorEntry, Memory)>),
    Ran(std::vec::IntoIter<CursorEntry>, Memory),
}

impl Entries {
    /// Runs a batch.
    pub(crate) async fn of(
        server: &Arc<Server>,
        program: Arc<Program>,
        hold: &mut Hold,
    ) -> Result<Self, Failed> {
        if matches!(hold, Hold::None)
            && program.may_only_read()
            && let Some(entries) = server.read_entries(program.clone()).await
        {
            return Ok(Self::Read(entries));
        }
        let (mut entries, mut memory) = (Vec::new(), server.memory.none());
        match server.run(program, hold, &server.room()).await {
            Ok(run) => {
                memory = run.room.memory;
                let mut push = |entry| -> Result<(), std::convert::Infallible> {
                    entries.push(entry);
                    Ok(())
                };
                for (step, outcome) in run.outcomes.into_iter().enumerate() {
                    let Ok(()) = run::entries_of(step, outcome, &mut push);
                }
            }
            Err(Failed::Request(error)) => entries.push(CursorEntry::Error { error }),
            Err(failed) => return Err(failed),
        }
        Ok(Self::Ran(entries.into_iter(), memory))
    }

    /// The next entry, and the memory that it takes.
    pub(crate) async fn next(&mut self) -> Option<(CursorEntry, Memory)> {
        match self {
            Self::Read(entries) => entries.recv().await,
            Self::Ran(entries, memory) => Some((entries.next()?, memory.none())),
        }
    }

    /// The next entry if it is there already.
    pub(crate) fn next_now(&mut self) -> Option<(CursorEntry, Memory)> {
        match self {
            Self::Read(entries) => entries.try_recv().ok(),
            Self::Ran(entries, memory) => Some((entries.next()?, memory.none())),
        }
    }
}

/// Answers `POST /v3/cursor`.
pub(crate) async fn respond(
    server: &Arc<Server>,
    request: CursorRequest,
) -> Result<Response<Body>, Refusal> {
    let mut session = server.streams.begin(request.baton.as_deref())?;
    let program = Arc::new(Program::of_batch(request.batch, &session.stream.stored)?);
    let entries = match Entries::of(server, program, &mut session.stream.hold).await {
        Ok(entries) => entries,
        Err(failed) => {
            server.streams.give_back(session);
            return Err(failed.refusal());
        }
    };
    let head = CursorHead { baton: Some(server.streams.end(session)), base_url: None };
    let mut first = Vec::new();
    write_line(&mut first, &head);
    let all = server.memory.none();
    let body =
        stream::unfold((Some(entries), first, all), |(entries, mut lines, all)| async move {
            let mut entries = entries?;
            let rest = if let Some((entry, _memory)) = entries.next().await {
                write_line(&mut lines, &entry);
                while lines.len() < CHUNK_BYTES
                    && let Some((entry, _memory)) = entries.next_now()
                {
                    write_line(&mut lines, &entry);
                }
                Some(entries)
            } else {
                write_line(&mut lines, &CursorEntry::ReplicationIndex { replication_index: None });
                None
            };
            Some((Ok(Frame::data(all.none().hold(lines))), (rest, Vec::new(), all)))
        });
    let mut response = Response::new(StreamBody::new(body).boxed_unsync());
    let kind = HeaderValue::from_static("text/plain");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

fn write_line(lines: &mut Vec<u8>, line: &impl Serialize) {
    // Writing to memory cannot fail, and every line has a form in JSON.
    if let Err(error) = serde_json::to_writer(&mut *lines, line) {
        tracing::error!(%error, "could not write a line of a cursor");
    }
    lines.push(b'\n');
}
