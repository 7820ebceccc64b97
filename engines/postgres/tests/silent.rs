//! A server that accepts connections and never says anything.

use std::{error::Error as _, net::TcpListener};

use groupcommit_postgres::{Database, Error};

#[test]
fn is_given_up_and_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("postgres://app@127.0.0.1:{port}/app?connect_timeout=1&sslmode=disable");
    let error = Database::open(&url).unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error:?}");
    assert!(error.to_string().contains(&port.to_string()), "{error}");
    let source = error.source().unwrap().to_string();
    assert!(source.contains("said nothing"), "{source}");
}
