//! Encrypted connections to a server whose certificate is verified.

use std::fs;

use groupcommit_mysql::{Database, Error, Statement, Value};
use groupcommit_testkit::servers::{certify, mysql::Kind};

use crate::server::start;

#[test]
fn a_server_is_believed_only_with_a_certificate_that_is_trusted() {
    let servers = start(Kind::Single);
    let folder = servers.folder().to_owned();
    let Some(()) = certify(&folder) else { return };
    let file = |name: &str| folder.join(name).display().to_string();
    servers
        .crash_and_restart(&[
            &format!("ssl-cert={}", file("server.crt")),
            &format!("ssl-key={}", file("server.key")),
        ])
        .unwrap();
    let url = format!("{}?ssl-mode=REQUIRED", servers.url());
    let certificate = fs::read(folder.join("server.crt")).unwrap();
    let db = Database::options().tls(vec![certificate]).open(&url).unwrap();
    let cipher = vec![Statement::new("SHOW SESSION STATUS LIKE 'Ssl_cipher'", [])];
    let rows = db.submit_statements(cipher).wait().unwrap().remove(0).rows;
    assert!(matches!(&rows[0][1], Value::Text(cipher) if !cipher.is_empty()), "{rows:?}");
    // Trusts the system's authorities alone, of which none has signed it.
    let refused = Database::open(&url);
    assert!(matches!(refused, Err(Error::Connect { .. })), "{refused:?}");
}
