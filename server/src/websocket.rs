//! The protocol over a WebSocket: `hrana1`, `hrana2` and `hrana3`, which differ in what a client may ask.
//!
//! ```text
//!  messages in ──► by stream ──► a task a stream, its requests in turn ──► one queue ──► messages out
//! ```
//!
//! Streams of a connection run beside each other: one that waits for its turn keeps no other from
//! ending its transaction.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::{SinkExt as _, StreamExt as _};
use http_body_util::{BodyExt as _, Empty};
use hyper::{
    Request, Response, StatusCode,
    body::Incoming,
    header::{self, HeaderMap, HeaderValue},
    upgrade::Upgraded,
};
use hyper_util::rt::TokioIo;
use tokio::sync::mpsc;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message, Utf8Bytes,
        handshake::derive_accept_key,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

use crate::{
    cursor::Entries,
    error::{Refusal, SqlError},
    memory::Memory,
    pipeline::{self, NoResponse},
    program::{Program, StoredSql, text_of},
    protocol::{
        ClientMessage, ClientMessageType, Request as Ask, RequestType, Response as Told,
        ServerMessage, SqlText,
    },
    response::Body,
    run::Room,
    server::{Place, Server},
    streams::{self, Stream},
};

/// The versions of the protocol, the best first.
const SUBPROTOCOLS: [&str; 3] = ["hrana3", "hrana2", "hrana1"];

/// Streams that a connection may have open.
const STREAMS_MAX: usize = 256;

/// Requests of one stream that may wait.
const REQUESTS_AHEAD: usize = 64;

/// Messages that may wait to be sent.
const MESSAGES_AHEAD: usize = 256;

/// Entries that one fetch of a cursor returns at most.
const ENTRIES_MAX: usize = 1_000;

/// Memory of entries after which a fetch of a cursor returns what it has, in bytes.
const FETCHED_BYTES: usize = 1 << 20;

/// Whether a request asks for a WebSocket.
pub(crate) fn is_upgrade(request: &Request<Incoming>) -> bool {
    let upgrade = request.headers().get(header::UPGRADE).and_then(|value| value.to_str().ok());
    upgrade.is_some_and(|value| value.eq_ignore_ascii_case("websocket"))
}

/// Answers the request for a WebSocket, and serves it.
pub(crate) fn accept(
    server: Arc<Server>,
    place: Place,
    request: &mut Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    let headers = request.headers();
    let key = headers
        .get(header::SEC_WEBSOCKET_KEY)
        .ok_or_else(|| Refusal::bad_request("PROTOCOL_ERROR", "Sec-WebSocket-Key is missing"))?;
    let key = derive_accept_key(key.as_bytes());
    let subprotocol = subprotocol(headers)?;
    let upgrade = hyper::upgrade::on(request);
    tokio::spawn(async move {
        match upgrade.await {
            Ok(upgraded) => serve(server, upgraded).await,
            Err(error) => tracing::debug!(%error, "a WebSocket was not opened"),
        }
        drop(place);
    });
    let mut response = Response::new(Empty::new().boxed_unsync());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(key) = HeaderValue::from_str(&key) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, key);
    }
    if let Some(subprotocol) = subprotocol {
        let subprotocol = HeaderValue::from_static(subprotocol);
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, subprotocol);
    }
    Ok(response)
}

/// The version to speak; `None` if the client names none, which means the first.
fn subprotocol(headers: &HeaderMap) -> Result<Option<&'static str>, Refusal> {
    let mut offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().peekable();
    if offered.peek().is_none() {
        return Ok(None);
    }
    let offered: Vec<&str> = offered
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .collect();
    let chosen = SUBPROTOCOLS.into_iter().find(|ours| offered.contains(ours));
    chosen.map(Some).ok_or_else(|| {
        let message = format!("this server speaks {}", SUBPROTOCOLS.join(", "));
        Refusal::bad_request("UNSUPPORTED_SUBPROTOCOL", message)
    })
}

type Socket = WebSocketStream<TokioIo<Upgraded>>;

async fn serve(server: Arc<Server>, upgraded: Upgraded) {
    let config = WebSocketConfig::default()
        .max_message_size(Some(server.options.body_bytes_max))
        .max_frame_size(Some(server.options.body_bytes_max));
    let io = TokioIo::new(upgraded);
    let socket: Socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
    let (outgoing, mut incoming) = socket.split();
    let (messages, queue) = mpsc::channel(MESSAGES_AHEAD);
    let sending = tokio::spawn(send(outgoing, queue, server.options.send_timeout));
    let mut stopping = std::pin::pin!(server.stopping());
    let mut connection = Connection {
        server,
        messages,
        stored: StoredSql::new(),
        streams: HashMap::new(),
        cursors: HashMap::new(),
    };
    let close = loop {
        let message = tokio::select! {
            message = incoming.next() => message,
            () = &mut stopping => break Some(close(CloseCode::Away, "shutting down")),
        };
        let handled = match message {
            Some(Ok(Message::Text(text))) => connection.handle(text.as_str()).await,
            Some(Ok(Message::Binary(_))) => Err("messages are text".to_owned()),
            Some(Ok(Message::Close(_)) | Err(_)) | None => break None,
            Some(Ok(_)) => Ok(()),
        };
        if let Err(reason) = handled {
            break Some(close(CloseCode::Protocol, &reason));
        }
    };
    if let Some(close) = close {
        drop(connection.messages.send(close).await); // the client may be gone
    }
    drop(connection); // ends the streams, and rolls their transactions back
    if let Err(error) = sending.await {
        tracing::warn!(%error, "the sender of a WebSocket ended early");
    }
}

/// Sends what is queued, until nobody queues any more or the client does not take it.
async fn send(
    mut outgoing: futures_util::stream::SplitSink<Socket, Message>,
    mut queue: mpsc::Receiver<Message>,
    patience: Duration,
) {
    while let Some(message) = queue.recv().await {
        let sent = async {
            outgoing.feed(message).await?;
            while let Ok(message) = queue.try_recv() {
                outgoing.feed(message).await?;
            }
            outgoing.flush().await
        };
        if !matches!(tokio::time::timeout(patience, sent).await, Ok(Ok(()))) {
            return;
        }
    }
    drop(tokio::time::timeout(patience, outgoing.close()).await); // it is over in any case
}

fn close(code: CloseCode, reason: &str) -> Message {
    // A close frame has room for 123 bytes.
    let reason: String = reason.chars().take(100).filter(char::is_ascii).collect();
    Message::Close(Some(CloseFrame { code, reason: reason.into() }))
}

/// What the streams of one WebSocket share.
struct Connection {
    server: Arc<Server>,
    messages: mpsc::Sender<Message>,
    stored: StoredSql,
    streams: HashMap<i32, mpsc::Sender<(i32, Ask)>>,
    /// The stream of each open cursor.
    cursors: HashMap<i32, i32>,
}

impl Connection {
    /// Takes one message; an error ends the connection.
    async fn handle(&mut self, text: &str) -> Result<(), String> {
        let message: ClientMessage =
            serde_json::from_str(text).map_err(|error| error.to_string())?;
        match message.r#type {
            ClientMessageType::Hello => {
                let hello = text_of_message(self.server.memory.none(), &ServerMessage::HelloOk);
                drop(self.messages.send(hello).await); // the client may be gone
                Ok(())
            }
            ClientMessageType::Request => {
                let id = message.request_id.ok_or("a request needs a request_id")?;
                let request = message.request.ok_or("a request needs the field `request`")?;
                let answered = self.dispatch(id, request).await.transpose();
                if let Some(answered) = answered {
                    tell(&self.messages, self.server.memory.none(), id, answered).await?;
                }
                Ok(())
            }
        }
    }

    /// Answers what concerns the connection, and hands the rest to its stream.
    async fn dispatch(
        &mut self,
        request_id: i32,
        mut request: Ask,
    ) -> Result<Option<Told>, NoResponse> {
        let missing =
            |field| SqlError::new("PROTOCOL_ERROR", format!("the field `{field}` is missing"));
        match request.r#type {
            RequestType::StoreSql => {
                let id = request.sql_id.ok_or_else(|| missing("sql_id"))?;
                let sql = request.sql.ok_or_else(|| missing("sql"))?;
                streams::store(&mut self.stored, id, sql.0)?;
                return Ok(Some(Told::StoreSql));
            }
            RequestType::CloseSql => {
                self.stored.remove(&request.sql_id.ok_or_else(|| missing("sql_id"))?);
                return Ok(Some(Told::CloseSql));
            }
            _ => {}
        }
        self.resolve(&mut request)?;
        let of_cursor = request.cursor_id.and_then(|id| self.cursors.get(&id).copied());
        let id = request.stream_id.or(of_cursor).ok_or_else(|| missing("stream_id"))?;
        if let (RequestType::OpenCursor, Some(cursor)) = (request.r#type, request.cursor_id) {
            self.cursors.retain(|_, stream| *stream != id); // a stream has one at a time
            self.cursors.insert(cursor, id);
        }
        if request.r#type == RequestType::OpenStream {
            if self.streams.len() >= STREAMS_MAX || self.streams.contains_key(&id) {
                let message = format!("stream {id} is open already, or too many streams are");
                return Err(SqlError::new("STREAM_EXISTS", message).into());
            }
            let (sender, requests) = mpsc::channel(REQUESTS_AHEAD);
            tokio::spawn(serve_stream(self.server.clone(), requests, self.messages.clone()));
            self.streams.insert(id, sender);
            return Ok(Some(Told::OpenStream));
        }
        let closes = request.r#type == RequestType::CloseStream;
        let not_open = || SqlError::new("STREAM_NOT_OPEN", format!("stream {id} is not open"));
        let stream = self.streams.get(&id).ok_or_else(not_open)?;
        stream.send((request_id, request)).await.map_err(|_| not_open())?;
        if closes {
            self.streams.remove(&id);
            self.cursors.retain(|_, stream| *stream != id);
        }
        Ok(None)
    }

    /// Puts the stored texts into a request, in the order in which messages came.
    fn resolve(&self, request: &mut Ask) -> Result<(), SqlError> {
        let stored = |sql: &mut Option<SqlText>, id: &mut Option<i32>| match id.take() {
            Some(id) => {
                text_of(None, Some(id), &self.stored).map(|text| *sql = Some(SqlText(text.clone())))
            }
            None => Ok(()),
        };
        stored(&mut request.sql, &mut request.sql_id)?;
        if let Some(stmt) = &mut request.stmt {
            stored(&mut stmt.sql, &mut stmt.sql_id)?;
        }
        for step in request.batch.iter_mut().flat_map(|batch| &mut batch.steps) {
            stored(&mut step.stmt.sql, &mut step.stmt.sql_id)?;
        }
        Ok(())
    }
}

/// Answers the requests of one stream in turn.
async fn serve_stream(
    server: Arc<Server>,
    mut requests: mpsc::Receiver<(i32, Ask)>,
    messages: mpsc::Sender<Message>,
) {
    let mut stream = Stream::default();
    let mut entries = None;
    while let Some((id, request)) = requests.recv().await {
        let closes = request.r#type == RequestType::CloseStream;
        let mut room = server.room();
        let answering = server.answering();
        let answered = answer(&server, &mut stream, &mut entries, request, &mut room).await;
        drop(answering);
        if tell(&messages, room.memory, id, answered).await.is_err() || closes {
            return;
        }
    }
}

/// Answers a request of a stream, whose open cursor has `entries`.
async fn answer(
    server: &Arc<Server>,
    stream: &mut Stream,
    entries: &mut Option<Entries>,
    request: Ask,
    room: &mut Room,
) -> Result<Told, NoResponse> {
    match request.r#type {
        RequestType::OpenCursor => {
            let no_batch = || SqlError::new("PROTOCOL_ERROR", "`open_cursor` needs a `batch`");
            let batch = request.batch.ok_or_else(no_batch)?;
            let program = Arc::new(Program::of_batch(batch, &stream.stored)?);
            *entries = Some(Entries::of(server, program, &mut stream.hold).await?);
            Ok(Told::OpenCursor)
        }
        RequestType::FetchCursor => {
            let not_open = || SqlError::new("CURSOR_NOT_OPEN", "the cursor is not open");
            let open = entries.as_mut().ok_or_else(not_open)?;
            let max = request.max_count.map_or(1, |max| max as usize).clamp(1, ENTRIES_MAX);
            let mut next = open.next().await;
            let done = next.is_none();
            let mut fetched = Vec::new();
            while let Some((entry, memory)) = next {
                fetched.push(entry);
                room.memory.merge(memory);
                let is_full = fetched.len() == max || room.memory.bytes() > FETCHED_BYTES;
                next = if is_full { None } else { open.next_now() };
            }
            Ok(Told::FetchCursor { entries: fetched, done })
        }
        RequestType::CloseCursor => {
            *entries = None;
            Ok(Told::CloseCursor)
        }
        RequestType::CloseStream => Ok(Told::CloseStream),
        _ => pipeline::answer(server, stream, request, room).await,
    }
}

async fn tell(
    messages: &mpsc::Sender<Message>,
    memory: Memory,
    request_id: i32,
    answered: Result<Told, NoResponse>,
) -> Result<(), String> {
    let message = match answered {
        Ok(response) => ServerMessage::ResponseOk { request_id, response },
        Err(NoResponse::Failed(failed)) => {
            ServerMessage::ResponseError { request_id, error: failed.into_error() }
        }
        Err(NoResponse::Refused(refusal)) => ServerMessage::ResponseError {
            request_id,
            error: SqlError::new(refusal.code, refusal.message),
        },
    };
    messages
        .send(text_of_message(memory, &message))
        .await
        .map_err(|_| "the client is gone".to_owned())
}

/// A message, which takes `memory` until it is sent.
fn text_of_message(memory: Memory, message: &ServerMessage) -> Message {
    let text = serde_json::to_vec(message).unwrap_or_else(|error| {
        tracing::error!(%error, "could not write a message"); // every message has a form in JSON
        Vec::new()
    });
    Message::text(Utf8Bytes::try_from(memory.hold(text)).unwrap_or_default())
}
