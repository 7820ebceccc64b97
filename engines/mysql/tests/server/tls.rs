//! Encrypted connections to a server whose certificate is verified.

use std::{fs, path::Path, process::Command};

use groupcommit_mysql::{Database, Error, Statement, Value};
use groupcommit_testkit::servers::mysql::Kind;

use crate::server::start;

/// Writes a certificate for the loopback and its key; `false` where there is no program for it.
fn certify(folder: &Path) -> bool {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(folder.join("server.key"))
        .arg("-out")
        .arg(folder.join("server.crt"))
        .output();
    let Ok(made) = made else { return false };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    // As the folder's owner, where the caller is another.
    let owned = Command::new("chown")
        .arg("--reference")
        .arg(folder)
        .arg(folder.join("server.key"))
        .arg(folder.join("server.crt"))
        .status();
    owned.unwrap().success()
}

#[test]
fn a_server_is_believed_only_with_a_certificate_that_is_trusted() {
    let servers = start(Kind::Single);
    let folder = servers.folder().to_owned();
    if !certify(&folder) {
        eprintln!("skipped: the test of TLS; install openssl, which makes its certificate");
        return;
    }
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
    servers.stop().unwrap();
}
