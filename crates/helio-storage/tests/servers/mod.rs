//! Servers of stores, each for one test.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use helio_storage::outside::{Target, parse};

static SERVERS: AtomicU32 = AtomicU32::new(0);

/// Waits for what must happen.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A server for the tests: the operations that Redis and etcd have in common.
pub(crate) trait Server {
    /// Number of places at which a long conversation is cut: each costs a start of a head.
    const CUTS: u64;
    fn run() -> Self;
    fn port(&self) -> u16;
    fn target(&self, namespace: &str, lease: Duration) -> Target;
    /// Ends the lease at once, like the passing of its time.
    fn expire(&self, namespace: &str);
    /// Makes the store forget the changes until now.
    fn forget(&self, namespace: &str);
}

fn target(scheme: &str, port: u16, namespace: &str, lease: Duration) -> Target {
    let target = parse(&format!("{scheme}://127.0.0.1:{port}")).unwrap();
    Target { namespace: namespace.to_owned(), cluster: "mine".to_owned(), lease, ..target }
}

pub(crate) struct RedisServer {
    port: u16,
    password: Option<String>,
    process: Child,
    folder: PathBuf,
}

impl RedisServer {
    pub(crate) fn start(options: &[&str]) -> Self {
        let number = SERVERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("helio-redis-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let password = options.iter().position(|option| *option == "--requirepass");
        let password = password.map(|at| options[at + 1].to_owned());
        loop {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            let mut process = Command::new("redis-server")
                .args(["--bind", "127.0.0.1", "--save", "", "--port", &port.to_string()])
                .args(options)
                .current_dir(&folder)
                .stdout(Stdio::null())
                .spawn()
                .expect("redis-server is installed: `apt-get install redis-server`");
            let mut has_ended = false;
            until("redis-server", || {
                has_ended = process.try_wait().unwrap().is_some();
                has_ended || TcpStream::connect(("127.0.0.1", port)).is_ok()
            });
            // Another program was quicker to take the port.
            if !has_ended {
                return Self { port, password, process, folder };
            }
        }
    }

    pub(crate) fn set(&self, name: &str, value: &str) {
        self.command(&["CONFIG", "SET", name, value]);
    }

    pub(crate) fn command(&self, parts: &[&str]) -> String {
        assert!(self.password.is_none());
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let mut text = format!("*{}\r\n", parts.len());
        for part in parts {
            text += &format!("${}\r\n{part}\r\n", part.len());
        }
        stream.write_all(text.as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        assert!(!line.starts_with('-'), "{parts:?}: {line}");
        line
    }
}

impl Server for RedisServer {
    const CUTS: u64 = 150;

    fn run() -> Self {
        Self::start(&[])
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn target(&self, namespace: &str, lease: Duration) -> Target {
        target("redis", self.port, namespace, lease)
    }

    fn expire(&self, namespace: &str) {
        self.command(&["DEL", &format!("{{heliostat:{namespace}}}:lease")]);
    }

    /// Does what a trace does that has no room for the changes.
    fn forget(&self, namespace: &str) {
        let key = |name| format!("{{heliostat:{namespace}}}:{name}");
        let script = "redis.call('HSET', KEYS[1], 'floor', redis.call('HGET', KEYS[1], 'number')) return redis.call('DEL', KEYS[2])";
        self.command(&["EVAL", script, "2", &key("meta"), &key("trace")]);
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A single etcd member.
pub(crate) struct EtcdServer {
    port: u16,
    process: Child,
    folder: PathBuf,
}

impl EtcdServer {
    pub(crate) fn start(options: &[&str]) -> Self {
        let number = SERVERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("helio-etcd-{}-{number}", std::process::id());
        // etcd waits for its disk at every write, which is not what is tested.
        let memory = PathBuf::from("/dev/shm");
        let folder = if memory.is_dir() { memory } else { std::env::temp_dir() }.join(name);
        loop {
            let free = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
            let [port, peers] = free.each_ref().map(|it| it.local_addr().unwrap().port());
            drop(free);
            let (own, peer) =
                (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peers}"));
            let mut process = Command::new("etcd")
                .args(["--listen-client-urls", &own, "--advertise-client-urls", &own])
                .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
                .args(["--initial-cluster", &format!("default={peer}"), "--data-dir"])
                .arg(&folder)
                .args(options)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("etcd is installed: `apt-get install etcd-server`");
            let mut has_ended = false;
            until("etcd", || {
                has_ended = process.try_wait().unwrap().is_some();
                has_ended || TcpStream::connect(("127.0.0.1", port)).is_ok()
            });
            // Another program was quicker to take a port.
            if !has_ended {
                return Self { port, process, folder };
            }
            let _ = std::fs::remove_dir_all(&folder);
        }
    }
}

impl EtcdServer {
    /// Returns the answer, whose status must be 200.
    fn post(&self, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {length}"
        );
        stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
        answer
    }
}

impl Server for EtcdServer {
    const CUTS: u64 = 12;

    fn run() -> Self {
        Self::start(&[])
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn target(&self, namespace: &str, lease: Duration) -> Target {
        target("etcd", self.port, namespace, lease)
    }

    fn expire(&self, namespace: &str) {
        let key = base64(format!("heliostat/{namespace}/leader").as_bytes());
        self.post("/v3/kv/deleterange", &format!("{{\"key\":\"{key}\"}}"));
    }

    fn forget(&self, _namespace: &str) {
        let answer = self.post("/v3/kv/range", "{\"key\":\"AA==\"}");
        let (_, rest) = answer.split_once("\"revision\":\"").unwrap();
        let (revision, _) = rest.split_once('"').unwrap();
        self.post("/v3/kv/compaction", &format!("{{\"revision\":\"{revision}\"}}"));
    }
}

fn base64(bytes: &[u8]) -> String {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: Vec<u8> =
        bytes.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)).collect();
    let six = |six: &[u8]| (0..6).fold(0, |all, at| all << 1 | six.get(at).copied().unwrap_or(0));
    let mut text: String =
        bits.chunks(6).map(|bits| char::from(letters[six(bits) as usize])).collect();
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
