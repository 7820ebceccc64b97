//! `Idempotency-Key`: a request that is sent again after its answer was lost writes once.
//!
//! ```text
//!   look for the key ──► there: its response, and nothing runs
//!          └──► not there: the whole request, and key, fingerprint and response beside what it wrote
//! ```
//!
//! All of it is one transaction, so a crash leaves the write and the key, or neither. Keys are tokens of
//! the database (`Token`), which says for how long they are kept.

use std::sync::Arc;

use groupcommit::{Failure, OnceError, Rejected, Terms, Token, sqlite::Transaction};
use hyper::{
    Response, StatusCode,
    header::{HeaderMap, HeaderValue},
};
use sha2::{Digest as _, Sha256};

use crate::{
    encode,
    error::{Failed, Refusal, SqlError, explain},
    memory::Memory,
    pipeline::{self, NoResponse},
    program::{Program, StoredSql},
    protocol::{Answer, PipelineRequest, PipelineResponse, Request, RequestType, Response as Told},
    response::{Body, json_bytes},
    run::{self, Room, Stop},
    running::Running,
    server::Server,
    streams,
};

const HEADER: &str = "idempotency-key";

/// The longest key, in bytes.
const KEY_BYTES_MAX: usize = 255;

/// The longest response that is kept, in bytes of its rows.
const RESPONSE_BYTES_MAX: usize = 64 << 10;

/// The key of a request, in quotes or without.
pub(crate) fn key_of(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let Some(value) = headers.get(HEADER) else { return Ok(None) };
    let key = value.to_str().unwrap_or_default().trim();
    let key = key.strip_prefix('"').and_then(|key| key.strip_suffix('"')).unwrap_or(key);
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        let message = format!("Idempotency-Key needs 1 to {KEY_BYTES_MAX} visible characters");
        return Err(Refusal::bad_request("IDEMPOTENCY_KEY_INVALID", message));
    }
    Ok(Some(key.to_owned()))
}

/// A request of the pipeline, as far as it is known before anything runs.
enum Planned {
    Run(RequestType, Program),
    Answered(Answer),
}

/// Answers a pipeline with a key.
pub(crate) async fn respond(
    server: &Server,
    key: String,
    bytes: &[u8],
    body: PipelineRequest,
) -> Result<Response<Body>, Refusal> {
    if body.baton.is_some() {
        return Err(unsupported("a request with a baton"));
    }
    let planned = Arc::new(plan(body.requests)?);
    let running = Running::begin(&server.keys, key)?;
    let token = Token::new(running.key.as_bytes(), Sha256::digest(bytes).as_slice());
    let memory = server.memory.none();
    let run = move |tx: &mut Transaction<'_>| run_all(tx, &planned, &memory);
    let terms = Terms::new().deadline(server.options.request_timeout).bytes(2 * bytes.len());
    let once = server.database.once(token, run);
    match server.submit(terms, once).map_err(Failed::refusal)?.await {
        Ok(once) => {
            let mut response = json_bytes(StatusCode::OK, server.memory.none().hold(once.result));
            if once.is_repeated {
                let yes = HeaderValue::from_static("true");
                response.headers_mut().insert("idempotency-replayed", yes);
            }
            Ok(response)
        }
        Err(failure) => Err(refusal_of(failure)),
    }
}

fn plan(requests: Vec<Request>) -> Result<Vec<Planned>, Refusal> {
    pipeline::check_close(&requests)?;
    let mut stored = StoredSql::new();
    requests.into_iter().map(|request| plan_one(request, &mut stored)).collect()
}

fn plan_one(request: Request, stored: &mut StoredSql) -> Result<Planned, Refusal> {
    let told = |response| Ok(Planned::Answered(Answer::Ok { response }));
    let refused = |error| Ok(Planned::Answered(Answer::Error { error }));
    let kind = request.r#type;
    match kind {
        RequestType::Execute | RequestType::Batch | RequestType::Sequence => {
            match pipeline::program_of(request, stored) {
                Ok(program) => Ok(Planned::Run(kind, program)),
                Err(NoResponse::Refused(refusal)) => Err(refusal),
                Err(NoResponse::Failed(failed)) => refused(failed.into_error()),
            }
        }
        RequestType::StoreSql => {
            let (Some(id), Some(sql)) = (request.sql_id, request.sql) else {
                return refused(SqlError::new("PROTOCOL_ERROR", "give `sql_id` and `sql`"));
            };
            match streams::store(stored, id, sql.0) {
                Ok(()) => told(Told::StoreSql),
                Err(error) => refused(error),
            }
        }
        RequestType::CloseSql => {
            stored.remove(&request.sql_id.unwrap_or_default());
            told(Told::CloseSql)
        }
        RequestType::GetAutocommit => told(Told::GetAutocommit { is_autocommit: true }),
        RequestType::Close => told(Told::Close),
        _ => Err(unsupported("this kind of request")),
    }
}

/// Runs the requests in one transaction; the body of the response is its result.
fn run_all(
    tx: &mut Transaction<'_>,
    planned: &[Planned],
    memory: &Memory,
) -> Result<Vec<u8>, Stop> {
    let mut room = Room::new(RESPONSE_BYTES_MAX, memory.none());
    let mut results = Vec::with_capacity(planned.len());
    for planned in planned {
        results.push(match planned {
            Planned::Answered(answer) => answer.clone(),
            Planned::Run(kind, program) => {
                // One that undoes what it did leaves what the others did.
                let run = match tx.savepoint(|tx| run::member(tx, program, room.again())) {
                    Err(Stop::RolledBack(run)) => run,
                    ran => ran?,
                };
                room.take_over(run.room);
                match pipeline::response_of(*kind, run.outcomes) {
                    Ok(response) => Answer::Ok { response },
                    Err(error) => Answer::Error { error },
                }
            }
        });
    }
    let response = PipelineResponse { baton: None, base_url: None, results };
    encode::pipeline(&response).map_err(|_| Stop::Abandoned)
}

fn unsupported(what: &str) -> Refusal {
    let message =
        format!("{what} cannot be kept under a key: send whole transactions without state");
    Refusal::bad_request("IDEMPOTENCY_KEY_UNSUPPORTED", message)
}

fn refusal_of(failure: Failure<OnceError<Stop>>) -> Refusal {
    match failure {
        Failure::Rejected(Rejected::Caller(OnceError::Reused)) => Refusal::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "IDEMPOTENCY_KEY_REUSED",
            "the key belongs to another request",
        ),
        Failure::Rejected(Rejected::Caller(OnceError::Full)) => {
            Refusal::not_run("IDEMPOTENCY_KEYS_FULL", "no more keys can be kept at the moment")
        }
        // Not for what the client asked: the disk has failed, for example.
        Failure::Rejected(Rejected::Caller(OnceError::Caller(Stop::Sqlite(error)))) => {
            Failed::NotRun(error.to_string()).refusal()
        }
        Failure::Rejected(Rejected::Caller(OnceError::Engine(cause))) => {
            Failed::NotRun(explain(&*cause)).refusal()
        }
        Failure::Rejected(Rejected::Caller(OnceError::Caller(stop))) => match stop.settle() {
            Err(failed) => failed.refusal(),
            Ok(_) => unsupported("a transaction that stays open, or a statement that runs alone,"),
        },
        Failure::Rejected(Rejected::Engine(cause)) => {
            Refusal::bad_request("REJECTED", explain(&*cause))
        }
        Failure::Rejected(other) => {
            let message = match other {
                Rejected::Panicked(message) => message,
                _ => "the transaction was rolled back".to_owned(),
            };
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", message)
        }
        Failure::NotRun(reason) => Failed::NotRun(explain(&reason)).refusal(),
        Failure::Unknown(unknown) => Failed::unknown(&unknown).refusal(),
    }
}
