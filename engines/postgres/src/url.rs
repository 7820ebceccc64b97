//! Reading a URL: what the client knows of it, and what is taken out before.
//!
//! The client knows neither `sslrootcert` nor the values of `sslmode` that ask for a server's
//! certificate to be verified, which is always done here.

use std::{borrow::Cow, path::PathBuf};

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;

use crate::Error;

/// Who a server's certificate may be signed by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Roots {
    /// Those whom the system trusts.
    System,
    /// Those in this file.
    File(PathBuf),
}

/// What a URL says; with whom to trust, if it says that.
pub(crate) fn read(url: &str) -> Result<(Config, Option<Roots>), Error> {
    let is_url = ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme));
    let parameters = if is_url { of_query(url) } else { of_pairs(url) };
    let (mut rest, mut roots) = (String::with_capacity(url.len()), None);
    let mut at = 0;
    for Parameter { key, value, from, to } in parameters {
        rest.push_str(&url[at..from]);
        at = to;
        match (&*key, &*value) {
            // As the client reads it, an empty one says nothing.
            ("sslrootcert", "") => {}
            ("sslrootcert", "system") => roots = Some(Roots::System),
            ("sslrootcert", file) => roots = Some(Roots::File(file.into())),
            ("sslmode", "verify-ca" | "verify-full") => {
                rest.push_str("sslmode=require");
                rest.push_str(if is_url { "&" } else { " " });
            }
            _ => rest.push_str(&url[from..to]),
        }
    }
    rest.push_str(&url[at..]);
    Ok((rest.parse().map_err(|error: tokio_postgres::Error| Error::url(error))?, roots))
}

/// A parameter, and which part of the text it is, with what stands between it and the next.
struct Parameter<'u> {
    key: Cow<'u, str>,
    value: Cow<'u, str>,
    from: usize,
    to: usize,
}

/// The parameters behind the question mark. What is in front of an `@` is an account.
fn of_query(url: &str) -> Vec<Parameter<'_>> {
    let account_end = url.find('@').unwrap_or_default();
    let Some(mark) = url[account_end..].find('?') else { return Vec::new() };
    let mut from = account_end + mark + 1;
    let mut parameters = Vec::new();
    while from < url.len() {
        let end = url[from..].find('&').map_or(url.len(), |at| from + at);
        let to = (end + 1).min(url.len());
        if let Some((key, value)) = url[from..end].split_once('=') {
            let [key, value] =
                [key, value].map(|text| percent_decode_str(text).decode_utf8_lossy());
            parameters.push(Parameter { key, value, from, to });
        }
        from = to;
    }
    parameters
}

/// The parameters of the form `key=value key='a value'`, as far as they are well formed.
fn of_pairs(text: &str) -> Vec<Parameter<'_>> {
    let mut parameters = Vec::new();
    let mut from = after_space(text, 0);
    while let Some(equals) = text[from..].find('=').map(|at| from + at) {
        let Some((value, end)) = value_of_pair(text, after_space(text, equals + 1)) else { break };
        let to = after_space(text, end);
        let key = text[from..equals].trim_end().into();
        parameters.push(Parameter { key, value: value.into(), from, to });
        from = to;
    }
    parameters
}

fn after_space(text: &str, from: usize) -> usize {
    text.len() - text[from..].trim_start().len()
}

/// The value that begins here, and where it ends: in quotation marks or up to white space, and a
/// backslash takes the meaning from what follows it.
fn value_of_pair(text: &str, from: usize) -> Option<(String, usize)> {
    let is_quoted = text[from..].starts_with('\'');
    let start = from + usize::from(is_quoted);
    let (mut value, mut letters) = (String::new(), text[start..].char_indices());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => value.extend(letters.next().map(|(_, escaped)| escaped)),
            '\'' if is_quoted => return Some((value, start + at + 1)),
            _ if !is_quoted && letter.is_whitespace() => return Some((value, start + at)),
            _ => value.push(letter),
        }
    }
    (!is_quoted).then_some((value, text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_client_does_not_know_is_taken_out_and_the_rest_is_left_to_it() {
        let file = |path: &str| Some(Roots::File(path.into()));
        for (url, rest, roots) in [
            ("postgres://u:p%3F@h/d", "postgres://u:p%3F@h/d", None),
            (
                "postgres://u:p?sslrootcert=x@h/d?a@b=1&sslrootcert=/a%20b&sslmode=verify-full",
                "",
                None,
            ),
            (
                "postgresql://u@h/d?sslmode=verify-full&sslrootcert=%2Fa%20b%26c&options=-c%20a%3D1",
                "postgres://u@h/d?sslmode=require&options=-c%20a%3D1",
                file("/a b&c"),
            ),
            ("postgres://h/d?sslrootcert=system", "postgres://h/d", Some(Roots::System)),
            ("postgres://h/d?sslrootcert=&sslmode=disable", "postgres://h/d?sslmode=disable", None),
            (
                "host=h sslrootcert = '/it\\'s a file'  sslmode=verify-ca user=u password='a = b'",
                "host=h sslmode=require user=u password='a = b'",
                file("/it's a file"),
            ),
            ("host=h sslrootcert=/a\\ b", "host=h", file("/a b")),
        ] {
            let said = read(url).map(|(config, roots)| (Some(config), roots));
            let expected = (rest.parse::<Config>().ok().filter(|_| !rest.is_empty()), roots);
            match expected.0 {
                Some(_) => assert_eq!(said.unwrap(), expected, "{url}"),
                None => assert!(matches!(said, Err(Error::Url(_))), "{url}"),
            }
        }
        for url in ["host='a", "host", "postgres://h/d?sslmode=perhaps", "postgres://h/d?sslmode"] {
            assert!(matches!(read(url), Err(Error::Url(_))), "{url}");
        }
    }
}
