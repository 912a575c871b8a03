//! The least of HTTP: a request without a body is answered once, and its connection ends. What a node says to probes
//! and to Prometheus is worth no web framework.
//!
//! **LIMIT-1** [`READERS_MAX`] are served at a time, each for [`REQUEST_MAX`]; a request's head has
//! [`HEAD_MAX`] bytes at most.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use helio_rpc::http::{Entrance, Stream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

const READERS_MAX: usize = 16;
const REQUEST_MAX: Duration = Duration::from_secs(10);
const HEAD_MAX: usize = 8 << 10;

/// An answer to a request.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// Code and words.
    pub(crate) status: &'static str,
    /// Further lines of the head, each with its end.
    pub(crate) more: &'static str,
    pub(crate) body: String,
}

/// Gives the answers of one of this daemon's HTTP ports.
pub(crate) trait Answers: Send + Sync + 'static {
    /// The answer to a request with that head.
    fn answer(&self, head: &str) -> impl Future<Output = Answer> + Send;
}

/// Serves for as long as the runtime lives.
pub(crate) fn serve(listener: TcpListener, entrance: Entrance, answers: impl Answers) {
    let (answers, room) = (Arc::new(answers), Arc::new(Semaphore::new(READERS_MAX)));
    tokio::spawn(async move {
        loop {
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let (answers, entrance) = (Arc::clone(&answers), entrance.clone());
                    tokio::spawn(async move {
                        // A client that is too slow, or goes away, gets nothing.
                        let asked = async { one(entrance.enter(stream).await?, &*answers).await };
                        let _ = tokio::time::timeout(REQUEST_MAX, asked).await;
                        drop(permit);
                    });
                }
                // Out of descriptors, most likely: to try again at once would only burn the processor.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    });
}

async fn one(mut stream: Stream, answers: &impl Answers) -> io::Result<()> {
    let mut head = Vec::new();
    // A client that speaks something else than HTTP gets the same refusal at once.
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && is_text(&head) {
        if head.len() >= HEAD_MAX || stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let Answer { status, more, body } = answers.answer(&String::from_utf8_lossy(&head)).await;
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n{more}\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

fn is_text(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n' | b'\t' | 0x20..))
}

/// The method and the path of a request, without its query.
pub(crate) fn target(head: &str) -> (&str, &str) {
    let line = head.split("\r\n").next().unwrap_or_default();
    let mut words = line.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    (method, path.split('?').next().unwrap_or_default())
}
