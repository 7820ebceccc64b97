//! Single statements: values, errors, descriptions, sequences and stored SQL.

use serde_json::{Value, json};

use crate::client::{Server, execute};

#[test]
fn a_value_of_every_kind_comes_back() {
    let server = Server::start();
    let mut client = server.client();
    client.execute("CREATE TABLE t (a INTEGER, b)").unwrap();
    let values = [
        json!({"type": "null"}),
        json!({"type": "integer", "value": "-9223372036854775808"}),
        json!({"type": "float", "value": 0.1}),
        json!({"type": "text", "value": "ü\u{0}\""}),
        json!({"type": "blob", "base64": "AP8Q"}),
    ];
    for value in &values {
        let stmt = json!({"sql": "INSERT INTO t (b) VALUES (?) RETURNING b, a", "args": [value]});
        let answer = client.one(json!({"type": "execute", "stmt": stmt}));
        let result = &answer["response"]["result"];
        assert_eq!(result["rows"], json!([[value, {"type": "null"}]]));
        assert_eq!(
            result["cols"],
            json!([{"name": "b", "decltype": null}, {"name": "a", "decltype": "INTEGER"}])
        );
        assert_eq!(result["affected_row_count"], 1);
    }
    let read = client.execute("SELECT b FROM t ORDER BY rowid").unwrap();
    assert_eq!(read["rows"], json!(values.iter().map(|value| [value]).collect::<Vec<_>>()));
    assert_eq!(read["affected_row_count"], 0);
    assert_eq!(read["last_insert_rowid"], Value::Null);
    let inserted = client.execute("INSERT INTO t VALUES (9, 9)").unwrap();
    assert_eq!(inserted["last_insert_rowid"], "6");
}

#[test]
fn arguments_are_bound_by_place_or_by_name() {
    let server = Server::start();
    let mut client = server.client();
    let mut run = |stmt: Value| {
        let answer = client.one(json!({"type": "execute", "stmt": stmt}));
        match answer["type"].as_str() {
            Some("ok") => answer["response"]["result"]["rows"][0].clone(),
            _ => answer["error"]["code"].clone(),
        }
    };
    let one = json!({"type": "integer", "value": "1"});
    let two = json!({"type": "integer", "value": "2"});
    let named = |a: &str, b: &str| json!([{"name": a, "value": one}, {"name": b, "value": two}]);
    let both = json!([one, two]);
    assert_eq!(run(json!({"sql": "SELECT ?2, ?1", "args": [two, one]})), both);
    assert_eq!(run(json!({"sql": "SELECT :a, @b", "named_args": named("a", "@b")})), both);
    assert_eq!(run(json!({"sql": "SELECT $a, :b", "named_args": named("$a", "b")})), both);
    assert_eq!(run(json!({"sql": "SELECT ?", "args": [one, two]})), "ARGS_INVALID");
    assert_eq!(run(json!({"sql": "SELECT ?, ?", "args": [one]})), "ARGS_INVALID");
    assert_eq!(run(json!({"sql": "SELECT :c", "named_args": named("a", "b")})), "ARGS_INVALID");
    let mixed = json!({"sql": "SELECT ?", "args": [one], "named_args": named("a", "b")});
    assert_eq!(run(mixed), "ARGS_BOTH_POSITIONAL_AND_NAMED");
    assert_eq!(
        run(json!({"sql": "SELECT 1", "args": null, "named_args": null, "want_rows": false})),
        Value::Null
    );
}

#[test]
fn errors_have_codes() {
    let server = Server::start();
    let mut client = server.client();
    client.execute("CREATE TABLE t (a UNIQUE NOT NULL)").unwrap();
    client.execute("INSERT INTO t VALUES (1)").unwrap();
    let mut error = |sql: &str| client.execute(sql).unwrap_err();
    let unique = error("INSERT INTO t VALUES (1)");
    assert_eq!(
        unique,
        json!({
            "message": "SQLite error: UNIQUE constraint failed: t.a",
            "code": "SQLITE_CONSTRAINT",
            "extended_code": "SQLITE_CONSTRAINT_UNIQUE",
        })
    );
    assert_eq!(error("INSERT INTO t VALUES (NULL)")["extended_code"], "SQLITE_CONSTRAINT_NOTNULL");
    assert_eq!(error("INSERT INTO x VALUES (1)")["code"], "SQLITE_ERROR");
    let input = error("SELEC 1");
    assert_eq!(input["code"], "SQL_INPUT_ERROR");
    assert!(input["message"].as_str().unwrap().contains("(at offset 0)"), "{input}");
    assert_eq!(error("")["code"], "SQL_NO_STATEMENT");
    assert_eq!(error("SELECT 1; SELECT 2")["code"], "SQL_MANY_STATEMENTS");
    assert_eq!(error("ATTACH 'x' AS x")["code"], "BLOCKED");
    assert_eq!(error("PRAGMA synchronous=OFF")["code"], "BLOCKED");
    assert_eq!(error("INSERT OR ROLLBACK INTO t VALUES (1)"), unique);
    assert_eq!(
        error("COMMIT")["message"],
        "SQLite error: cannot commit - no transaction is active"
    );
}

#[test]
fn a_foreign_key_is_checked_when_its_transaction_ends() {
    let server = Server::start();
    let mut client = server.client();
    client.execute("CREATE TABLE p (id INTEGER PRIMARY KEY)").unwrap();
    client.execute("CREATE TABLE c (p REFERENCES p (id) DEFERRABLE INITIALLY DEFERRED)").unwrap();
    let error = client.execute("INSERT INTO c VALUES (1)").unwrap_err();
    assert_eq!(error["extended_code"], "SQLITE_CONSTRAINT_FOREIGNKEY");
    assert_eq!(client.column("SELECT count(*) FROM c"), ["0"]);
}

#[test]
fn every_request_of_a_pipeline_is_answered_whatever_came_of_the_others() {
    let server = Server::start();
    let answer = server.client().pipeline(
        None,
        json!([
            execute("CREATE TABLE t (a)"),
            execute("INSERT INTO nowhere VALUES (1)"),
            {"type": "store_sql", "sql_id": 7, "sql": "INSERT INTO t VALUES (?)"},
            {"type": "execute", "stmt": {"sql_id": 7, "args": [{"type": "float", "value": 2}]}},
            {"type": "describe", "sql_id": 7},
            {"type": "close_sql", "sql_id": 7},
            {"type": "execute", "stmt": {"sql_id": 7}},
            {"type": "get_autocommit"},
            {"type": "sequence", "sql": "DELETE FROM t; INSERT INTO t VALUES (3); SELEC; DROP TABLE t"},
            execute("SELECT a FROM t"),
            {"type": "close"},
        ]),
    );
    let kinds: Vec<_> = answer["results"].as_array().unwrap().iter().map(|r| &r["type"]).collect();
    assert_eq!(
        kinds,
        ["ok", "error", "ok", "ok", "ok", "ok", "error", "ok", "error", "ok", "ok"],
        "{answer:#}"
    );
    assert_eq!(
        answer["results"][4]["response"]["result"],
        json!({"params": [{"name": null}], "cols": [], "is_explain": false, "is_readonly": false})
    );
    assert_eq!(answer["results"][6]["error"]["code"], "SQL_NOT_STORED");
    assert_eq!(answer["results"][7]["response"]["is_autocommit"], true);
    assert_eq!(
        answer["results"][9]["response"]["result"]["rows"],
        json!([[{"type": "integer", "value": "3"}]])
    );
    assert_eq!(answer["baton"], Value::Null);
}

#[test]
fn a_description_says_what_a_statement_returns() {
    let server = Server::start();
    let mut client = server.client();
    client.execute("CREATE TABLE t (a TEXT)").unwrap();
    let answer = client.one(json!({"type": "describe", "sql": "SELECT a, 1 FROM t WHERE a = :x;"}));
    assert_eq!(
        answer["response"]["result"],
        json!({
            "params": [{"name": ":x"}],
            "cols": [{"name": "a", "decltype": "TEXT"}, {"name": "1", "decltype": null}],
            "is_explain": false,
            "is_readonly": true,
        })
    );
    let answer = client.one(json!({"type": "describe", "sql": "EXPLAIN DELETE FROM t"}));
    assert_eq!(answer["response"]["result"]["is_explain"], true);
    let answer = client.one(json!({"type": "describe", "sql": "BEGIN"}));
    assert_eq!(answer["response"]["result"]["cols"], json!([]));
}

#[test]
fn statements_that_only_look_like_reads_write_durably() {
    let server = Server::start();
    let mut client = server.client();
    client.execute("CREATE TABLE t (a)").unwrap();
    let sql = "WITH x (a) AS (VALUES (1), (2)) INSERT INTO t SELECT a FROM x RETURNING a";
    assert_eq!(client.column(sql), ["1", "2"]);
    assert_eq!(client.column("SELECT count(*) FROM t"), ["2"]);
    assert!(server.database.stats().flushes > 0);
}

#[test]
fn pragmas_and_vacuum_have_the_connection_alone() {
    let server = Server::start();
    let mut client = server.client();
    client.execute("CREATE TABLE t (a TEXT)").unwrap();
    assert_eq!(client.column("SELECT name FROM pragma_table_info('t')"), ["a"]);
    assert_eq!(client.column("PRAGMA temp.table_info(t)"), Vec::<Value>::new());
    assert_eq!(client.column("PRAGMA user_version"), ["0"]);
    client.execute("PRAGMA user_version = 7").unwrap();
    assert_eq!(client.column("PRAGMA user_version"), ["7"]);
    client.execute("VACUUM").unwrap();
    client.execute("PRAGMA foreign_keys = off").unwrap();
    // What one client switches is not switched for the others.
    client.execute("CREATE TABLE p (id INTEGER PRIMARY KEY)").unwrap();
    client.execute("CREATE TABLE c (p REFERENCES p (id))").unwrap();
    let error = client.execute("INSERT INTO c VALUES (1)").unwrap_err();
    assert_eq!(error["extended_code"], "SQLITE_CONSTRAINT_FOREIGNKEY");
}

#[test]
fn version_1_and_the_pages_for_people() {
    let server = Server::start();
    let mut client = server.client();
    let reply = client.post("/v1/execute", &json!({"stmt": {"sql": "SELECT 1 AS a"}}));
    assert_eq!(reply.json()["result"]["cols"][0]["name"], "a");
    let steps = json!({"batch": {"steps": [{"stmt": {"sql": "CREATE TABLE t (a)"}}]}});
    assert_eq!(client.post("/v1/batch", &steps).json()["result"]["step_errors"], json!([null]));
    let reply = client.post("/v1/execute", &json!({"stmt": {"sql": "SELEC"}}));
    assert_eq!((reply.status, &reply.json()["code"]), (400, &json!("SQL_INPUT_ERROR")));
    for path in ["/health", "/version", "/v1", "/v2", "/v3", "/"] {
        assert_eq!(client.get(path).status, 200, "{path}");
    }
    for path in ["/v3-protobuf", "/v3-protobuf/pipeline", "/x"] {
        assert_eq!(client.get(path).status, 404, "{path}");
    }
    assert_eq!(client.get("/v2/pipeline").status, 405);
}

#[test]
fn a_dump_makes_the_same_database() {
    let server = Server::start();
    let mut client = server.client();
    let schema = "CREATE TABLE \"a b\" (id INTEGER PRIMARY KEY AUTOINCREMENT, x, y AS (x || 'y'));
        CREATE INDEX i ON \"a b\" (x); CREATE VIEW v AS SELECT x FROM \"a b\";
        CREATE TRIGGER r AFTER INSERT ON \"a b\" BEGIN SELECT 1; END;
        CREATE VIRTUAL TABLE f USING fts5(words);
        INSERT INTO f VALUES ('some words');
        INSERT INTO \"a b\" (x) VALUES (NULL), (1.5), ('it''s'), (x'00ff'), (-7)";
    let answer = client.one(json!({"type": "sequence", "sql": schema}));
    assert_eq!(answer["type"], "ok", "{answer}");
    let dump = client.get("/dump").body;
    assert!(dump.ends_with("COMMIT;\n"), "{dump}");

    let copy = groupcommit::sqlite::rusqlite::Connection::open_in_memory().unwrap();
    copy.execute_batch(&dump).unwrap();
    let contents = "SELECT group_concat(quote(x) || y) FROM \"a b\"
        UNION ALL SELECT words FROM f WHERE f MATCH 'words'
        UNION ALL SELECT group_concat(name) FROM (SELECT name FROM sqlite_schema ORDER BY name)
        UNION ALL SELECT seq FROM sqlite_sequence";
    let mut statement = copy.prepare(contents).unwrap();
    let copied = statement
        .query_map((), |row| row.get_ref(0).map(|value| format!("{value:?}")))
        .unwrap()
        .collect::<Result<Vec<_>, _>>()
        .unwrap();
    let original = server
        .database
        .read(|connection| {
            connection
                .prepare(contents)?
                .query_map((), |row| row.get_ref(0).map(|value| format!("{value:?}")))?
                .collect::<Result<Vec<_>, _>>()
        })
        .unwrap();
    assert_eq!(copied, original);
}
