//! The protocol, fuzzed: whatever is sent, every answer is whole, and the server goes on.
//!
//! `GROUPCOMMIT_FUZZ_INPUTS` says how many inputs (2,000 unless told), `GROUPCOMMIT_FUZZ_SEED` where
//! their random choices begin.

use std::time::Duration;

use groupcommit_serve::Options;
use serde_json::{Value, json};

use crate::client::Server;

fn from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |value| value.parse().unwrap())
}

/// Requests that are right, to be made wrong.
fn corpus() -> Vec<String> {
    let stmt = json!({"sql": "INSERT INTO t VALUES (?, :b)", "args": [
        {"type": "integer", "value": "9223372036854775807"}, {"type": "blob", "base64": "AP8"}]});
    let named = json!({"sql": "SELECT :a", "named_args": [
        {"name": "a", "value": {"type": "float", "value": 1e308}}], "want_rows": false});
    let condition = json!({"type": "and", "conds": [{"type": "ok", "step": 0},
        {"type": "not", "cond": {"type": "or", "conds": [{"type": "error", "step": 0}]}},
        {"type": "not", "cond": {"type": "is_autocommit"}}]});
    let batch = json!({"steps": [{"stmt": {"sql": "BEGIN"}}, {"stmt": stmt, "condition": condition},
        {"stmt": {"sql": "COMMIT"}}, {"stmt": {"sql": "ROLLBACK"}, "condition":
        {"type": "not", "cond": {"type": "ok", "step": 2}}}]});
    let pipeline = json!({"baton": null, "requests": [
        {"type": "execute", "stmt": stmt},
        {"type": "execute", "stmt": named},
        {"type": "batch", "batch": batch},
        {"type": "store_sql", "sql_id": 1, "sql": "SELECT 1; -- x"},
        {"type": "sequence", "sql": "SAVEPOINT a; INSERT INTO t VALUES (1, 2); RELEASE a;"},
        {"type": "describe", "sql_id": 1},
        {"type": "close_sql", "sql_id": 1},
        {"type": "get_autocommit"},
        {"type": "close"}]});
    [
        pipeline,
        json!({"baton": null, "batch": batch}),
        json!({"stmt": stmt}),
        json!({"batch": batch}),
    ]
    .map(|value| value.to_string())
    .to_vec()
}

const WORDS: [&str; 24] = [
    "null",
    "-1",
    "1e999",
    "\"\"",
    "[]",
    "{}",
    "\"close\"",
    "\"open_stream\"",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "PRAGMA foreign_keys=off;",
    "DROP TABLE t;",
    "';",
    "/*",
    "--",
    "\\u0000",
    "\\ud800",
    "\"type\":\"batch\",",
    "99999999999999999999",
    "\"sql_id\":7,",
    "\u{1F600}",
    "RETURNING *",
    "\"",
];

fn mutate(text: &str, rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..rng.usize(0..6) {
        let (from, until) = (rng.usize(..=bytes.len()), rng.usize(..=bytes.len()));
        let part = from.min(until)..from.max(until).min(from.min(until) + 40);
        match rng.u8(..5) {
            0 => drop(bytes.drain(part)),
            1 => drop(bytes.splice(from..from, rng.choice(WORDS).unwrap().bytes())),
            2 if from < bytes.len() => bytes[from] = rng.u8(..),
            3 => {
                let copy = bytes[part].to_vec();
                bytes.splice(from..from, copy);
            }
            _ => drop(bytes.splice(part, rng.choice(WORDS).unwrap().bytes())),
        }
    }
    bytes
}

#[test]
fn whatever_is_sent_every_answer_is_whole() {
    let mut options = Options::default();
    options.transaction_idle_timeout = Duration::from_millis(20);
    options.request_timeout = Duration::from_secs(2);
    let server = Server::with(options);
    let mut client = server.client();
    client.execute("CREATE TABLE t (a, b)").unwrap();
    let corpus = corpus();
    let paths = ["/v2/pipeline", "/v3/cursor", "/v1/execute", "/v1/batch"];
    let seed = from_environment("GROUPCOMMIT_FUZZ_SEED", 0);
    for input in seed..seed + from_environment("GROUPCOMMIT_FUZZ_INPUTS", 2_000) {
        let mut rng = fastrand::Rng::with_seed(input);
        let which = rng.usize(..corpus.len());
        let path = if rng.u8(..8) == 0 { *rng.choice(&paths).unwrap() } else { paths[which] };
        client.send("POST", path, "", &mutate(&corpus[which], &mut rng));
        let reply = client.receive();
        assert!([200, 400, 503].contains(&reply.status), "input {input}: {reply:?}");
        for line in reply.body.lines() {
            let whole: Result<Value, _> = serde_json::from_str(line);
            assert!(whole.is_ok(), "input {input}: {line}");
        }
    }
    assert!(server.client().execute("SELECT 1").is_ok());
    server.client().execute("CREATE TABLE IF NOT EXISTS t (a, b)").unwrap();
    server.client().execute("INSERT INTO t VALUES (1, 2)").unwrap();
}
