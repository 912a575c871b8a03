//! The first frame each way.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use helio_proto::frame::{FRAME_MAX, HELLO_MAX};
use helio_proto::hello::{Hello, VERSION, Welcome, refusal};
use tokio::net::{TcpStream, UnixStream};

use super::{Error, Reader, Stream, Writer};

/// The longest path that is a socket's address as it is, in bytes.
const ADDRESS_MAX: usize = 100;

/// How long a peer may take to say who it is.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

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
    let stream = Arc::new(stream.into());
    let mut reader = Reader::new(Arc::clone(&stream), HELLO_MAX);
    let hello: Hello = tokio::time::timeout(HANDSHAKE_MAX, reader.next())
        .await
        .map_err(|_| Error::Silent)??
        .ok_or(Error::Left)?;
    let writer = Writer::start(stream);
    if let Some(refused) = refusal(&hello, token) {
        // The queue is empty and open; and if the peer is gone, nobody misses the answer.
        let _ = writer.send(&Welcome {
            refused: refused.clone(),
            version: VERSION,
            ..Welcome::default()
        });
        writer.close();
        return Err(Error::Unwelcome(refused));
    }
    let features = hello.features & welcome.features;
    let _ = writer.send(&Welcome { refused: String::new(), version: VERSION, features, ..welcome });
    reader.allow(FRAME_MAX);
    Ok((reader, writer, hello))
}

/// Connects over TCP.
///
/// # Errors
/// When nobody listens there, the peer is silent, or it says no ([`Error::Refused`]).
pub async fn connect_tcp(
    host: &str,
    port: u16,
    hello: Hello,
) -> Result<(Reader, Writer, Welcome), Error> {
    tokio::time::timeout(HANDSHAKE_MAX, async {
        greet(TcpStream::connect((host, port)).await?.into(), hello).await
    })
    .await
    .map_err(|_| Error::Silent)?
}

/// Connects to a socket file.
///
/// # Errors
/// See [`connect_tcp`].
pub async fn connect_unix(path: &Path, hello: Hello) -> Result<(Reader, Writer, Welcome), Error> {
    tokio::time::timeout(HANDSHAKE_MAX, async {
        // A socket's address holds about a hundred bytes; a longer path is reached through the folder's
        // descriptor.
        let folder = match path.parent().filter(|_| path.as_os_str().len() > ADDRESS_MAX) {
            Some(folder) => Some(std::fs::File::open(folder)?),
            None => None,
        };
        let short = folder.as_ref().map(|folder| {
            let number = std::os::fd::AsRawFd::as_raw_fd(folder);
            let name = path.file_name().unwrap_or_default();
            Path::new(&format!("/proc/self/fd/{number}")).join(name)
        });
        let stream = UnixStream::connect(short.as_deref().unwrap_or(path)).await?;
        greet(stream.into(), hello).await
    })
    .await
    .map_err(|_| Error::Silent)?
}

async fn greet(stream: Stream, hello: Hello) -> Result<(Reader, Writer, Welcome), Error> {
    let stream = Arc::new(stream);
    let mut reader = Reader::new(Arc::clone(&stream), HELLO_MAX);
    let writer = Writer::start(stream);
    let hello = Hello { version: VERSION, release: env!("CARGO_PKG_VERSION").to_owned(), ..hello };
    // A connection that ended already is reported by the read.
    let _ = writer.send(&hello);
    let welcome: Welcome = reader.next().await?.ok_or(Error::Left)?;
    if !welcome.refused.is_empty() {
        return Err(Error::Refused(welcome.refused));
    }
    reader.allow(FRAME_MAX);
    Ok((reader, writer, welcome))
}
