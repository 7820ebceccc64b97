//! Answering requests: those of a pipeline, of a WebSocket, and the two of version 1.

use std::sync::Arc;

use crate::{
    error::{Failed, Refusal, SqlError},
    program::{self, Program, StoredSql},
    protocol::{Answer, BatchResult, Outcome, Request, RequestType, Response, StmtResult},
    run::Room,
    server::Server,
    slot::Hold,
    sql,
    streams::{self, Stream},
};

/// Why a request has no response.
#[derive(Debug)]
pub(crate) enum NoResponse {
    Failed(Failed),
    /// The message breaks the protocol.
    Refused(Refusal),
}

impl From<Failed> for NoResponse {
    fn from(failed: Failed) -> Self {
        Self::Failed(failed)
    }
}

impl From<SqlError> for NoResponse {
    fn from(error: SqlError) -> Self {
        Self::Failed(Failed::Request(error))
    }
}

impl From<Refusal> for NoResponse {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Answers requests in turn, each whatever came of those before it.
pub(crate) async fn answer_all(
    server: &Server,
    stream: &mut Stream,
    requests: Vec<Request>,
    room: &mut Room,
) -> Result<Vec<Answer>, Refusal> {
    check_close(&requests)?;
    let mut answers = Vec::with_capacity(requests.len());
    let mut has_run = false;
    for request in requests {
        let runs = matches!(
            request.r#type,
            RequestType::Execute | RequestType::Batch | RequestType::Sequence
        );
        answers.push(match answer(server, stream, request, room).await {
            Ok(response) => Answer::Ok { response },
            Err(NoResponse::Refused(refusal)) => return Err(refusal),
            // The client must not send again what has had its effect.
            Err(NoResponse::Failed(Failed::NotRun(message))) if has_run => {
                Answer::Error { error: Failed::NotRun(message).into_error() }
            }
            Err(NoResponse::Failed(failed)) => Answer::Error { error: failed.into_refusal()? },
        });
        has_run |= runs;
    }
    Ok(answers)
}

/// Refuses requests after `close`.
pub(crate) fn check_close(requests: &[Request]) -> Result<(), Refusal> {
    let last = requests.len().saturating_sub(1);
    let closes = |request: &Request| request.r#type == RequestType::Close;
    if requests.iter().position(closes).is_some_and(|at| at != last) {
        let message = "`close` must be the last request: nothing can run on a closed stream";
        return Err(Refusal::bad_request("STREAM_CLOSED", message));
    }
    Ok(())
}

/// Answers one request.
pub(crate) async fn answer(
    server: &Server,
    stream: &mut Stream,
    request: Request,
    room: &mut Room,
) -> Result<Response, NoResponse> {
    match request.r#type {
        RequestType::Execute | RequestType::Batch | RequestType::Sequence => {
            let kind = request.r#type;
            let program = Arc::new(program_of(request, &stream.stored)?);
            let run = server.run(program, &mut stream.hold, room).await?;
            room.take_over(run.room);
            Ok(response_of(kind, run.outcomes)?)
        }
        RequestType::Describe => {
            let text = program::text_of(request.sql.as_ref(), request.sql_id, &stream.stored)?;
            let (_, sql) = sql::classify(sql::single(text)?)?;
            let result = server.describe(sql.to_owned(), &mut stream.hold).await??;
            Ok(Response::Describe { result })
        }
        RequestType::StoreSql => {
            let id = request.sql_id.ok_or_else(|| missing("store_sql", "sql_id"))?;
            let sql = request.sql.ok_or_else(|| missing("store_sql", "sql"))?;
            streams::store(&mut stream.stored, id, sql.0)?;
            Ok(Response::StoreSql)
        }
        RequestType::CloseSql => {
            let id = request.sql_id.ok_or_else(|| missing("close_sql", "sql_id"))?;
            stream.stored.remove(&id);
            Ok(Response::CloseSql)
        }
        RequestType::GetAutocommit => match &stream.hold {
            Hold::Lost(error) => Err(error.clone().into()),
            hold => Ok(Response::GetAutocommit { is_autocommit: matches!(hold, Hold::None) }),
        },
        RequestType::Close => {
            *stream = Stream::default();
            Ok(Response::Close)
        }
        RequestType::OpenStream
        | RequestType::CloseStream
        | RequestType::OpenCursor
        | RequestType::FetchCursor
        | RequestType::CloseCursor => {
            let message = "streams and cursors are opened like this on a WebSocket only";
            Err(Refusal::bad_request("PROTOCOL_ERROR", message).into())
        }
    }
}

/// What a request wants to be run.
pub(crate) fn program_of(request: Request, stored: &StoredSql) -> Result<Program, NoResponse> {
    match request.r#type {
        RequestType::Execute => {
            let stmt = request.stmt.ok_or_else(|| missing("execute", "stmt"))?;
            Ok(Program::of_stmt(stmt, stored))
        }
        RequestType::Batch => {
            let batch = request.batch.ok_or_else(|| missing("batch", "batch"))?;
            Ok(Program::of_batch(batch, stored)?)
        }
        _ => {
            let text = program::text_of(request.sql.as_ref(), request.sql_id, stored)?;
            Ok(Program::of_sequence(text)?)
        }
    }
}

/// What a request that was run is told.
pub(crate) fn response_of(
    request: RequestType,
    outcomes: Vec<Outcome>,
) -> Result<Response, SqlError> {
    match request {
        RequestType::Batch => Ok(Response::Batch { result: BatchResult(outcomes) }),
        RequestType::Sequence => match outcomes.iter().find_map(Outcome::error) {
            Some(error) => Err(error.clone()),
            None => Ok(Response::Sequence),
        },
        _ => match outcomes.into_iter().next_back() {
            Some(Outcome::Done(result)) => Ok(Response::Execute { result }),
            Some(Outcome::Failed(error)) => Err(error),
            Some(Outcome::Skipped) | None => {
                Ok(Response::Execute { result: StmtResult::default() })
            }
        },
    }
}

fn missing(request: &str, field: &str) -> Refusal {
    Refusal::bad_request("PROTOCOL_ERROR", format!("`{request}` needs the field `{field}`"))
}
