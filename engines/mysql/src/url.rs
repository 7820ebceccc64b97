//! The URL: one or several servers, and how connections to them are protected.

use std::{borrow::Cow, time::Duration};

use mysql_async::{Opts, OptsBuilder, SslOpts};

use crate::{Error, connect::leaves_the_machine};

/// When a connection has been silent for so long, the system asks whether the other end is there: a
/// machine that lost its power never says that it is gone, and its answer would be waited for for ever.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// One set of options for each server that the URL names.
///
/// `ssl-mode` says `DISABLED` or `REQUIRED`; without it connections that leave the machine are
/// encrypted. `roots` are the certificates to trust, in place of the system's.
pub(crate) fn servers(url: &str, roots: Option<&[Vec<u8>]>) -> Result<Vec<Opts>, Error> {
    let (url, ssl_mode) = without_ssl_mode(url)?;
    let mut servers = Vec::new();
    for url in one_by_one(&url)? {
        let opts = Opts::from_url(&url).map_err(Error::url)?;
        let address = opts.ip_or_hostname();
        let opts = match address.strip_prefix('[').and_then(|address| address.strip_suffix(']')) {
            Some(address) => {
                let address = address.to_owned();
                OptsBuilder::from_opts(opts).ip_or_hostname(address).into()
            }
            None => opts,
        };
        let encrypt = ssl_mode.unwrap_or_else(|| leaves_the_machine(&opts))
            || (ssl_mode.is_none() && opts.ssl_opts().is_some());
        let given = opts.ssl_opts().cloned();
        let keepalive = opts.tcp_keepalive().unwrap_or(KEEPALIVE);
        // Its own choice of a socket would take connections elsewhere than to the URL's port.
        let mut builder = OptsBuilder::from_opts(opts)
            .prefer_socket(false)
            .stmt_cache_size(0)
            .tcp_nodelay(true)
            .tcp_keepalive(Some(keepalive));
        builder = builder.ssl_opts(if encrypt { Some(trusting(given, roots)?) } else { None });
        servers.push(builder.into());
    }
    Ok(servers)
}

/// Takes `ssl-mode` out of the URL: whether to encrypt, where it says so.
fn without_ssl_mode(url: &str) -> Result<(Cow<'_, str>, Option<bool>), Error> {
    let Some((before, query)) = url.split_once('?') else { return Ok((url.into(), None)) };
    let mut mode = None;
    let mut kept = Vec::new();
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some(("ssl-mode", value)) => {
                mode = Some(match value.to_ascii_uppercase().as_str() {
                    "DISABLED" => false,
                    "REQUIRED" | "VERIFY_CA" | "VERIFY_IDENTITY" => true,
                    _ => {
                        let said = "`ssl-mode` is DISABLED or REQUIRED; without it, connections \
                                    that leave the machine are encrypted";
                        return Err(Error::url(said));
                    }
                });
            }
            _ => kept.push(pair),
        }
    }
    let query = if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) };
    Ok((format!("{before}{query}").into(), mode))
}

/// A URL for each of the hosts, which commas separate.
fn one_by_one(url: &str) -> Result<Vec<String>, Error> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(Error::url("it has no `://`"));
    };
    let scheme = if scheme == "mariadb" { "mysql" } else { scheme };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (user, hosts) = match authority.rfind('@') {
        Some(at) => authority.split_at(at + 1),
        None => ("", authority),
    };
    Ok(hosts.split(',').map(|host| format!("{scheme}://{user}{host}{path}")).collect())
}

fn trusting(given: Option<SslOpts>, roots: Option<&[Vec<u8>]>) -> Result<SslOpts, Error> {
    let found;
    let roots = if let Some(roots) = roots {
        roots
    } else {
        found = rustls_native_certs::load_native_certs()
            .certs
            .iter()
            .map(|certificate| certificate.as_ref().to_vec())
            .collect::<Vec<_>>();
        if found.is_empty() {
            return Err(Error::Tls(
                "the system has no certificates to trust; install `ca-certificates`, pass your own to \
                 `Options::tls`, or add `ssl-mode=DISABLED` to the URL"
                    .to_owned(),
            ));
        }
        &found
    };
    let roots = roots.iter().map(|root| root.clone().into()).collect();
    Ok(given.unwrap_or_default().with_root_certs(roots).with_disable_built_in_roots(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_of_a_url_becomes_a_server() {
        let servers = servers("mysql://u:p%40@a.example.org,b:3307/db?ssl-mode=disabled", None);
        let shown: Vec<String> = servers
            .unwrap()
            .iter()
            .map(|opts| {
                assert_eq!((opts.user(), opts.pass()), (Some("u"), Some("p@")));
                assert_eq!(opts.db_name(), Some("db"));
                format!("{}:{}", opts.ip_or_hostname(), opts.tcp_port())
            })
            .collect();
        assert_eq!(shown, ["a.example.org:3306", "b:3307"]);
    }

    #[test]
    fn an_address_is_looked_for_without_its_brackets() {
        let servers = servers("mysql://a@[::1]:3307,b/db?ssl-mode=disabled", None).unwrap();
        assert_eq!((servers[0].ip_or_hostname(), servers[0].tcp_port()), ("::1", 3307));
        assert_eq!((servers[1].ip_or_hostname(), servers[1].tcp_port()), ("b", 3306));
    }

    #[test]
    fn a_server_that_falls_silent_is_noticed() {
        let keepalive = |url| servers(url, None).unwrap()[0].tcp_keepalive();
        assert_eq!(keepalive("mysql://a@127.0.0.1/a"), Some(KEEPALIVE));
        let given = keepalive("mysql://a@127.0.0.1/a?tcp_keepalive=5000");
        assert_eq!(given, Some(Duration::from_secs(5)));
    }

    #[test]
    fn what_leaves_the_machine_is_encrypted_unless_told_otherwise() {
        let root = vec![vec![1]];
        for (url, expected) in [
            ("mysql://a@db.example.org/a", true),
            ("mysql://a@10.0.0.1/a?ssl-mode=disabled", false),
            ("mysql://a@127.0.0.1/a", false),
            ("mysql://a@[::1]/a", false),
            ("mysql://a@[2001:db8::1]/a", true),
            ("mysql://a@localhost/a?ssl-mode=REQUIRED", true),
            ("mysql://a@127.0.0.1/a?require_ssl=true", true),
            ("mysql://a@elsewhere/a?socket=/run/mysqld/mysqld.sock", false),
        ] {
            let servers = servers(url, Some(&root)).unwrap();
            assert_eq!(servers[0].ssl_opts().is_some(), expected, "{url}");
        }
        assert!(servers("mysql://a@b/a?ssl-mode=perhaps", None).is_err());
        assert!(servers("postgres://a@b/a", None).is_err());
    }
}
