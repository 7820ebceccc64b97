//! Batons: what leads from one request of a stream to the next.

use serde_json::{Value, json};

use crate::client::{Server, execute};

#[test]
fn a_stream_keeps_its_stored_sql_from_request_to_request() {
    let server = Server::start();
    let mut client = server.client();
    let first =
        client.pipeline(None, json!([{"type": "store_sql", "sql_id": 1, "sql": "SELECT 5"}]));
    let baton = first["baton"].as_str().unwrap();
    let run = json!([{"type": "execute", "stmt": {"sql_id": 1}}]);
    let second = client.pipeline(Some(baton), run.clone());
    assert_eq!(second["results"][0]["response"]["result"]["rows"][0][0]["value"], "5");
    let used = client.post("/v3/pipeline", &json!({"baton": baton, "requests": run}));
    assert_eq!((used.status, &used.json()["code"]), (400, &json!("BATON_REUSED")));
    let third = client.pipeline(second["baton"].as_str(), json!([{"type": "close"}]));
    assert_eq!(third["baton"], Value::Null);
    let closed = client.post("/v3/pipeline", &json!({"baton": second["baton"], "requests": run}));
    assert_eq!((closed.status, &closed.json()["code"]), (400, &json!("STREAM_EXPIRED")));
}

#[test]
fn wrong_batons_are_refused_with_a_reason() {
    let server = Server::start();
    let mut client = server.client();
    for baton in ["", "x", "YWJj", "00000000000000000000000000000001.1.0.0000000000000000"] {
        let reply = client.post("/v2/pipeline", &json!({"baton": baton, "requests": []}));
        assert_eq!((reply.status, &reply.json()["code"]), (400, &json!("INVALID_BATON")));
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert_eq!(reply.json()["error"], reply.json()["message"]);
    }
}

#[test]
fn nothing_runs_after_close() {
    let server = Server::start();
    let body = json!({"requests": [{"type": "close"}, execute("CREATE TABLE t (a)")]});
    let reply = server.client().post("/v3/pipeline", &body);
    assert_eq!((reply.status, &reply.json()["code"]), (400, &json!("STREAM_CLOSED")));
    assert!(server.client().execute("SELECT * FROM t").is_err());
}
