//! Servers of stores, each for one test.

use std::io::{BufRead as _, BufReader, Write as _};
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

pub(crate) struct RedisServer {
    pub(crate) port: u16,
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

    pub(crate) fn target(&self, namespace: &str, lease: Duration) -> Target {
        let target = parse(&format!("redis://127.0.0.1:{}", self.port)).unwrap();
        Target { namespace: namespace.to_owned(), cluster: "mine".to_owned(), lease, ..target }
    }

    /// As the server itself would when the time is over.
    pub(crate) fn expire(&self, namespace: &str) {
        self.command(&["DEL", &format!("{{heliostat:{namespace}}}:lease")]);
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

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
