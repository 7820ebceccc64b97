//! MySQL and MariaDB in the lab, and their asynchronous client.

use std::sync::{Arc, LazyLock};

use groupcommit::mysql::mysql_async::{
    Conn, Opts, OptsBuilder, Params, Row, prelude::Queryable as _,
};

use crate::error::Cause;
use crate::remote::{Client, Dialect};

/// A connection; it keeps its prepared statements itself.
pub(crate) struct MysqlClient(Conn);

impl Client for MysqlClient {
    async fn connect(url: &str) -> Result<Self, Cause> {
        let options = Opts::from_url(&with_first_host(url).replacen("mariadb:", "mysql:", 1))?;
        // Over TCP, as the URL says: the client would connect once more, by a socket, where it finds one.
        Ok(Self(Conn::new(OptsBuilder::from_opts(options).prefer_socket(false)).await?))
    }

    async fn run(
        &mut self,
        sql: &str,
        numbers: &[i64],
        text: Option<&str>,
    ) -> Result<Option<i64>, Cause> {
        if numbers.is_empty() && text.is_none() {
            // Not every such statement can be prepared.
            self.0.query_drop(sql).await?;
            return Ok(None);
        }
        let params = numbers.iter().map(|&number| number.into()).chain(text.map(Into::into));
        let params = Params::Positional(params.collect());
        let row: Option<Row> = self.0.exec_first(sql, params).await?;
        Ok(row.and_then(|row| row.get_opt(0)?.ok()))
    }
}

/// MySQL or MariaDB.
#[derive(Debug)]
pub(crate) enum Mysql {}

impl Dialect for Mysql {
    type Client = MysqlClient;
    type Protocol = groupcommit::mysql::MySql;

    fn insert() -> &'static Arc<str> {
        static INSERT: LazyLock<Arc<str>> =
            LazyLock::new(|| "INSERT INTO t (k, v) VALUES (?, ?)".into());
        &INSERT
    }
}

/// The URL with the first of its hosts alone: the one that the engine writes to, and so the one that a
/// client without a list of hosts is to be measured on.
fn with_first_host(url: &str) -> String {
    let after_scheme = url.find("://").map_or(0, |at| at + 3);
    let end = url[after_scheme..].find(['/', '?']).map_or(url.len(), |at| after_scheme + at);
    // A name or a password may hold a comma, too.
    let hosts = url[after_scheme..end].rfind('@').map_or(after_scheme, |at| after_scheme + at + 1);
    let first = url[hosts..end].split(',').next().unwrap_or_default();
    format!("{}{first}{}", &url[..hosts], &url[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_hosts_the_first_is_left() {
        for (url, first) in [
            ("mysql://a:b,c@h:1,i:2,j:3/d?x=1,2", "mysql://a:b,c@h:1/d?x=1,2"),
            ("mysql://h,i", "mysql://h"),
            ("mysql://root@h:1/d", "mysql://root@h:1/d"),
        ] {
            assert_eq!(with_first_host(url), first);
        }
    }
}
