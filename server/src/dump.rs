//! `GET /dump`: the database as SQL, from one snapshot, as the `sqlite3` shell writes it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use bytes::Bytes;
use futures_util::stream;
use groupcommit::sqlite::rusqlite::{self, Connection};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::{
    Response,
    body::Frame,
    header::{self, HeaderValue},
};
use tokio::sync::mpsc;

use crate::{response::Body, server::Server};

/// Bytes that are gathered before they are sent.
const CHUNK_BYTES: usize = 64 << 10;

/// Chunks that are read ahead of the client.
const CHUNKS_AHEAD: usize = 4;

pub(crate) fn respond(server: &Arc<Server>) -> Response<Body> {
    let (sender, chunks) = mpsc::channel::<Bytes>(CHUNKS_AHEAD);
    let server = server.clone();
    tokio::spawn(async move {
        let patience = server.options.send_timeout;
        let runtime = tokio::runtime::Handle::current();
        let client = sender.clone();
        let handed_out = Arc::new(AtomicBool::new(false));
        let hands_out = handed_out.clone();
        let send = move |chunk| {
            hands_out.store(true, Relaxed);
            let sent = tokio::time::timeout(patience, sender.send(chunk));
            matches!(runtime.block_on(sent), Ok(Ok(())))
        };
        let dumping = server.reading(move |connection| dump(connection, send));
        let dumped = server.streaming(dumping, &handed_out, client.closed()).await;
        if !matches!(dumped, None | Some(Ok(Ok(())))) {
            // What was sent lacks its last line, `COMMIT`.
            tracing::warn!(?dumped, "a dump was not completed");
        }
    });
    let body = stream::unfold(chunks, |mut chunks| async move {
        let chunk = chunks.recv().await?;
        Some((Ok(Frame::data(chunk)), chunks))
    });
    let mut response = Response::new(StreamBody::new(body).boxed_unsync());
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Lines on their way to the client.
struct Lines<S> {
    text: String,
    send: S,
}

impl<S: Fn(Bytes) -> bool> Lines<S> {
    fn write(&mut self, line: &str) -> rusqlite::Result<()> {
        self.text.push_str(line);
        self.text.push('\n');
        if self.text.len() < CHUNK_BYTES { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> rusqlite::Result<()> {
        let chunk = Bytes::from(std::mem::take(&mut self.text));
        if (self.send)(chunk) { Ok(()) } else { Err(rusqlite::Error::QueryReturnedNoRows) }
    }
}

fn dump(connection: &Connection, send: impl Fn(Bytes) -> bool) -> rusqlite::Result<()> {
    let mut lines = Lines { text: String::new(), send };
    lines.write("PRAGMA foreign_keys=OFF;")?;
    lines.write("BEGIN TRANSACTION;")?;
    let mut tables = connection.prepare(
        "SELECT s.name, s.sql, l.type FROM sqlite_schema s JOIN pragma_table_list l \
         ON l.name = s.name AND l.schema = 'main' WHERE s.type = 'table' AND s.sql NOT NULL \
         ORDER BY s.name = 'sqlite_sequence', s.rowid",
    )?;
    let mut rows = tables.query(())?;
    let mut has_virtual = false;
    while let Some(row) = rows.next()? {
        let (name, sql, kind): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if name == "sqlite_sequence" {
            lines.write("DELETE FROM sqlite_sequence;")?;
        } else if name.starts_with("sqlite_stat") {
            lines.write("ANALYZE sqlite_schema;")?;
        } else if name.starts_with("sqlite_") {
            continue;
        } else if kind == "virtual" {
            // Its content is in shadow tables, which creating it anew would make a second time.
            if !std::mem::replace(&mut has_virtual, true) {
                lines.write("PRAGMA writable_schema=ON;")?;
            }
            let (name, sql) = (text_literal(&name), text_literal(&sql));
            lines.write(&format!(
                "INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql)\
                 VALUES('table',{name},{name},0,{sql});"
            ))?;
            continue;
        } else {
            lines.write(&format!("{sql};"))?;
        }
        dump_rows(connection, &name, &mut lines)?;
    }
    let mut others = connection.prepare(
        "SELECT sql FROM sqlite_schema WHERE type IN ('index', 'trigger', 'view') \
         AND sql NOT NULL ORDER BY type = 'trigger', rowid",
    )?;
    let mut rows = others.query(())?;
    while let Some(row) = rows.next()? {
        lines.write(&format!("{};", row.get::<_, String>(0)?))?;
    }
    if has_virtual {
        lines.write("PRAGMA writable_schema=RESET;")?;
    }
    lines.write("COMMIT;")?;
    lines.flush()
}

fn dump_rows<S: Fn(Bytes) -> bool>(
    connection: &Connection,
    table: &str,
    lines: &mut Lines<S>,
) -> rusqlite::Result<()> {
    let mut columns =
        connection.prepare("SELECT name FROM pragma_table_xinfo(?1) WHERE hidden = 0")?;
    let columns = columns.query_map([table], |row| row.get::<_, String>(0))?;
    let columns: Vec<String> =
        columns.map(|name| name.map(|name| identifier(&name))).collect::<rusqlite::Result<_>>()?;
    let table = identifier(table);
    let quoted: Vec<String> = columns.iter().map(|name| format!("quote({name})")).collect();
    let mut rows = connection.prepare(&format!("SELECT {} FROM {table}", quoted.join(", ")))?;
    let mut rows = rows.query(())?;
    let head = format!("INSERT INTO {table}({}) VALUES(", columns.join(","));
    while let Some(row) = rows.next()? {
        let mut line = head.clone();
        for column in 0..columns.len() {
            if column > 0 {
                line.push(',');
            }
            line.push_str(&String::from_utf8_lossy(row.get_ref(column)?.as_bytes()?));
        }
        line.push_str(");");
        lines.write(&line)?;
    }
    Ok(())
}

fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn text_literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
