//! A client's connection, from its first byte: encrypted or not, HTTP/1.1 or HTTP/2.
//!
//! The first bytes of a connection in the clear say which version of HTTP it is; in TLS both ends agree on it (ALPN).

use std::convert::Infallible;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::ask::Ends;
use crate::client::{Client, Heads, Peer};
use crate::forward;
use crate::streams::{State, Streams};
use crate::{Door, HEAD_BYTES_MAX, Shared, grpc};

/// The first bytes of HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Requests at a time on a connection of HTTP/2.
const STREAMS_MAX: u32 = 128;
/// Bytes of a request's body, and of all bodies of a connection, that a client may send ahead.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
/// Bytes of an answer that wait in a connection for its client.
const SEND_BYTES_MAX: usize = 256 << 10;

/// Serves a client until it goes, or speaks something else than HTTP.
pub(crate) async fn serve(shared: Rc<Shared>, door: Rc<Door>, stream: TcpStream, peer: SocketAddr) {
    let Ok(own) = stream.local_addr() else { return };
    // An answer is small and waits for nobody.
    let _ = stream.set_nodelay(true);
    let ends = Rc::new(Ends {
        is_secure: door.tls.is_some(),
        client: (peer.ip().to_string(), peer.port()),
        server: (own.ip().to_string(), own.port()),
    });
    let silence = shared.silence;
    let Some(tls) = &door.tls else {
        let mut stream = stream;
        let Ok(Some((early, is_two))) = timeout(silence, begin(&mut stream)).await else { return };
        let client = Client::new(stream, early, silence);
        return speak(shared, door, client, ends, is_two).await;
    };
    let handshake = TlsAcceptor::from(tls.config()).accept(stream);
    let Ok(Ok(stream)) = timeout(silence, handshake).await else { return };
    let is_two = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let client = Client::new(stream, Bytes::new(), silence);
    speak(shared, door, client, ends, is_two).await;
}

/// The first bytes, and whether they are HTTP/2's.
async fn begin(stream: &mut TcpStream) -> Option<(Bytes, bool)> {
    let mut early = BytesMut::with_capacity(PREFACE.len());
    loop {
        // No further than the preface: what follows is for whoever reads it.
        let mut part = (&mut *stream).take((PREFACE.len() - early.len()) as u64);
        if part.read_buf(&mut early).await.ok()? == 0 {
            return None;
        }
        if !PREFACE.starts_with(&early) {
            return Some((early.freeze(), false));
        }
        if early.len() == PREFACE.len() {
            return Some((early.freeze(), true));
        }
    }
}

async fn speak<S: AsyncRead + AsyncWrite + Peer + Unpin + Send + 'static>(
    shared: Rc<Shared>,
    door: Rc<Door>,
    client: Client<S>,
    ends: Rc<Ends>,
    is_two: bool,
) {
    if is_two {
        return speak_two(shared, door, client, ends).await;
    }
    let silence = shared.silence;
    let heads = Arc::new(Mutex::new(Heads::default()));
    let client = client.with_heads(Arc::clone(&heads));
    let service = service_fn(move |request| {
        let (shared, ends, heads) = (Rc::clone(&shared), Rc::clone(&ends), Arc::clone(&heads));
        let is_for_grpc = door.is_for_grpc;
        async move {
            if is_for_grpc {
                return Ok(grpc::refuse());
            }
            forward::answer(shared, ends, heads, request).await
        }
    });
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(silence)
        .max_buf_size(HEAD_BYTES_MAX.max(8192))
        .serve_connection(TokioIo::new(client), service)
        .with_upgrades()
        .await;
}

async fn speak_two<S: AsyncRead + AsyncWrite + Peer + Unpin + Send + 'static>(
    shared: Rc<Shared>,
    door: Rc<Door>,
    client: Client<S>,
    ends: Rc<Ends>,
) {
    let silence = shared.silence;
    let streams = Streams::new();
    let begun = Rc::clone(&streams);
    let service = service_fn(move |request| {
        let (shared, ends, stream) = (Rc::clone(&shared), Rc::clone(&ends), begun.begin());
        let is_for_grpc = door.is_for_grpc;
        async move {
            let response = if grpc::is_wanted(&request) {
                grpc::answer(&shared, &ends, request).await
            } else if is_for_grpc {
                grpc::refuse()
            } else {
                forward::answer_stream(&shared, &ends, request).await
            };
            Ok::<_, Infallible>(response.map(|answer| stream.answered(answer)))
        }
    });
    let connection = http2::Builder::new(Local)
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BYTES_MAX)
        .serve_connection(TokioIo::new(client), service);
    let mut connection = std::pin::pin!(connection);
    // hyper has no timer for a client of HTTP/2 that neither takes nor sends.
    let mut tick = tokio::time::interval((silence / 4).max(Duration::from_millis(50)));
    loop {
        tokio::select! {
            _ = &mut connection => return,
            _ = tick.tick() => match streams.look(silence) {
                State::Busy => {}
                State::Stuck => return,
                State::Idle => break,
            },
        }
    }
    connection.as_mut().graceful_shutdown();
    // A client that does not say goodbye is not waited for.
    let _ = timeout(silence, connection).await;
}

/// Runs the streams of a connection on the one thread that there is.
#[derive(Debug, Clone, Copy)]
struct Local;

impl<F: Future + 'static> Executor<F> for Local {
    fn execute(&self, stream: F) {
        tokio::task::spawn_local(async move {
            stream.await;
        });
    }
}
