//! The idempotency keys whose requests are running.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use hyper::StatusCode;

use crate::error::Refusal;

/// The keys of one server.
#[derive(Debug, Default)]
pub(crate) struct Keys(Mutex<HashSet<String>>);

impl Keys {
    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// While it lives, no other request with its key runs.
pub(crate) struct Running<'a> {
    keys: &'a Keys,
    pub(crate) key: String,
}

impl<'a> Running<'a> {
    pub(crate) fn begin(keys: &'a Keys, key: String) -> Result<Self, Refusal> {
        if keys.lock().insert(key.clone()) {
            return Ok(Self { keys, key });
        }
        let message = "a request with this key is running; send it again when that has ended";
        Err(Refusal::new(StatusCode::CONFLICT, "IDEMPOTENCY_KEY_IN_USE", message))
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.keys.lock().remove(&self.key);
    }
}
