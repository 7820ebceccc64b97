//! The messages of the protocol, as they travel.
//!
//! Requests are flat objects: a field that a kind of request does not use is ignored, and `null` counts
//! as absent, because clients send both.

use std::{borrow::Cow, cell::RefCell, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::SerializeStruct as _};

use crate::{
    error::SqlError,
    value::{Decimal, Value},
};

/// The body of `POST /v2/pipeline` and `POST /v3/pipeline`.
#[derive(Debug, Deserialize)]
pub(crate) struct PipelineRequest {
    pub(crate) baton: Option<String>,
    pub(crate) requests: Vec<Request>,
}

/// The answer to a pipeline.
#[derive(Debug, Serialize)]
pub(crate) struct PipelineResponse {
    pub(crate) baton: Option<String>,
    pub(crate) base_url: Option<String>,
    pub(crate) results: Vec<Answer>,
}

/// The body of `POST /v3/cursor`.
#[derive(Debug, Deserialize)]
pub(crate) struct CursorRequest {
    pub(crate) baton: Option<String>,
    pub(crate) batch: Batch,
}

/// The body of `POST /v1/execute` and `POST /v1/batch`.
#[derive(Debug, Deserialize)]
pub(crate) struct V1Request {
    pub(crate) stmt: Option<Stmt>,
    pub(crate) batch: Option<Batch>,
}

/// One request of a pipeline or of a WebSocket.
#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    pub(crate) r#type: RequestType,
    pub(crate) stmt: Option<Stmt>,
    pub(crate) batch: Option<Batch>,
    pub(crate) sql: Option<SqlText>,
    pub(crate) sql_id: Option<i32>,
    pub(crate) stream_id: Option<i32>,
    pub(crate) cursor_id: Option<i32>,
    pub(crate) max_count: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RequestType {
    Execute,
    Batch,
    Sequence,
    Describe,
    StoreSql,
    CloseSql,
    GetAutocommit,
    Close,
    // On a WebSocket only:
    OpenStream,
    CloseStream,
    OpenCursor,
    FetchCursor,
    CloseCursor,
}

/// A text of SQL. One that is the same as the one before, as in most batches, is kept once.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SqlText(pub(crate) Arc<str>);

/// Longest text that a thread keeps for the next request.
const KEPT_BYTES_MAX: usize = 4 << 10;

impl<'de> Deserialize<'de> for SqlText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        thread_local! {
            static BEFORE: RefCell<Arc<str>> = RefCell::new("".into());
        }
        let text = Text::deserialize(deserializer)?.0;
        BEFORE.with_borrow_mut(|before| {
            if **before == *text {
                return Ok(Self(before.clone()));
            }
            let text: Arc<str> = text.into();
            if text.len() <= KEPT_BYTES_MAX {
                *before = text.clone();
            }
            Ok(Self(text))
        })
    }
}

/// A text in the request itself, unless it has escapes.
#[derive(Deserialize)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

#[derive(Debug, Deserialize)]
pub(crate) struct Stmt {
    pub(crate) sql: Option<SqlText>,
    pub(crate) sql_id: Option<i32>,
    pub(crate) args: Option<Vec<Value>>,
    pub(crate) named_args: Option<Vec<NamedArg>>,
    pub(crate) want_rows: Option<bool>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct NamedArg {
    pub(crate) name: String,
    pub(crate) value: Value,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Batch {
    pub(crate) steps: Vec<BatchStep>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct BatchStep {
    pub(crate) condition: Option<BatchCond>,
    pub(crate) stmt: Stmt,
}

/// A condition of a step; `serde_json` bounds its depth.
#[derive(Debug, Deserialize)]
pub(crate) struct BatchCond {
    pub(crate) r#type: CondType,
    pub(crate) step: Option<usize>,
    pub(crate) cond: Option<Box<BatchCond>>,
    pub(crate) conds: Option<Vec<BatchCond>>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CondType {
    Ok,
    Error,
    Not,
    And,
    Or,
    IsAutocommit,
}

/// The answer to one request.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Answer {
    Ok { response: Response },
    Error { error: SqlError },
}

/// The answer to a request that succeeded.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Response {
    Execute { result: StmtResult },
    Batch { result: BatchResult },
    Sequence,
    Describe { result: Description },
    StoreSql,
    CloseSql,
    GetAutocommit { is_autocommit: bool },
    Close,
    OpenStream,
    CloseStream,
    OpenCursor,
    FetchCursor { entries: Vec<CursorEntry>, done: bool },
    CloseCursor,
}

/// What a statement came to.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct StmtResult {
    pub(crate) cols: Vec<Col>,
    pub(crate) rows: Vec<Vec<Value>>,
    pub(crate) affected_row_count: u64,
    pub(crate) last_insert_rowid: Option<Decimal>,
    pub(crate) rows_read: u64,
    pub(crate) rows_written: u64,
    pub(crate) query_duration_ms: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Col {
    pub(crate) name: String,
    pub(crate) decltype: Option<String>,
}

/// What a step came to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    Skipped,
    Done(StmtResult),
    Failed(SqlError),
}

impl Outcome {
    pub(crate) fn result(&self) -> Option<&StmtResult> {
        if let Self::Done(result) = self { Some(result) } else { None }
    }

    pub(crate) fn error(&self) -> Option<&SqlError> {
        if let Self::Failed(error) = self { Some(error) } else { None }
    }
}

/// What each step of a batch came to: its result, its error or neither.
#[derive(Debug, Clone)]
pub(crate) struct BatchResult(pub(crate) Vec<Outcome>);

impl Serialize for BatchResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Each<'a, T>(&'a [Outcome], fn(&'a Outcome) -> Option<&'a T>);
        impl<T: Serialize> Serialize for Each<'_, T> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq(self.0.iter().map(self.1))
            }
        }
        let mut object = serializer.serialize_struct("BatchResult", 2)?;
        object.serialize_field("step_results", &Each(&self.0, Outcome::result))?;
        object.serialize_field("step_errors", &Each(&self.0, Outcome::error))?;
        object.end()
    }
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Description {
    pub(crate) params: Vec<Param>,
    pub(crate) cols: Vec<Col>,
    pub(crate) is_explain: bool,
    pub(crate) is_readonly: bool,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Param {
    pub(crate) name: Option<String>,
}

/// The first line of a cursor's answer.
#[derive(Debug, Serialize)]
pub(crate) struct CursorHead {
    pub(crate) baton: Option<String>,
    pub(crate) base_url: Option<String>,
}

/// Every other line of a cursor's answer.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum CursorEntry {
    StepBegin { step: usize, cols: Vec<Col> },
    Row { row: Vec<Value> },
    StepEnd { affected_row_count: u64, last_insert_rowid: Option<Decimal> },
    StepError { step: usize, error: SqlError },
    Error { error: SqlError },
    ReplicationIndex { replication_index: Option<u64> },
}

/// A message of a client on a WebSocket.
#[derive(Debug, Deserialize)]
pub(crate) struct ClientMessage {
    pub(crate) r#type: ClientMessageType,
    pub(crate) request_id: Option<i32>,
    pub(crate) request: Option<Request>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ClientMessageType {
    Hello,
    Request,
}

/// A message of the server on a WebSocket.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ServerMessage {
    HelloOk,
    ResponseOk { request_id: i32, response: Response },
    ResponseError { request_id: i32, error: SqlError },
}
