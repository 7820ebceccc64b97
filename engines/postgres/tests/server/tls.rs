//! Encrypted connections to a server whose certificate is verified.

use std::{path::Path, sync::Arc};

use groupcommit_postgres::{
    Database, Error, Statement, Value,
    rustls::{
        self,
        pki_types::{CertificateDer, pem::PemObject as _},
    },
};
use groupcommit_testkit::servers::{
    certify,
    postgres::{Kind, Servers},
};

use crate::server::start;

#[test]
fn a_server_is_believed_only_with_a_certificate_that_is_trusted() {
    let servers = start(Kind::Single);
    let data = servers.folder().join("primary");
    let Some(()) = certify(&data) else { return };
    servers.sql("ALTER SYSTEM SET ssl = on").unwrap();
    servers.sql("ALTER SYSTEM SET listen_addresses = '127.0.0.1, 127.0.0.2'").unwrap();
    servers.crash_and_restart().unwrap();
    let url = format!("{}?sslmode=require", servers.url());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(data.join("server.crt")).unwrap()).unwrap();
    let tls = |roots| {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
    };
    let db = Database::options().tls(tls(roots)).open(&url).unwrap();
    let is_encrypted = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let plan = vec![Statement::new(is_encrypted, [])];
    assert_eq!(db.submit_statements(plan).wait().unwrap()[0].rows, [[Value::Bool(true)]]);
    let nobody = rustls::RootCertStore::empty();
    let refused = Database::options().tls(tls(nobody)).open(&url);
    assert!(matches!(refused, Err(Error::Connect { .. })), "{refused:?}");
    the_url_says_whom_to_trust(&servers, &data);
}

fn the_url_says_whom_to_trust(servers: &Servers, data: &Path) {
    let url = servers.url();
    let certificate = data.join("server.crt").display().to_string();
    let is_encrypted = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    for rest in ["", "&sslmode=require", "&sslmode=verify-full"] {
        let db = Database::open(&format!("{url}?sslrootcert={certificate}{rest}")).unwrap();
        let plan = vec![Statement::new(is_encrypted, [])];
        assert_eq!(db.submit_statements(plan).wait().unwrap()[0].rows, [[Value::Bool(true)]]);
        assert_eq!(db.read(&Statement::new(is_encrypted, [])).unwrap().rows, [[Value::Bool(true)]]);
    }
    let db = Database::open(&format!("{url}?sslrootcert={certificate}&sslmode=disable")).unwrap();
    let read = db.read(&Statement::new(is_encrypted, []));
    assert_eq!(read.unwrap().rows, [[Value::Bool(false)]]);
    let empty = servers.folder().join("owner").display().to_string();
    let by_another_name = url.replace("127.0.0.1", "127.0.0.2");
    for (url, remedy) in [
        (format!("{url}?sslmode=require"), "add `sslrootcert=/path/to/ca.pem` to the URL"),
        (
            format!("{url}?sslrootcert=/no/such/file"),
            "`sslrootcert=/no/such/file`: the file cannot be read",
        ),
        (format!("{url}?sslrootcert={empty}"), "the file holds no certificate"),
        (format!("{by_another_name}?sslrootcert={certificate}"), "connect by a name that it lists"),
    ] {
        let refused = Database::open(&url).unwrap_err().to_string();
        assert!(refused.contains(remedy), "{url}: {refused}");
    }
}
