//! What cannot be opened says why, in the same way for every engine.

use groupcommit::sql::{Database, Kind};

fn refused(url: &str) -> Kind {
    let error = Database::connect(url).unwrap_err();
    let shown = format!("{error}: {:?}", error.cause().to_string());
    assert!(!shown.contains("secret"), "{shown}");
    error.kind()
}

#[test]
fn what_is_no_url_is_refused_and_no_password_is_shown() {
    for url in
        ["app.db", "oracle://me:secret@host/db", "oracle://me:secret?@host/db", "lmdb:folder", ""]
    {
        assert_eq!(refused(url), Kind::Url, "{url}");
    }
}

#[cfg(feature = "sqlite")]
#[test]
fn a_file_that_is_not_there_or_that_cannot_be_durable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("absent.db");
    assert_eq!(refused(&format!("sqlite:{}?create=false", path.display())), Kind::Unreachable);
    assert!(!path.exists());
    assert_eq!(
        refused(&format!("sqlite:{}/no/folder.db", folder.path().display())),
        Kind::Unreachable
    );
    assert_eq!(refused("sqlite::memory:"), Kind::Undurable);
    std::fs::write(&path, "this is no database, whatever its name says, and it is long enough")
        .unwrap();
    assert_eq!(refused(&format!("sqlite:{}", path.display())), Kind::Storage);
}

#[cfg(feature = "postgres")]
#[test]
fn a_server_that_is_not_there_that_refuses_or_that_does_not_flush() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("postgres://me:secret@127.0.0.1:{port}/db");
    assert_eq!(refused(&url), Kind::Unreachable);
    let Some(url) = crate::places::servers::schema() else { return };
    assert_eq!(refused(&url.replace("postgres@", "nobody:secret@")), Kind::Privilege);
    assert_eq!(refused(&format!("{url}%20-c%20synchronous_commit%3Doff")), Kind::Undurable);
}
