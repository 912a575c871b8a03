//! Connections of HTTP: encrypted where those between machines are. Who asks from this machine may leave it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use helio_tls::Identity;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// Time that a client may take to begin, and to end the handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// The first byte of a TLS session; no request of HTTP begins with it.
const HANDSHAKE: u8 = 22;

/// The answer to a request of another machine that should have been encrypted.
const PLAIN: &str = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 84\r\nConnection: close\r\n\r\n\
                     This cluster is encrypted (RAY_USE_TLS=1): use https:// where the address has http:\n";

/// A connection, encrypted or not.
#[derive(Debug)]
pub enum Stream {
    /// A connection in the clear.
    Plain(TcpStream),
    /// In a TLS session.
    Secure(Box<TlsStream<TcpStream>>),
}

/// The rules for requests: encrypted or not.
#[derive(Debug, Clone, Default)]
pub struct Entrance {
    /// The certificate of the server; `None`: nothing is encrypted.
    pub identity: Option<Arc<Identity>>,
    /// Whether other machines may ask in the clear all the same.
    pub may_be_plain: bool,
}

impl Entrance {
    /// Takes a connection up.
    ///
    /// # Errors
    /// When the client is silent, speaks garbage, or asks in the clear and should not; the connection is closed.
    pub async fn enter(&self, stream: TcpStream) -> io::Result<Stream> {
        let Some(identity) = &self.identity else { return Ok(Stream::Plain(stream)) };
        let entering = self.enter_encrypted(stream, identity);
        tokio::time::timeout(HANDSHAKE_MAX, entering).await.map_err(|_| io::ErrorKind::TimedOut)?
    }

    async fn enter_encrypted(
        &self,
        mut stream: TcpStream,
        identity: &Identity,
    ) -> io::Result<Stream> {
        let mut first = [0];
        // Peeked, not read: whoever goes on with the connection needs the byte.
        if stream.peek(&mut first).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if first[0] == HANDSHAKE {
            let session = TlsAcceptor::from(identity.https()).accept(stream).await?;
            return Ok(Stream::Secure(Box::new(session.into())));
        }
        if self.may_be_plain || is_of_this_machine(&stream)? {
            return Ok(Stream::Plain(stream));
        }
        // A browser that came by http:// is told what to type.
        stream.write_all(PLAIN.as_bytes()).await?;
        stream.shutdown().await?;
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// The connecting end, to a process of the cluster, which shows a certificate for the host and sees ours.
///
/// # Errors
/// When the other end is not believed, or does not believe.
pub async fn encrypted(stream: TcpStream, identity: &Identity, host: &str) -> io::Result<Stream> {
    let (config, name) = identity.https_client(host).map_err(io::Error::other)?;
    let connecting = TlsConnector::from(config).connect(name, stream);
    let session = tokio::time::timeout(HANDSHAKE_MAX, connecting).await;
    Ok(Stream::Secure(Box::new(session.map_err(|_| io::ErrorKind::TimedOut)??.into())))
}

fn is_of_this_machine(stream: &TcpStream) -> io::Result<bool> {
    let (peer, own) = (stream.peer_addr()?.ip(), stream.local_addr()?.ip());
    Ok(peer.to_canonical().is_loopback() || peer == own)
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, out),
            Self::Secure(stream) => Pin::new(stream.as_mut()).poll_read(context, out),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Secure(stream) => Pin::new(stream.as_mut()).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Secure(stream) => Pin::new(stream.as_mut()).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Secure(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
        }
    }
}
