//! The listener and its connections.
//!
//! **LIMIT-1** [`CONNECTIONS_MAX`] are open at a time, further ones wait to be accepted; a request's head
//! arrives within [`HEAD_MAX`] and has [`HEAD_BYTES_MAX`] bytes at most.

use std::time::Duration;

use axum::Router;
use helio_rpc::http::Entrance;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

const CONNECTIONS_MAX: usize = 2048;
const HEAD_MAX: Duration = Duration::from_secs(10);
const HEAD_BYTES_MAX: usize = 64 << 10;

/// How long to wait when the operating system refuses to accept (no descriptors left).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until it is dropped.
pub(crate) async fn serve(listener: TcpListener, router: Router, entrance: Entrance) {
    let room = std::sync::Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = std::sync::Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let service = TowerToHyperService::new(router.clone());
                let entrance = entrance.clone();
                tokio::spawn(async move {
                    // An answer is small and waits for nobody.
                    let _ = stream.set_nodelay(true);
                    let Ok(stream) = entrance.enter(stream).await else { return drop(permit) };
                    let served = http1::Builder::new()
                        .timer(TokioTimer::new())
                        .header_read_timeout(HEAD_MAX)
                        .max_buf_size(HEAD_BYTES_MAX)
                        .serve_connection(TokioIo::new(stream), service)
                        .with_upgrades();
                    // A client that goes away, or speaks something else than HTTP, gets no more.
                    let _ = served.await;
                    drop(permit);
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}
