//! The listener and its connections.
//!
//! **LIMIT-1** [`CONNECTIONS_MAX`] are open at a time, further ones wait to be accepted; a request's head
//! arrives within [`HEAD_MAX`] and has [`HEAD_BYTES_MAX`] bytes at most. Who does not take an answer: [`crate::patience`].

use std::time::Duration;

use axum::Router;
use axum::body::HttpBody as _;
use helio_rpc::http::Entrance;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::patience::{Counted, Pace, Patience, USUAL};

const CONNECTIONS_MAX: usize = 2048;
const HEAD_MAX: Duration = Duration::from_secs(10);
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Pause when the operating system refuses to accept (no descriptors left).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until it is dropped.
pub(crate) async fn serve(listener: TcpListener, router: Router, entrance: Entrance) {
    serve_with(listener, router, entrance, USUAL).await;
}

/// Serves like [`serve`], with a patience of its own.
async fn serve_with(listener: TcpListener, router: Router, entrance: Entrance, patience: Patience) {
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
                    let pace = Pace::new(patience);
                    let stream = Counted { stream, pace: std::sync::Arc::clone(&pace) };
                    let paced = service_fn(|request| {
                        let (answer, pace) = (service.call(request), &pace);
                        async move {
                            answer
                                .await
                                .inspect(|answer| pace.begin(answer.body().size_hint().exact()))
                        }
                    });
                    let served = http1::Builder::new()
                        .timer(TokioTimer::new())
                        .header_read_timeout(HEAD_MAX)
                        .max_buf_size(HEAD_BYTES_MAX)
                        .serve_connection(TokioIo::new(stream), paced)
                        .with_upgrades();
                    tokio::select! {
                        // A client that goes away, or speaks something else than HTTP, gets no more.
                        _ = served => {}
                        () = pace.is_over() => tracing::info!("a client did not take its answer in time"),
                    }
                    drop(permit);
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpSocket, TcpStream};

    use super::*;

    /// More than the kernel keeps of a connection.
    const BYTES: usize = 32 << 20;

    async fn asked(port: u16) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let mut stream = socket.connect(([127, 0, 0, 1], port).into()).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        stream
    }

    /// The port of a server whose answer is that long.
    async fn server(patience: Duration) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let router = Router::new().route("/", get(|| async { vec![b'x'; BYTES] }));
        let patience = Patience { first: patience, bytes_per_s: 1 << 30 };
        let entrance = Entrance { identity: None, may_be_plain: true };
        tokio::spawn(serve_with(listener, router, entrance, patience));
        port
    }

    #[tokio::test]
    async fn who_does_not_take_an_answer_is_let_go() {
        let mut slow = asked(server(Duration::from_millis(1)).await).await;
        // Closed though not all was read: what is written then is refused.
        let is_closed = async {
            while slow.write_all(b"\r\n").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(600), is_closed).await.unwrap();
    }

    #[tokio::test]
    async fn who_takes_it_gets_all_of_it_and_may_ask_again() {
        let mut quick = asked(server(Duration::from_secs(600)).await).await;
        let mut part = vec![0; 1 << 20];
        for _ in 0..2 {
            let mut got = 0;
            while got < BYTES {
                got += quick.read(&mut part).await.unwrap();
            }
            quick.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        }
    }
}
