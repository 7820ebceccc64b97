//! A web service that writes per request and answers only when the write is on disk.
//!
//! ```text
//! cargo run --release --example web -- DATABASE 127.0.0.1:8080
//! curl -X POST -H 'content-type: application/json' -d '{"device":"a","value":1.5}' localhost:8080/readings
//! curl localhost:8080/readings/a
//! ```
//!
//! Every request is a transaction of its own. Requests that arrive together share a flush, so the
//! service needs no queue and no batching of its own. On Ctrl-C or a termination signal it stops
//! accepting, answers what it has accepted, and closes the database.

use std::time::Duration;

use axum::{
    Json, Router,
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use groupcommit::{
    Failure, NotRun, Rejected, Terms,
    sqlite::{Database, rusqlite},
};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};

/// How long a request waits for its turn before it is refused.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
struct Reading {
    device: String,
    value: f64,
}

#[derive(Serialize)]
struct Stored {
    id: i64,
}

#[derive(Serialize)]
struct Summary {
    readings: i64,
    mean: Option<f64>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("give the path of a database, for example app.db")?;
    let address = arguments.next().ok_or("give an address, for example 127.0.0.1:8080")?;

    let db = Database::open(path)?;
    db.transact(|tx| {
        tx.execute(
            "CREATE TABLE IF NOT EXISTS readings (
                 id INTEGER PRIMARY KEY,
                 device TEXT NOT NULL CHECK (device <> ''),
                 value REAL NOT NULL)",
            (),
        )
    })?;

    let service = Router::new()
        .route("/readings", post(store))
        .route("/readings/{device}", get(summarise))
        .with_state(db.clone());
    let listener = tokio::net::TcpListener::bind(address).await?;
    let (mut interrupt, mut terminate) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    println!("listening on {}", listener.local_addr()?);
    axum::serve(listener, service)
        .with_graceful_shutdown(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        })
        .await?;

    // Blocks until everything admitted is on disk.
    tokio::task::spawn_blocking(move || db.close()).await??;
    println!("closed");
    Ok(())
}

/// Answers 201 once the reading is on disk.
async fn store(
    State(db): State<Database>,
    Json(reading): Json<Reading>,
) -> Result<(StatusCode, Json<Stored>), Refusal> {
    let ticket = db
        .with(Terms::new().deadline(PATIENCE))
        .submit_async(move |tx| {
            tx.execute(
                "INSERT INTO readings (device, value) VALUES (?1, ?2)",
                (&reading.device, reading.value),
            )?;
            Ok(tx.last_insert_rowid())
        })
        .await;
    // Should the client go away, this future is dropped, and the transaction still completes.
    let id = ticket.await?;
    Ok((StatusCode::CREATED, Json(Stored { id })))
}

/// Reads see every write that was answered before them.
async fn summarise(
    State(db): State<Database>,
    Path(device): Path<String>,
) -> Result<Json<Summary>, Refusal> {
    let read = move || {
        db.read(|conn| {
            conn.prepare_cached("SELECT count(*), avg(value) FROM readings WHERE device = ?1")?
                .query_row([device], |row| Ok(Summary { readings: row.get(0)?, mean: row.get(1)? }))
        })
    };
    // A read runs on the thread that calls it, so it goes where blocking is allowed.
    let summary = tokio::task::spawn_blocking(read).await.map_err(|_| Refusal::Panicked)??;
    Ok(Json(summary))
}

/// What a client is told when its request did not come to what it asked for.
enum Refusal {
    Failed(Failure<rusqlite::Error>),
    Panicked,
}

impl From<Failure<rusqlite::Error>> for Refusal {
    fn from(failure: Failure<rusqlite::Error>) -> Self {
        Self::Failed(failure)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self::Failed(failure) = self else {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        };
        let said = failure.to_string();
        match failure {
            // The request breaks a rule of the table; sending it again would not help.
            Failure::Rejected(Rejected::Caller(rusqlite::Error::SqliteFailure(error, _)))
                if error.code == rusqlite::ErrorCode::ConstraintViolation =>
            {
                (StatusCode::UNPROCESSABLE_ENTITY, said).into_response()
            }
            // Nothing of it is in the database: the client may send it again.
            Failure::NotRun(
                NotRun::Overloaded | NotRun::DeadlinePassed | NotRun::Busy(_) | NotRun::Closed,
            ) => (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], said)
                .into_response(),
            Failure::NotRun(_) => (StatusCode::SERVICE_UNAVAILABLE, said).into_response(),
            // Rejected for another reason; or unknown: it may or may not be there, and the client has
            // to look before it sends it again.
            Failure::Rejected(_) | Failure::Unknown(_) => {
                (StatusCode::INTERNAL_SERVER_ERROR, said).into_response()
            }
        }
    }
}
