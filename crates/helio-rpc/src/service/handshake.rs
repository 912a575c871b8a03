//! The first frame each way.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::BytesMut;
use helio_proto::frame::{self, FRAME_MAX, HELLO_MAX};
use helio_proto::hello::{Hello, VERSION, Welcome};
use helio_tls::Identity;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::arrival::Arrival;
use super::error::{Error, HANDSHAKE_MAX};
use super::read::Reader;
use super::secure::Secure;
use super::stream::Stream;
use super::unix::connect_path;
use super::write::Writer;

/// A name in each certificate that a token has signed, beside the address of its node.
const NAMED_BY_ALL: &str = "localhost";

/// Lets a peer in that holds the token and speaks this version; `welcome` says who this side is.
///
/// # Errors
/// When the peer is silent, speaks garbage or is refused ([`Error::Unwelcome`]); it was told the reason
/// where it spoke the protocol at all, and the connection is closed.
pub async fn accept(
    stream: impl Into<Stream>,
    token: &str,
    welcome: Welcome,
) -> Result<(Reader, Writer, Hello), Error> {
    Arrival::read(stream).await?.welcome(token, welcome)
}

/// Connects over TCP, encrypted where this process is told to.
///
/// # Errors
/// When nobody listens there, the peer is silent, or it says no ([`Error::Refused`]).
pub async fn connect_tcp(
    host: &str,
    port: u16,
    hello: Hello,
) -> Result<(Reader, Writer, Welcome), Error> {
    connect(host, hello, dial(host, port)).await
}

/// Connects past the entrance that this process may have to take.
///
/// # Errors
/// See [`connect_tcp`].
pub async fn connect_directly(
    host: &str,
    port: u16,
    hello: Hello,
) -> Result<(Reader, Writer, Welcome), Error> {
    connect(host, hello, TcpStream::connect((host, port))).await
}

/// Connects with encryption, by certificates that the cluster's token has signed: whoever shows one has the token, so it
/// may name any address. A router between the two has one that no certificate names.
///
/// # Errors
/// See [`connect_encrypted`].
pub async fn connect_by_token(
    host: &str,
    port: u16,
    hello: Hello,
    identity: &Identity,
) -> Result<(Reader, Writer, Welcome), Error> {
    shake(NAMED_BY_ALL, hello, Some(identity), TcpStream::connect((host, port))).await
}

async fn connect(
    host: &str,
    hello: Hello,
    dial: impl Future<Output = io::Result<TcpStream>>,
) -> Result<(Reader, Writer, Welcome), Error> {
    let identity = helio_tls::current().map_err(|error| Error::Tls(error.0))?;
    shake(host, hello, identity.as_deref(), dial).await
}

/// Dials and greets, encrypted where this side has an identity; the other side's certificate has to bear the name.
async fn shake(
    name: &str,
    hello: Hello,
    identity: Option<&Identity>,
    dial: impl Future<Output = io::Result<TcpStream>>,
) -> Result<(Reader, Writer, Welcome), Error> {
    tokio::time::timeout(HANDSHAKE_MAX, async {
        let socket = dial.await?;
        let stream = match identity {
            Some(identity) => encrypted(socket, identity, name, &hello).await?,
            None => socket.into(),
        };
        greet(stream, hello).await
    })
    .await
    .map_err(|_| Error::Silent)?
}

/// Connects over TCP, encrypted.
///
/// # Errors
/// See [`connect_tcp`]; [`Error::Tls`]: one end does not believe the other, or does not encrypt.
pub async fn connect_encrypted(
    host: &str,
    port: u16,
    hello: Hello,
    identity: &Identity,
) -> Result<(Reader, Writer, Welcome), Error> {
    shake(host, hello, Some(identity), dial(host, port)).await
}

/// A connection to another machine, through the entrance that this process is to take, if it is to take one.
async fn dial(host: &str, port: u16) -> io::Result<TcpStream> {
    let Some(detour) = helio_env::detour::to(host, port) else {
        return TcpStream::connect((host, port)).await;
    };
    let mut stream = TcpStream::connect(detour.at).await?;
    stream.write_all(&detour.preface).await?;
    Ok(stream)
}

/// Connects to a socket file.
///
/// # Errors
/// See [`connect_tcp`].
pub async fn connect_unix(path: &Path, hello: Hello) -> Result<(Reader, Writer, Welcome), Error> {
    tokio::time::timeout(HANDSHAKE_MAX, async {
        greet(connect_path(path).await?.into(), hello).await
    })
    .await
    .map_err(|_| Error::Silent)?
}

/// The connecting end of an encrypted connection.
async fn encrypted(
    socket: TcpStream,
    identity: &Identity,
    host: &str,
    hello: &Hello,
) -> Result<Stream, Error> {
    // Only what follows waits for nothing: it fails on a socket that is closed already, which the first read reports.
    let _ = socket.set_nodelay(true);
    let session = identity.connect(host).map_err(|error| Error::Tls(error.0))?;
    let mut before = Vec::new();
    frame::put(&mut before, |b| b.extend_from_slice(&helio_proto::encode(&hello.routing())));
    Ok(Secure::shake_hands(socket, session, &before, &[]).await?.into())
}

async fn greet(stream: Stream, hello: Hello) -> Result<(Reader, Writer, Welcome), Error> {
    let stream = Arc::new(stream);
    let mut reader = Reader::new(Arc::clone(&stream), BytesMut::new(), HELLO_MAX);
    let writer = Writer::start(stream);
    let hello = Hello { version: VERSION, release: env!("CARGO_PKG_VERSION").to_owned(), ..hello };
    // A connection that ended already is reported by the read.
    let _ = writer.send(&hello);
    let welcome: Welcome = reader.next().await?.ok_or(Error::Left)?;
    let welcome = welcome.accepted().map_err(Error::Refused)?;
    reader.allow(FRAME_MAX);
    Ok((reader, writer, welcome))
}
