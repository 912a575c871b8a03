//! The handshake and the frames, on real sockets.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use helio_proto::hello::{Destination, Hello, RefusalKind, Role, Welcome};
use helio_proto::node::{Notice, StopNode};
use helio_rpc::service::{
    Arrival, Error, Gate, HANDSHAKES_MAX, Memory, Reader, SendError, Target, Writer, accept,
    connect_tcp, listen_unix,
};
use rustix::net::{RecvFlags, recv};
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

/// Makes a file of `length` bytes that tell where they are.
fn file(length: u64) -> File {
    let file = rustix::fs::memfd_create("bytes", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let file = File::from(file);
    let bytes: Vec<u8> = (0..length).map(|at| (at * 31 % 251) as u8).collect();
    file.write_all_at(&bytes, 0).unwrap();
    file
}

fn read(file: &File, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, offset).unwrap();
    bytes
}

#[test]
fn ranges_of_files_travel_between_messages() {
    const LENGTH: u64 = 9_000_001;
    run(async {
        let (server, client) = pair("secret").await;
        let ((mut reader, writer, _), (_client_reader, client, _)) =
            (server.unwrap(), client.unwrap());
        let (from, to) = (file(LENGTH + 7), file(0));
        rustix::fs::ftruncate(&to, LENGTH + 100).unwrap();
        let send = async {
            client.send(&Notice { is_warning: true, text: "before".into() }).unwrap();
            client.send_file(from.as_fd(), 7, LENGTH).await.unwrap();
            client.send(&Notice { is_warning: true, text: "after".into() }).unwrap();
        };
        let receive = async {
            let before: Notice = reader.next().await.unwrap().unwrap();
            let is_wanted = Mutex::new(true);
            let file = to.as_fd();
            let target =
                Target { file, offset: 100, length: LENGTH, is_wanted: &is_wanted, memory: None };
            let mut told = 0;
            reader.receive_file(&target, |some| told = some).await.unwrap();
            let after: Notice = reader.next().await.unwrap().unwrap();
            assert_eq!(
                (before.text.as_str(), told, after.text.as_str()),
                ("before", LENGTH, "after")
            );
        };
        tokio::join!(send, receive);
        assert!(read(&to, 100, LENGTH as usize) == read(&from, 7, LENGTH as usize));
        assert_eq!(read(&to, 0, 100), [0; 100]);
        drop(writer);
    });
}

/// All of the file but its beginning is mapped in.
#[derive(Debug)]
struct Mapped<'a> {
    file: &'a File,
    in_place: AtomicU64,
}

impl Memory for Mapped<'_> {
    fn mapped_in(&self, offset: u64, length: u64) -> u64 {
        if offset < 100_000 { 0 } else { length }
    }

    fn receive(&self, socket: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<usize> {
        let mut bytes = vec![0; length as usize];
        let (count, _) = recv(socket, &mut bytes[..], RecvFlags::DONTWAIT)?;
        self.copy_in(offset, &bytes[..count]).map(|()| count)
    }

    fn copy_in(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.in_place.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.file.write_all_at(bytes, offset)
    }
}

#[test]
fn memory_is_sent_and_what_is_mapped_in_is_received_in_place() {
    const LENGTH: usize = 9_000_001;
    run(async {
        let (server, client) = pair("secret").await;
        let ((mut reader, _writer, _), (_client_reader, client, _)) =
            (server.unwrap(), client.unwrap());
        let (from, to) = (file(LENGTH as u64), file(0));
        let bytes = read(&from, 0, LENGTH);
        rustix::fs::ftruncate(&to, LENGTH as u64 + 100).unwrap();
        let memory = Mapped { file: &to, in_place: AtomicU64::new(0) };
        let is_wanted = Mutex::new(true);
        let target = Target {
            file: to.as_fd(),
            offset: 100,
            length: LENGTH as u64,
            is_wanted: &is_wanted,
            memory: Some(&memory),
        };
        let mut told = 0;
        let receive = reader.receive_file(&target, |some| told = some);
        let (sent, received) = tokio::join!(client.send_memory(&bytes), receive);
        sent.unwrap();
        received.unwrap();
        assert_eq!(told, LENGTH as u64);
        assert!(read(&to, 100, LENGTH) == bytes);
        let in_place = memory.in_place.load(Ordering::Relaxed);
        assert!(in_place > 0 && in_place < LENGTH as u64, "{in_place}");

        *is_wanted.lock().unwrap() = false;
        let rest = Target { offset: 200_000, length: 5, ..target };
        let receive = reader.receive_file(&rest, |_| ());
        let (_, refused) = tokio::join!(client.send_memory(b"never"), receive);
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::Interrupted, "SHM-1");
        assert_eq!(memory.in_place.load(Ordering::Relaxed), in_place, "SHM-1");
    });
}

#[test]
fn what_is_not_wanted_any_more_is_not_written() {
    run(async {
        let (server, client) = pair("secret").await;
        let ((mut reader, writer, _), (_client_reader, client, _)) =
            (server.unwrap(), client.unwrap());
        let (from, to) = (file(5_000_000), file(0));
        rustix::fs::ftruncate(&to, 5_000_000).unwrap();
        let is_wanted = Mutex::new(true);
        let target = Target {
            file: to.as_fd(),
            offset: 0,
            length: 5_000_000,
            is_wanted: &is_wanted,
            memory: None,
        };
        let mut written = 0;
        let receive = async {
            let told = reader
                .receive_file(&target, |some| {
                    written = some;
                    *is_wanted.lock().unwrap() = false;
                })
                .await;
            writer.abort();
            told
        };
        let (_, received) = tokio::join!(client.send_file(from.as_fd(), 0, 5_000_000), receive);
        assert_eq!(received.unwrap_err().kind(), io::ErrorKind::Interrupted);
        assert!(written > 0 && written < 5_000_000, "SHM-1");
        assert!(
            read(&to, written, 5_000_000 - written as usize).iter().all(|byte| *byte == 0),
            "SHM-1"
        );
    });
}

#[test]
fn a_wrong_token_is_refused_with_a_reason() {
    run(async {
        let (server, client) = pair("guess").await;
        assert!(matches!(server, Err(Error::Unwelcome(_))), "AUTH-1");
        assert!(
            matches!(client, Err(Error::Refused(why)) if why.kind == RefusalKind::Token),
            "AUTH-1"
        );
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

/// A socket file in a folder of its own.
struct Socket(std::path::PathBuf);

impl Socket {
    fn new(name: &str) -> Self {
        let folder = format!("helio-rpc-{}-{name}", std::process::id());
        Self(std::env::temp_dir().join(folder).join("process.sock"))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.parent().unwrap());
    }
}

fn greeting(token: &str) -> Vec<u8> {
    let hello = Hello {
        token: token.into(),
        version: helio_proto::hello::VERSION,
        role: Role::Driver,
        to: Destination::Process as u32,
        ..Hello::default()
    };
    let mut bytes = Vec::new();
    helio_proto::frame::put(&mut bytes, |out| out.extend(helio_proto::encode(&hello)));
    bytes
}

/// Messages that follow the greeting at once, in the same packet or cut anywhere, arrive with it.
#[test]
fn a_connection_that_is_handed_over_loses_nothing() {
    run(async {
        let socket = Socket::new("handed");
        let process = listen_unix(&socket.0).unwrap();
        let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut bytes = greeting("secret");
        let length = bytes.len();
        for n in 0..300usize {
            let notice = Notice { is_warning: false, text: "x".repeat(n * 7) };
            helio_proto::frame::put(&mut bytes, |out| out.extend(helio_proto::encode(&notice)));
        }
        for cut in [1, 4, length - 1, length, length + 2, length + 4500, bytes.len()] {
            let mut client = TcpStream::connect(door.local_addr().unwrap()).await.unwrap();
            let gate = Gate::new("test", "secret", Welcome::default());
            let (first, rest) = bytes.split_at(cut);
            client.write_all(first).await.unwrap();
            let accepted = door.accept().await.unwrap().0;
            let arrival = async { gate.greeted(accepted).await.unwrap() };
            let written = async {
                tokio::task::yield_now().await;
                client.write_all(rest).await.unwrap();
            };
            let (arrival, ()) = tokio::join!(arrival, written);
            arrival.hand_over(&socket.0).await.unwrap();
            let gate = Gate::new("process", "secret", Welcome { pid: 8, ..Welcome::default() });
            let (mut reader, _writer, hello) =
                gate.admit(process.accept().await.unwrap().0).await.unwrap();
            assert_eq!(hello.to, Destination::Process as u32);
            for n in 0..300usize {
                let notice: Notice = reader.next().await.unwrap().unwrap();
                assert_eq!(notice.text.len(), n * 7, "cut at {cut}");
            }
            let mut length = [0; 4];
            client.read_exact(&mut length).await.unwrap();
            let mut welcome = vec![0; u32::from_le_bytes(length) as usize];
            client.read_exact(&mut welcome).await.unwrap();
            assert_eq!(helio_proto::decode::<Welcome>(&welcome).unwrap().pid, 8);
        }
    });
}

#[test]
fn a_connection_for_a_process_that_has_ended_is_given_back() {
    run(async {
        let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(door.local_addr().unwrap()).await.unwrap();
        client.write_all(&greeting("secret")).await.unwrap();
        let arrival = Arrival::read(door.accept().await.unwrap().0).await.unwrap();
        let nowhere = Socket::new("nowhere");
        let (arrival, error) = arrival.hand_over(&nowhere.0).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        arrival.refuse("it has ended");
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        assert_eq!(helio_proto::decode::<Welcome>(&answer[4..]).unwrap().refused, "it has ended");
    });
}

/// The process ends after it was given a connection, and before it looked at it.
#[test]
fn a_connection_that_nobody_takes_is_closed() {
    run(async {
        let socket = Socket::new("untaken");
        let process = listen_unix(&socket.0).unwrap();
        let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(door.local_addr().unwrap()).await.unwrap();
        client.write_all(&greeting("secret")).await.unwrap();
        let arrival = Arrival::read(door.accept().await.unwrap().0).await.unwrap();
        arrival.hand_over(&socket.0).await.unwrap();
        drop(process);
        let mut answer = Vec::new();
        // A reset is as good as an end here.
        let _ = client.read_to_end(&mut answer).await;
        assert!(answer.is_empty());
    });
}

/// Handing over is for connections of other machines, and happens once.
#[test]
fn a_descriptor_of_another_kind_is_not_taken() {
    run(async {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (inner, _outer) = UnixStream::pair().unwrap();
        let fds = [inner.as_fd()];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = rustix::net::SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(rustix::net::SendAncillaryMessage::ScmRights(&fds)));
        theirs.writable().await.unwrap();
        rustix::net::sendmsg(
            &theirs,
            &[io::IoSlice::new(&greeting("secret"))],
            &mut ancillary,
            rustix::net::SendFlags::empty(),
        )
        .unwrap();
        assert!(matches!(Arrival::read(ours).await, Err(Error::Io(_))));
    });
}

/// AUTH-1, LIMIT-1: who holds a place and says nothing loses it to who comes later and greets.
#[test]
fn silent_peers_do_not_keep_others_out() {
    run(async {
        let gate = std::sync::Arc::new(Gate::new("test", "secret", Welcome::default()));
        let mut silent = Vec::new();
        for _ in 0..3 * HANDSHAKES_MAX {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let gate = std::sync::Arc::clone(&gate);
            silent.push((theirs, tokio::spawn(async move { gate.admit(ours).await.is_some() })));
            tokio::task::yield_now().await;
        }
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(&greeting("secret")).await.unwrap();
        assert!(gate.admit(ours).await.is_some());
        let last = silent.split_off(silent.len() - HANDSHAKES_MAX + 1);
        for (mut theirs, admitted) in silent {
            assert!(!admitted.await.unwrap());
            assert!(matches!(theirs.read(&mut [0; 8]).await, Ok(0) | Err(_)));
        }
        assert!(last.iter().all(|(_, admitted)| !admitted.is_finished()));
    });
}
