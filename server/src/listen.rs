//! Accepting connections, and letting them end.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use groupcommit::sqlite::Database;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, ToSocketAddrs},
    sync::Semaphore,
};

use crate::{
    Options, http,
    patient::Patient,
    server::{Place, Server},
};

/// How long a connection may idle between two requests: longer than clients keep theirs.
const KEEP_ALIVE: Duration = Duration::from_mins(2);

/// How long to wait after a connection could not be accepted, most likely for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A server that has its address and is ready to serve.
#[derive(Debug)]
pub struct Serving {
    listener: TcpListener,
    server: Arc<Server>,
}

/// Takes the address that clients of `database` will connect to.
///
/// # Errors
///
/// What the operating system says, for example that the address is in use.
pub async fn bind(
    database: Database,
    address: impl ToSocketAddrs,
    options: Options,
) -> io::Result<Serving> {
    let listener = TcpListener::bind(address).await?;
    let is_local = listener.local_addr()?.ip().is_loopback();
    Ok(Serving { listener, server: Arc::new(Server::new(database, options, is_local)) })
}

impl Serving {
    /// The address, with the port that the system chose if it was left open.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` is ready; then accepts nothing more, finishes the requests that have begun,
    /// and rolls open transactions back. The database stays open.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self { listener, server } = self;
        let connections = Arc::new(Semaphore::new(server.options.connections_max));
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = async {
                let place = connections.clone().acquire_owned().await;
                (listener.accept().await, place)
            };
            let (accepted, place) = tokio::select! {
                accepted = accepted => accepted,
                () = &mut stop => break,
            };
            let (Ok((socket, _)), Ok(place)) = (accepted, place) else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let place = Place(Arc::new(place));
            // Answers are small and complete: nothing is gained by waiting for more.
            drop(socket.set_nodelay(true));
            let (answering, patience) = (server.clone(), server.options.send_timeout);
            // A WebSocket keeps the place when HTTP is done with the connection.
            let service =
                service_fn(move |request| http::answer(answering.clone(), place.clone(), request));
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(KEEP_ALIVE)
                .serve_connection(TokioIo::new(Patient::new(socket, patience)), service)
                .with_upgrades();
            let stopping = server.stopping();
            tokio::spawn(async move {
                let mut connection = std::pin::pin!(connection);
                let ended = tokio::select! {
                    ended = connection.as_mut() => ended,
                    () = stopping => {
                        connection.as_mut().graceful_shutdown();
                        connection.await
                    }
                };
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection broke");
                }
            });
        }
        drop(listener);
        server.stop.send_replace(true);
        let all = u32::try_from(server.options.connections_max).unwrap_or(u32::MAX);
        let ended = connections.acquire_many(all);
        if tokio::time::timeout(server.options.request_timeout, ended).await.is_err() {
            tracing::warn!("connections were cut: their clients neither finished nor left");
        }
        server.streams.close_all();
    }
}
