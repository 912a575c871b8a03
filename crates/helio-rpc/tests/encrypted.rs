//! Encrypted connections: through a door into a process, and from those who mean harm.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use helio_proto::frame;
use helio_proto::hello::{
    Destination, Hello, PLAIN_HERE, RefusalKind, Role, VERSION, Welcome, wrong_transport,
};
use helio_proto::node::Notice;
use helio_rpc::service::{
    Error, Gate, HANDSHAKES_MAX, Reader, Target, Writer, connect_encrypted, connect_tcp,
    listen_unix,
};
use helio_tls::{Files, Identity};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// A folder of its own.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("helio-rpc-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn identity(&self) -> Arc<Identity> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let own = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let own = own.signed_by(&key, &issuer).unwrap();
        let write = |name: &str, text: String| {
            fs::write(self.0.join(name), text).unwrap();
            self.0.join(name)
        };
        let files = Files {
            certificate: write("cert.pem", own.pem()),
            key: write("key.pem", key.serialize_pem()),
            authority: write("ca.pem", authority.pem()),
        };
        Arc::new(Identity::load(files).unwrap())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn gate(identity: Option<&Arc<Identity>>) -> Gate {
    Gate::new("test", "secret", Welcome::default()).encrypting(identity.cloned())
}

fn hello(to: Destination) -> Hello {
    let token = "secret".to_owned();
    Hello { token, role: Role::Driver, pid: 7, to: to as u32, ..Hello::default() }
}

type End = (Reader, Writer);

/// Makes both ends of a connection that the gate accepts.
async fn pair(gate: &Gate, identity: &Identity) -> (End, End) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let accepted = async { gate.admit(listener.accept().await.unwrap().0).await.unwrap() };
    let connected = connect_encrypted("127.0.0.1", port, hello(Destination::Daemon), identity);
    let ((reader, writer, hello), connected) = tokio::join!(accepted, connected);
    assert_eq!(hello.pid, 7);
    let (own_reader, own_writer, _) = connected.unwrap();
    ((reader, writer), (own_reader, own_writer))
}

async fn check_notices(from: &Writer, to: &mut Reader) {
    for n in 0..500usize {
        let text = "x".repeat(n * 397 % 90_000);
        from.send(&Notice { is_warning: n % 2 == 0, text }).unwrap();
    }
    for n in 0..500usize {
        let notice: Notice = to.next().await.unwrap().unwrap();
        assert_eq!((notice.is_warning, notice.text.len()), (n % 2 == 0, n * 397 % 90_000));
    }
}

#[test]
fn messages_arrive_whole_and_in_order() {
    let folder = Folder::new("messages");
    let identity = folder.identity();
    run(async {
        let ((mut reader, writer), (mut own_reader, own_writer)) =
            pair(&gate(Some(&identity)), &identity).await;
        tokio::join!(
            check_notices(&own_writer, &mut reader),
            check_notices(&writer, &mut own_reader)
        );
        drop(own_writer);
        assert!(reader.next::<Notice>().await.unwrap().is_none());
    });
}

#[test]
fn files_arrive_whole() {
    let folder = Folder::new("files");
    let identity = folder.identity();
    run(async {
        let ((mut reader, _writer), (_own_reader, own_writer)) =
            pair(&gate(Some(&identity)), &identity).await;
        let size = 5_000_000u64;
        let new =
            || File::from(rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
        let (from, to) = (new(), new());
        let bytes: Vec<u8> = (0..size).map(|n| (n * 31 % 253) as u8).collect();
        from.write_all_at(&bytes, 0).unwrap();
        let is_wanted = Mutex::new(true);
        let target = Target {
            file: to.as_fd(),
            offset: 11,
            length: size - 9,
            is_wanted: &is_wanted,
            memory: None,
        };
        let sent = async {
            own_writer.send(&Notice { text: "first".into(), ..Notice::default() }).unwrap();
            own_writer.send_file(from.as_fd(), 9, size - 9).await.unwrap();
            own_writer.send(&Notice { text: "last".into(), ..Notice::default() }).unwrap();
        };
        let received = async {
            assert_eq!(reader.next::<Notice>().await.unwrap().unwrap().text, "first");
            reader.receive_file(&target, |_| ()).await.unwrap();
            assert_eq!(reader.next::<Notice>().await.unwrap().unwrap().text, "last");
        };
        tokio::join!(sent, received);
        let mut found = vec![0; bytes.len() - 9];
        to.read_exact_at(&mut found, 11).unwrap();
        assert!(found == bytes[9..]);
    });
}

/// The door reads whom the connection is for; the session begins in the process that is meant.
#[test]
fn a_process_takes_the_session_up() {
    let folder = Folder::new("process");
    let identity = folder.identity();
    run(async {
        let socket = folder.0.join("process.sock");
        let process = listen_unix(&socket).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let door = gate(Some(&identity)).handing_over();
        let inside = gate(Some(&identity));
        let handed = async {
            let arrival = door.greeted(listener.accept().await.unwrap().0).await.unwrap();
            assert!(door.would_let_in(&arrival));
            assert!(arrival.hello().token.is_empty(), "TLS-1: the token comes in the session");
            arrival.hand_over(&socket).await.unwrap();
        };
        let accepted = async { inside.admit(process.accept().await.unwrap().0).await.unwrap() };
        let hello = hello(Destination::Process);
        let connected = connect_encrypted("127.0.0.1", port, hello, &identity);
        let ((), (mut reader, writer, greeting), connected) =
            tokio::join!(handed, accepted, connected);
        assert_eq!((greeting.pid, greeting.token.as_str()), (7, "secret"));
        let (mut own_reader, own_writer, _) = connected.unwrap();
        tokio::join!(
            check_notices(&own_writer, &mut reader),
            check_notices(&writer, &mut own_reader)
        );
    });
}

/// TLS-1: one line at each end, and nothing else.
#[test]
fn who_encrypts_and_who_does_not_are_told() {
    let folder = Folder::new("told");
    let identity = folder.identity();
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let encrypting = gate(Some(&identity));
        let refused = async {
            assert!(encrypting.admit(listener.accept().await.unwrap().0).await.is_none());
        };
        let connected = connect_tcp("127.0.0.1", port, hello(Destination::Daemon));
        let (connected, ()) = tokio::join!(connected, refused);
        assert!(matches!(connected, Err(Error::Refused(why)) if why == wrong_transport(true)));

        let plain = gate(None);
        let refused =
            async { assert!(plain.admit(listener.accept().await.unwrap().0).await.is_none()) };
        let connected = connect_encrypted("127.0.0.1", port, hello(Destination::Daemon), &identity);
        let (connected, ()) = tokio::join!(connected, refused);
        // A machine on the way could have said so: it is not an answer of the cluster.
        assert!(matches!(connected, Err(Error::Tls(why)) if why == PLAIN_HERE));

        // A wrong token is refused inside the session.
        let guessed = Hello { token: "guess".into(), ..hello(Destination::Daemon) };
        let refused = async {
            assert!(encrypting.admit(listener.accept().await.unwrap().0).await.is_none());
        };
        let connected = connect_encrypted("127.0.0.1", port, guessed, &identity);
        let (connected, ()) = tokio::join!(connected, refused);
        assert!(
            matches!(connected, Err(Error::Refused(why)) if why.kind == RefusalKind::Token),
            "AUTH-1"
        );
    });
}

fn routing(to: Destination) -> Vec<u8> {
    let mut bytes = Vec::new();
    let routing = hello(to).routing();
    frame::put(&mut bytes, |out| out.extend(helio_proto::encode(&routing)));
    bytes
}

/// TLS-1: a session that is announced and does not come, or is garbage, or greets somebody else.
#[test]
fn what_follows_the_announcement_has_to_be_a_session() {
    let folder = Folder::new("garbage");
    let identity = folder.identity();
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let gate = gate(Some(&identity));
        let plain = {
            let mut bytes = Vec::new();
            let hello = Hello { version: VERSION, ..hello(Destination::Daemon) };
            frame::put(&mut bytes, |out| out.extend(helio_proto::encode(&hello)));
            bytes
        };
        for garbage in [&[][..], &[0xff; 64], &[22, 3, 1, 0, 4, 1, 0, 0, 0], &plain[..]] {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(&routing(Destination::Daemon)).await.unwrap();
            client.write_all(garbage).await.unwrap();
            client.shutdown().await.unwrap();
            let accepted = listener.accept().await.unwrap().0;
            assert!(gate.admit(accepted).await.is_none(), "TLS-1");
            let mut rest = Vec::new();
            let _ = client.read_to_end(&mut rest).await;
            assert!(rest.len() < 100, "at most an alert is answered");
        }
    });
}

/// AUTH-1, LIMIT-1: who begins a handshake and does not go on loses its place to who comes later.
#[test]
fn handshakes_that_stall_do_not_keep_others_out() {
    let folder = Folder::new("stall");
    let identity = folder.identity();
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let gate = Arc::new(gate(Some(&identity)));
        let mut silent = Vec::new();
        for _ in 0..HANDSHAKES_MAX + 20 {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(&routing(Destination::Daemon)).await.unwrap();
            // The beginning of a ClientHello.
            client.write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 252]).await.unwrap();
            let (gate, accepted) = (Arc::clone(&gate), listener.accept().await.unwrap().0);
            silent
                .push((client, tokio::spawn(async move { gate.admit(accepted).await.is_some() })));
            tokio::task::yield_now().await;
        }
        let ((mut reader, _writer), (_own_reader, own_writer)) = pair(&gate, &identity).await;
        own_writer.send(&Notice { text: "in".into(), ..Notice::default() }).unwrap();
        assert_eq!(reader.next::<Notice>().await.unwrap().unwrap().text, "in");
        for (_client, admitted) in silent.drain(..20) {
            let admitted = tokio::time::timeout(Duration::from_secs(60), admitted).await;
            assert!(!admitted.unwrap().unwrap());
        }
    });
}
