//! Responses: their bodies, and what refusals look like.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::{
    Response, StatusCode,
    header::{self, HeaderValue},
};
use serde::Serialize;

use crate::{error::Refusal, memory::Memory};

/// The body of a response.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

pub(crate) fn refuse(refusal: Refusal) -> Response<Body> {
    #[derive(Serialize)]
    struct Refused<'a> {
        // Clients look for one or the other.
        error: &'a str,
        message: &'a str,
        code: &'a str,
    }
    let Refusal { status, code, message, may_retry } = refusal;
    let body = Refused { error: &message, message: &message, code };
    let mut response = json_bytes(status, serde_json::to_vec(&body).unwrap_or_default().into());
    if may_retry {
        let seconds = HeaderValue::from(RETRY_AFTER.as_secs());
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    response
}

/// When a client should send again what was not run.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A response whose rows take `memory`.
pub(crate) fn json(memory: Memory, body: &impl Serialize) -> Result<Response<Body>, Refusal> {
    encoded(memory, serde_json::to_vec(body))
}

/// As [`json`], of a body that is encoded already.
pub(crate) fn encoded(
    memory: Memory,
    body: serde_json::Result<Vec<u8>>,
) -> Result<Response<Body>, Refusal> {
    let bytes = body.map_err(|error| {
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", error.to_string())
    })?;
    Ok(json_bytes(StatusCode::OK, memory.hold(bytes)))
}

pub(crate) fn json_bytes(status: StatusCode, bytes: Bytes) -> Response<Body> {
    let mut response = Response::new(Full::new(bytes).boxed_unsync());
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

pub(crate) fn text(body: &'static str) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from_static(body.as_bytes())).boxed_unsync());
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
