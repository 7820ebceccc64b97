//! Writing the answers that carry most bytes, without the detour over `serde`: what it writes for them, in
//! a quarter of the time.

use serde::Serialize;

use crate::protocol::{Answer, Outcome, PipelineResponse, Response, StmtResult};

/// The body of a response to a pipeline.
pub(crate) fn pipeline(response: &PipelineResponse) -> serde_json::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(512);
    text.extend_from_slice(b"{\"baton\":");
    json(&mut text, &response.baton)?;
    text.extend_from_slice(b",\"base_url\":");
    json(&mut text, &response.base_url)?;
    text.extend_from_slice(b",\"results\":");
    list(&mut text, &response.results, answer)?;
    text.push(b'}');
    Ok(text)
}

fn answer(text: &mut Vec<u8>, answer: &Answer) -> serde_json::Result<()> {
    let Answer::Ok { response } = answer else { return json(text, answer) };
    text.extend_from_slice(b"{\"type\":\"ok\",\"response\":");
    match response {
        Response::Execute { result } => {
            text.extend_from_slice(b"{\"type\":\"execute\",\"result\":");
            stmt_result(text, result)?;
            text.push(b'}');
        }
        Response::Batch { result: outcomes } => {
            text.extend_from_slice(b"{\"type\":\"batch\",\"result\":{\"step_results\":");
            list(text, &outcomes.0, |text, outcome: &Outcome| match outcome.result() {
                Some(result) => stmt_result(text, result),
                None => null(text),
            })?;
            text.extend_from_slice(b",\"step_errors\":");
            list(text, &outcomes.0, |text, outcome| match outcome.error() {
                Some(error) => json(text, error),
                None => null(text),
            })?;
            text.extend_from_slice(b"}}");
        }
        other => json(text, other)?,
    }
    text.push(b'}');
    Ok(())
}

fn stmt_result(text: &mut Vec<u8>, result: &StmtResult) -> serde_json::Result<()> {
    let StmtResult { cols, rows, last_insert_rowid, query_duration_ms, .. } = result;
    text.extend_from_slice(b"{\"cols\":");
    list(text, cols, json)?;
    text.extend_from_slice(b",\"rows\":");
    list(text, rows, json)?;
    text.extend_from_slice(b",\"affected_row_count\":");
    number(text, result.affected_row_count);
    text.extend_from_slice(b",\"last_insert_rowid\":");
    match last_insert_rowid {
        Some(rowid) => {
            text.push(b'"');
            number(text, rowid.0);
            text.push(b'"');
        }
        None => null(text)?,
    }
    text.extend_from_slice(b",\"rows_read\":");
    number(text, result.rows_read);
    text.extend_from_slice(b",\"rows_written\":");
    number(text, result.rows_written);
    text.extend_from_slice(b",\"query_duration_ms\":");
    json(text, query_duration_ms)?;
    text.push(b'}');
    Ok(())
}

fn list<T>(
    text: &mut Vec<u8>,
    all: &[T],
    one: impl Fn(&mut Vec<u8>, &T) -> serde_json::Result<()>,
) -> serde_json::Result<()> {
    text.push(b'[');
    for (index, value) in all.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        one(text, value)?;
    }
    text.push(b']');
    Ok(())
}

fn number(text: &mut Vec<u8>, number: impl itoa::Integer) {
    text.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[expect(clippy::unnecessary_wraps, reason = "one of the ways to write a value, all of one type")]
fn null(text: &mut Vec<u8>) -> serde_json::Result<()> {
    text.extend_from_slice(b"null");
    Ok(())
}

fn json(text: &mut Vec<u8>, value: &impl Serialize) -> serde_json::Result<()> {
    serde_json::to_writer(text, value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        error::SqlError,
        protocol::{BatchResult, Col},
        value::{Decimal, Value},
    };

    #[test]
    fn it_writes_what_serde_writes() {
        let full = StmtResult {
            cols: vec![
                Col { name: "a\"b".into(), decltype: None },
                Col { name: "c".into(), decltype: Some("TEXT".into()) },
            ],
            rows: vec![
                vec![Value::Null, Value::Text("\u{0}\"\n".into())],
                vec![Value::Integer(i64::MIN), Value::Blob(vec![1, 2])],
            ],
            affected_row_count: u64::MAX,
            last_insert_rowid: Some(Decimal(-7)),
            rows_read: 2,
            rows_written: 3,
            query_duration_ms: 0.25,
        };
        let error = SqlError::new("SQLITE_ERROR", "SQLite error: \"x\"");
        let outcomes = vec![
            Outcome::Done(full.clone()),
            Outcome::Skipped,
            Outcome::Failed(error.clone()),
            Outcome::Done(StmtResult::default()),
        ];
        let ok = |response| Answer::Ok { response };
        let results = vec![
            ok(Response::Execute { result: full }),
            ok(Response::Batch { result: BatchResult(outcomes) }),
            ok(Response::Batch { result: BatchResult(Vec::new()) }),
            ok(Response::GetAutocommit { is_autocommit: true }),
            Answer::Error { error },
            ok(Response::Close),
        ];
        for baton in [None, Some("x".to_owned())] {
            let response = PipelineResponse { baton, base_url: None, results: results.clone() };
            let expected = serde_json::to_string(&response).unwrap();
            assert_eq!(String::from_utf8(pipeline(&response).unwrap()).unwrap(), expected);
        }
    }
}
