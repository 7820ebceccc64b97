//! HTTP: routes, and the bodies of requests.

use std::{convert::Infallible, net::IpAddr, sync::Arc};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body as _, Incoming},
    header,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    cursor, dump, encode,
    error::{Failed, Refusal, SqlError},
    idempotency,
    memory::Memory,
    pipeline,
    program::{Program, StoredSql},
    protocol::{
        Answer, PipelineRequest, PipelineResponse, RequestType, Response as Told, V1Request,
    },
    response::{Body, encoded, json, refuse, text},
    server::{Place, Server},
    streams::Stream,
    websocket,
};

/// Answers one HTTP request.
pub(crate) async fn answer(
    server: Arc<Server>,
    place: Place,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let answering = server.clone();
    let _answering = answering.answering();
    let answered = match check_caller(&server, &request) {
        Ok(()) => route(server, place, request).await,
        Err(refusal) => Err(refusal),
    };
    Ok(answered.unwrap_or_else(refuse))
}

async fn route(
    server: Arc<Server>,
    place: Place,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    let is_get = request.method() == Method::GET;
    let is_post = request.method() == Method::POST;
    match request.uri().path() {
        "/" if is_get && websocket::is_upgrade(&request) => {
            websocket::accept(server, place, &mut request)
        }
        "/" | "/v1" | "/v2" | "/v3" if is_get => Ok(text(
            "groupcommit: SQL over HTTP. Connect with a libSQL or Turso client, or POST to /v2/pipeline.\n",
        )),
        "/health" if is_get => Ok(text("")),
        "/version" if is_get => Ok(text(concat!("groupcommit ", env!("CARGO_PKG_VERSION"), "\n"))),
        "/dump" if is_get => Ok(dump::respond(&server)),
        "/v2/pipeline" | "/v3/pipeline" if is_post => pipeline(&server, request).await,
        "/v3/cursor" | "/v1/execute" | "/v1/batch"
            if idempotency::key_of(request.headers())?.is_some() =>
        {
            let message = "keys are honoured by /v2/pipeline and /v3/pipeline only";
            Err(Refusal::bad_request("IDEMPOTENCY_KEY_UNSUPPORTED", message))
        }
        "/v3/cursor" if is_post => {
            let (body, _memory) = read(&server, request).await?;
            cursor::respond(&server, body).await
        }
        "/v1/execute" | "/v1/batch" if is_post => version_1(&server, request).await,
        "/" | "/v1" | "/v2" | "/v3" | "/health" | "/version" | "/dump" | "/v2/pipeline"
        | "/v3/pipeline" | "/v3/cursor" | "/v1/execute" | "/v1/batch" => Err(Refusal::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "METHOD_NOT_ALLOWED",
            format!("{} is not allowed here", request.method()),
        )),
        path => Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "NOT_FOUND",
            format!("there is nothing at {path}"),
        )),
    }
}

async fn pipeline(server: &Server, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
    let key = idempotency::key_of(request.headers())?;
    let (bytes, _memory) = read_bytes(server, request).await?;
    let body: PipelineRequest = parse(&bytes)?;
    if let Some(key) = key {
        return idempotency::respond(server, key, &bytes, body).await;
    }
    let mut session = server.streams.begin(body.baton.as_deref())?;
    let mut room = server.room();
    match pipeline::answer_all(server, &mut session.stream, body.requests, &mut room).await {
        Ok(results) => {
            let closes = matches!(results.last(), Some(Answer::Ok { response: Told::Close }));
            let baton = if closes {
                server.streams.close(&session);
                None
            } else {
                Some(server.streams.end(session))
            };
            let response = PipelineResponse { baton, base_url: None, results };
            encoded(room.memory, encode::pipeline(&response))
        }
        Err(refusal) => {
            if refusal.may_retry {
                server.streams.give_back(session);
            } else {
                server.streams.close(&session);
            }
            Err(refusal)
        }
    }
}

async fn version_1(server: &Server, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
    #[derive(Serialize)]
    struct Answered<T> {
        result: T,
    }
    let (V1Request { stmt, batch }, _memory): (V1Request, _) = read(server, request).await?;
    let (kind, program) = match (stmt, batch) {
        (Some(stmt), None) => (RequestType::Execute, Program::of_stmt(stmt, &StoredSql::new())),
        (None, Some(batch)) => (RequestType::Batch, Program::of_batch(batch, &StoredSql::new())?),
        _ => return Err(Refusal::bad_request("PROTOCOL_ERROR", "give either `stmt` or `batch`")),
    };
    let mut stream = Stream::default();
    let ran = server.run(Arc::new(program), &mut stream.hold, &server.room()).await;
    let run = ran.map_err(Failed::refusal)?;
    let memory = run.room.memory;
    match pipeline::response_of(kind, run.outcomes) {
        Ok(Told::Batch { result }) => json(memory, &Answered { result }),
        Ok(Told::Execute { result }) => json(memory, &Answered { result }),
        Ok(other) => json(memory, &other),
        Err(SqlError { message, code, .. }) => Err(Refusal::bad_request(code, message)),
    }
}

/// Bytes of memory that a byte of a request may take once it is read: a `{"type":"close"}` becomes a
/// [`Request`](crate::protocol::Request), and its answer.
const MEMORY_PER_BYTE: usize = 16;

/// Bytes of a body for which room is made before they have come.
const ROOM_AHEAD_MAX: usize = 64 << 10;

/// Reads a body of JSON. What comes with it counts as memory until it is dropped.
async fn read<T: DeserializeOwned>(
    server: &Server,
    request: Request<Incoming>,
) -> Result<(T, Memory), Refusal> {
    let (bytes, memory) = read_bytes(server, request).await?;
    Ok((parse(&bytes)?, memory))
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    let malformed = |error: &dyn std::fmt::Display| {
        Refusal::bad_request("MALFORMED_REQUEST", format!("malformed request: {error}"))
    };
    // Looked at as a whole, and not string by string.
    let text = str::from_utf8(bytes).map_err(|error| malformed(&error))?;
    serde_json::from_str(text).map_err(|error| malformed(&error))
}

async fn read_bytes(
    server: &Server,
    request: Request<Incoming>,
) -> Result<(Bytes, Memory), Refusal> {
    let patience = server.options.send_timeout;
    let read = tokio::time::timeout(patience, collect(server, request.into_body())).await;
    read.unwrap_or_else(|_| {
        let message = format!("the body took longer than {patience:?}");
        Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "REQUEST_TIMEOUT", message))
    })
}

async fn collect(server: &Server, mut body: Incoming) -> Result<(Bytes, Memory), Refusal> {
    let max = server.options.body_bytes_max;
    let too_large = || {
        let message = format!("a request has at most {max} bytes; send it in parts");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "BODY_TOO_LARGE", message)
    };
    let announced = body.size_hint().lower();
    if announced > max as u64 {
        return Err(too_large());
    }
    let announced = usize::try_from(announced).unwrap_or(max).min(ROOM_AHEAD_MAX);
    let mut memory = server.memory.none();
    let mut bytes = Bytes::new();
    let mut joined = Vec::new();
    while let Some(frame) = body.frame().await {
        let broken = |error: hyper::Error| {
            Refusal::bad_request("BROKEN_REQUEST", format!("the request broke off: {error}"))
        };
        let Ok(part) = frame.map_err(broken)?.into_data() else { continue };
        if bytes.len() + joined.len() + part.len() > max {
            return Err(too_large());
        }
        if !memory.grow(part.len() * MEMORY_PER_BYTE) {
            let message = "the requests under way take all memory; send it again";
            return Err(Refusal::not_run("OVERLOADED", message));
        }
        // Nearly every body comes in one part, which is not copied.
        if joined.is_empty() && bytes.is_empty() {
            bytes = part;
        } else {
            if joined.is_empty() {
                joined.reserve(announced);
            }
            joined.extend_from_slice(&std::mem::take(&mut bytes));
            joined.extend_from_slice(&part);
        }
    }
    Ok((if joined.is_empty() { bytes } else { joined.into() }, memory))
}

/// Refuses what a page in a browser could send without its user's knowledge: there is no login here.
fn check_caller(server: &Server, request: &Request<Incoming>) -> Result<(), Refusal> {
    let forbidden =
        |message: &'static str| Err(Refusal::new(StatusCode::FORBIDDEN, "FORBIDDEN", message));
    if request.headers().contains_key(header::ORIGIN) {
        return forbidden("requests from a browser's pages are not answered");
    }
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    if server.is_local && !host.is_none_or(is_local) {
        return forbidden("this server answers to the names of this machine only");
    }
    Ok(())
}

fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || name.ends_with(".localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_local() {
        for host in ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:8080", "db.localhost:80"]
        {
            assert!(is_local(host), "{host}");
        }
        for host in ["example.com", "localhost.example.com:8080", "x:y"] {
            assert!(!is_local(host), "{host}");
        }
    }
}
