//! The handshake and the frames, on real sockets.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use helio_proto::hello::{Hello, Role, Welcome};
use helio_proto::node::{Notice, StopNode};
use helio_rpc::service::{Error, Gate, Reader, SendError, Writer, accept, connect_tcp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

async fn pair(
    token: &str,
) -> (Result<(Reader, Writer, Hello), Error>, Result<(Reader, Writer, Welcome), Error>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let hello = Hello { token: token.into(), role: Role::Driver, pid: 7, ..Hello::default() };
    let server =
        async { accept(listener.accept().await.unwrap().0, "secret", Welcome::default()).await };
    tokio::join!(server, connect_tcp("127.0.0.1", port, hello))
}

#[test]
fn messages_arrive_whole_and_in_order() {
    run(async {
        let (server, client) = pair("secret").await;
        let ((mut reader, _writer, hello), (_client_reader, client, _)) =
            (server.unwrap(), client.unwrap());
        assert_eq!(hello.pid, 7);
        for n in 0..2000usize {
            let text = "x".repeat(n * 37 % 9000);
            client.send(&Notice { is_warning: n % 2 == 0, text }).unwrap();
        }
        for n in 0..2000usize {
            let notice: Notice = reader.next().await.unwrap().unwrap();
            assert_eq!((notice.is_warning, notice.text.len()), (n % 2 == 0, n * 37 % 9000));
        }
        drop(client);
        assert!(
            reader.next::<Notice>().await.unwrap().is_none(),
            "the last handle ends the connection"
        );
    });
}

#[test]
fn a_wrong_token_is_refused_with_a_reason() {
    run(async {
        let (server, client) = pair("guess").await;
        assert!(matches!(server, Err(Error::Unwelcome(_))), "AUTH-1");
        assert!(matches!(client, Err(Error::Refused(why)) if why.contains("token")), "AUTH-1");
    });
}

#[test]
fn garbage_costs_its_sender_the_connection() {
    run(async {
        let gate = Gate::new("test", "secret", Welcome::default());
        for garbage in
            [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 64], &[3, 0, 0, 0, 0xff, 0xff, 0xff]]
        {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            theirs.write_all(garbage).await.unwrap();
            assert!(gate.admit(ours).await.is_none(), "AUTH-1");
            let mut rest = Vec::new();
            // A reset is as good as an end here.
            let _ = theirs.read_to_end(&mut rest).await;
            assert!(rest.is_empty(), "AUTH-1: nothing is answered to garbage");
        }
    });
}

#[test]
fn a_peer_that_does_not_read_fills_its_own_queue_only() {
    run(async {
        let (server, client) = pair("secret").await;
        let ((reader, _writer, _), (_client_reader, client, _)) =
            (server.unwrap(), client.unwrap());
        let stop = StopNode { reason: "x".repeat(8 << 20) };
        let outcome = loop {
            if let Err(e) = client.send(&stop) {
                break e;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        assert_eq!(outcome, SendError::Full, "LIMIT-1");
        drop(reader);
    });
}

#[test]
fn a_connection_that_ends_inside_a_frame_is_an_error() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let hello = Hello {
            token: "secret".into(),
            version: helio_proto::hello::VERSION,
            role: Role::Node,
            ..Hello::default()
        };
        let mut bytes = Vec::new();
        helio_proto::frame::put(&mut bytes, |out| out.extend(helio_proto::encode(&hello)));
        bytes.extend_from_slice(&[100, 0, 0, 0, 1, 2]);
        stream.write_all(&bytes).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        let (mut reader, _writer, _) =
            accept(accepted, "secret", Welcome::default()).await.unwrap();
        drop(stream);
        assert!(matches!(reader.next::<Notice>().await, Err(Error::Truncated | Error::Io(_))));
    });
}

#[test]
fn half_a_frame_and_no_word_at_all_are_turned_away() {
    run(async {
        let gate = Gate::new("test", "secret", Welcome::default());
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        assert!(gate.admit(ours).await.is_none());
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(&[40, 0, 0, 0, 8]).await.unwrap();
        drop(theirs);
        assert!(
            matches!(accept(ours, "secret", Welcome::default()).await, Err(Error::Truncated)),
            "AUTH-1"
        );
    });
}
