//! Tokens among keys and values: what [`KeepTokens`](crate::KeepTokens) asks for, of an engine that has
//! nothing but these.
//!
//! ```text
//! "s"          number of the oldest token, number of the next
//! "n" number   id
//! "i" id       time, length of the fingerprint, fingerprint, result
//! ```
//!
//! Numbers are given in the order of the tokens and removed from the lowest on, so the two say how many
//! there are. All integers have eight bytes, the most significant first.

use std::{io, sync::Arc};

use crate::{
    outcome::Cause,
    tokens::{Token, TokenRecord},
};

/// Longest id, in bytes: what every engine takes for a part of a key.
const ID_BYTES_MAX: usize = 255;

const SPAN: &[u8] = b"s";

/// A map of keys and values in which nobody else writes, inside a transaction.
pub trait TokenMap {
    /// The value of a key.
    ///
    /// # Errors
    ///
    /// The engine's.
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Cause>;

    /// Sets the value of a key.
    ///
    /// # Errors
    ///
    /// The engine's.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Cause>;

    /// Removes a key, which is there.
    ///
    /// # Errors
    ///
    /// The engine's.
    fn remove(&mut self, key: &[u8]) -> Result<(), Cause>;

    /// As [`KeepTokens::find_token`](crate::KeepTokens::find_token).
    ///
    /// # Errors
    ///
    /// The engine's; an id of more than 255 bytes; a value that was not put here.
    fn find_token(&mut self, id: &[u8]) -> Result<Option<TokenRecord>, Cause> {
        if id.len() > ID_BYTES_MAX {
            let message =
                format!("a token's id has {} bytes; at most {ID_BYTES_MAX} are kept", id.len());
            return Err(Arc::new(io::Error::new(io::ErrorKind::InvalidInput, message)));
        }
        self.get(&id_key(id))?.map(|value| decode(id, &value).ok_or_else(damaged)).transpose()
    }

    /// As [`KeepTokens::keep_token`](crate::KeepTokens::keep_token).
    ///
    /// # Errors
    ///
    /// As [`find_token`](Self::find_token).
    fn keep_token(&mut self, record: &TokenRecord, tokens_max: u64) -> Result<bool, Cause> {
        let (oldest, next) = span(self.get(SPAN)?)?;
        if next - oldest >= tokens_max {
            return Ok(false);
        }
        self.put(&id_key(record.token.id()), &encode(record))?;
        self.put(&number_key(next), record.token.id())?;
        self.put(SPAN, &span_value(oldest, next + 1)).map(|()| true)
    }

    /// As [`KeepTokens::forget_tokens`](crate::KeepTokens::forget_tokens).
    ///
    /// # Errors
    ///
    /// As [`find_token`](Self::find_token).
    fn forget_tokens(&mut self, until_unix_s: u64, at_most: u64) -> Result<(), Cause> {
        let (oldest, next) = span(self.get(SPAN)?)?;
        let mut left = oldest;
        while left < next.min(oldest.saturating_add(at_most)) {
            let id = self.get(&number_key(left))?.ok_or_else(damaged)?;
            let record = self.find_token(&id)?.ok_or_else(damaged)?;
            // The first that is young ends it, so that what is left has no holes.
            if record.created_unix_s > until_unix_s {
                break;
            }
            self.remove(&id_key(&id))?;
            self.remove(&number_key(left))?;
            left += 1;
        }
        if left == oldest { Ok(()) } else { self.put(SPAN, &span_value(left, next)) }
    }
}

fn id_key(id: &[u8]) -> Vec<u8> {
    [b"i", id].concat()
}

fn number_key(number: u64) -> Vec<u8> {
    [b"n", &number.to_be_bytes()[..]].concat()
}

fn span_value(oldest: u64, next: u64) -> Vec<u8> {
    [oldest.to_be_bytes(), next.to_be_bytes()].concat()
}

fn span(value: Option<Vec<u8>>) -> Result<(u64, u64), Cause> {
    let Some(value) = value else { return Ok((0, 0)) };
    let numbers = integer(&value).and_then(|(oldest, rest)| Some((oldest, integer(rest)?.0)));
    numbers.filter(|(oldest, next)| oldest <= next).ok_or_else(damaged)
}

fn encode(record: &TokenRecord) -> Vec<u8> {
    let fingerprint = record.token.fingerprint();
    let length = (fingerprint.len() as u64).to_be_bytes();
    [&record.created_unix_s.to_be_bytes()[..], &length, fingerprint, &record.result].concat()
}

fn decode(id: &[u8], value: &[u8]) -> Option<TokenRecord> {
    let (created_unix_s, rest) = integer(value)?;
    let (length, rest) = integer(rest)?;
    let (fingerprint, result) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    Some(TokenRecord {
        token: Token::new(id, fingerprint),
        result: result.to_vec(),
        created_unix_s,
    })
}

fn integer(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u64::from_be_bytes(*number), rest))
}

fn damaged() -> Cause {
    let message = "the tokens are not as groupcommit left them: another program wrote among them";
    Arc::new(io::Error::new(io::ErrorKind::InvalidData, message))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    impl TokenMap for BTreeMap<Vec<u8>, Vec<u8>> {
        fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Cause> {
            Ok(BTreeMap::get(self, key).cloned())
        }

        fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Cause> {
            self.insert(key.to_vec(), value.to_vec());
            Ok(())
        }

        fn remove(&mut self, key: &[u8]) -> Result<(), Cause> {
            BTreeMap::remove(self, key).map(drop).ok_or_else(damaged)
        }
    }

    fn record(id: u8, created_unix_s: u64) -> TokenRecord {
        TokenRecord {
            token: Token::new([id], b"print".as_slice()),
            result: vec![id; 3],
            created_unix_s,
        }
    }

    #[test]
    fn what_is_kept_is_found_until_it_is_old() {
        let mut map = BTreeMap::new();
        for id in 0..5 {
            assert!(map.keep_token(&record(id, 10 + u64::from(id)), 5).expect("a map"));
            assert_eq!(map.find_token(&[id]).expect("a map"), Some(record(id, 10 + u64::from(id))));
        }
        assert!(!map.keep_token(&record(9, 20), 5).expect("a map"), "it is full");
        map.forget_tokens(12, 2).expect("a map");
        let found: Vec<u8> =
            (0..10).filter(|&id| map.find_token(&[id]).expect("a map").is_some()).collect();
        assert_eq!(found, [2, 3, 4], "no more than two go");
        map.forget_tokens(12, 9).expect("a map");
        assert_eq!(map.find_token(&[2]).expect("a map"), None);
        assert!(map.keep_token(&record(9, 20), 3).expect("a map"));
        map.forget_tokens(u64::MAX, u64::MAX).expect("a map");
        assert_eq!(map.len(), 1, "all that is left is how many there were");
    }

    #[test]
    fn what_others_wrote_is_an_error() {
        let mut map = BTreeMap::new();
        map.find_token(&[0; 256]).expect_err("too long");
        map.insert(b"ia".to_vec(), vec![0; 17]);
        assert_eq!(map.find_token(b"a").expect("a map").map(|record| record.result), Some(vec![0]));
        map.insert(b"ia".to_vec(), [&[0; 15][..], &[9]].concat());
        map.find_token(b"a").expect_err("shorter than it says");
        map.insert(SPAN.to_vec(), span_value(0, 1));
        map.forget_tokens(9, 9).expect_err("a number without an id");
        map.insert(SPAN.to_vec(), span_value(2, 1));
        map.keep_token(&record(1, 1), 9).expect_err("the next before the oldest");
    }
}
