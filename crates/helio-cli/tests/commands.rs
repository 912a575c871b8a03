//! The real binary: start, status, stop, and what goes wrong. No Python is needed: the daemon stands
//! without one until a worker is wanted.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A place of its own for one test: home, sessions, port.
struct Place {
    folder: PathBuf,
    port: u16,
}

struct Said {
    ok: bool,
    text: String,
}

impl Place {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("helio-cli-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("home")).unwrap();
        let port = TcpListener::bind(("0.0.0.0", 0)).unwrap().local_addr().unwrap().port();
        Self { folder, port }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_heliostat"));
        command.args(arguments).stdin(Stdio::null());
        command.env("HOME", self.folder.join("home")).env("RAY_TMPDIR", &self.folder);
        command.env("HELIOSTAT_CLI_NAME", "ray").env("HELIOSTAT_PYTHON", "/bin/true");
        command.env("HELIOSTAT_JOIN_WAIT_S", "1");
        for name in [
            "RAY_ADDRESS",
            "HELIOSTAT_ADDRESS",
            "HELIOSTAT_AUTH_TOKEN",
            "RAY_AUTH_TOKEN",
            "RAY_AUTH_TOKEN_PATH",
            "RAY_AUTH_MODE",
        ] {
            command.env_remove(name);
        }
        command
    }

    fn run(&self, arguments: &[&str]) -> Said {
        let Output { status, stdout, stderr } = self.command(arguments).output().unwrap();
        let text = String::from_utf8([stdout, stderr].concat()).unwrap();
        Said { ok: status.success(), text }
    }

    fn start_head(&self) -> Said {
        self.run(&[
            "start",
            "--head",
            &format!("--port={}", self.port),
            "--num-cpus=2",
            "--object-store-memory=80000000",
        ])
    }

    fn join(&self, address: &str) -> Said {
        self.run(&["start", "--address", address, "--num-cpus=3", "--object-store-memory=80000000"])
    }

    /// The processes of living daemons.
    fn daemons(&self) -> Vec<u32> {
        let sessions = fs::read_dir(self.folder.join("ray")).into_iter().flatten().flatten();
        let pids = sessions.filter(|entry| !entry.file_type().unwrap().is_symlink());
        let pids = pids.filter_map(|entry| {
            fs::read_to_string(entry.path().join("node.pid")).ok()?.parse().ok()
        });
        pids.filter(|pid: &u32| is_alive(*pid)).collect()
    }

    fn latest(&self) -> PathBuf {
        fs::canonicalize(self.folder.join("ray/session_latest")).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.command(&["stop", "--force"]).output();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Said {
    #[track_caller]
    fn ok(self) -> Self {
        assert!(self.ok, "{}", self.text);
        self
    }

    #[track_caller]
    fn failed(self) -> Self {
        assert!(!self.ok, "it should have failed: {}", self.text);
        self
    }

    #[track_caller]
    fn says(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.text.contains(part), "{part:?} is not in: {}", self.text);
        }
        self
    }
}

fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| !matches!(rest.trim().chars().next(), None | Some('Z' | 'X')))
}

#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn kill(pid: u32, signal: &str) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn start_look_and_stop() {
    let place = Place::new("story");
    place.run(&["status"]).failed().says(&["Could not find any running Ray instance"]);
    place.run(&["stop"]).ok().says(&["Did not find any active Ray processes."]);
    let head = place.start_head().ok();
    let head = head.says(&[
        "Local node IP: ",
        "\nRay runtime started.\n",
        "Next steps",
        "ray start --address='",
        "import ray",
    ]);
    let address =
        head.text.split("--address='").nth(1).unwrap().split('\'').next().unwrap().to_owned();
    assert_eq!(fs::read_to_string(place.folder.join("ray/ray_current_cluster")).unwrap(), address);
    place.join(&address).ok().says(&["Ray runtime started.", "ray stop"]);
    wait_until("both nodes are in", || place.run(&["status"]).text.contains("0.0/5.0 CPU"));
    let loopback = format!("127.0.0.1:{}", place.port);
    let status = place.run(&["status", "-v", "--address", &loopback]).ok();
    status.says(&[
        "======== Autoscaler status: ",
        "Node status",
        "(no resource demands)",
        "\nNode: ",
        "  0.0/2.0 CPU",
    ]);
    assert_eq!(place.daemons().len(), 2);
    place.run(&["stop"]).ok().says(&["Stopped all 2 Ray processes."]);
    assert_eq!(place.daemons(), []);
    assert!(!place.folder.join("ray/ray_current_cluster").exists());
    assert!(
        !place.latest().join("sockets").exists() && !place.latest().join("control.redb").exists()
    );
    assert!(place.latest().join("logs/node.err").exists(), "logs stay");
}

/// AUTH-1: what opens the cluster is its owner's alone, and without it nothing answers.
#[test]
fn the_token_is_made_at_the_first_start_and_needed_after() {
    let place = Place::new("token");
    place.run(&["get-auth-token"]).failed().says(&["ray get-auth-token --generate"]);
    place.start_head().ok();
    let file = place.folder.join("home/.heliostat/auth_token");
    assert_eq!(mode(&file), 0o600);
    place.run(&["get-auth-token"]).ok().says(&[fs::read_to_string(&file).unwrap().trim()]);
    let session = place.latest();
    assert_eq!(
        [mode(&session), mode(&session.join("sockets")), mode(&session.join("auth_token"))],
        [0o700, 0o700, 0o600]
    );
    let address = format!("127.0.0.1:{}", place.port);
    for arguments in [&["status"][..], &["start", "--address", &address]] {
        let Output { status, stdout, stderr } =
            place.command(arguments).env("HELIOSTAT_AUTH_TOKEN", "wrong").output().unwrap();
        let text = String::from_utf8([stdout, stderr].concat()).unwrap();
        assert!(!status.success() && text.contains("authentication token"), "{text}");
    }
    assert_eq!(place.daemons().len(), 1, "and the stranger's daemon is gone");
}

/// AUTH-1: what the head prints brings another machine into the cluster, word for word, and without it
/// that machine makes no token of its own.
#[test]
fn the_printed_lines_join_from_another_machine() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new("other");
    let head = place.start_head().ok();
    let lines = head.text.lines().skip_while(|line| !line.contains("To add another node"));
    let lines: Vec<&str> = lines.skip(1).take(2).map(str::trim).collect();
    // The other machine: a home of its own, and a way to the first.
    let (home, bin) = (place.folder.join("other"), place.folder.join("bin"));
    fs::create_dir_all(&home).unwrap();
    fs::create_dir_all(&bin).unwrap();
    let programs = [
        ("ssh", "shift; exec \"$@\"".to_owned()),
        ("ray", format!("exec {} \"$@\"", env!("CARGO_BIN_EXE_heliostat"))),
    ];
    for (name, script) in programs {
        fs::write(bin.join(name), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let there = |script: &str| {
        let usual = place.command(&[]);
        let mut shell = Command::new("bash");
        for (name, value) in usual.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let shell = shell.args(["-ec", script]).env("HOME", &home).env("PATH", path);
        let Output { status, stdout, stderr } = shell.output().unwrap();
        Said { ok: status.success(), text: String::from_utf8([stdout, stderr].concat()).unwrap() }
    };
    there(lines[1]).failed().says(&["authentication token is missing", "HELIOSTAT_AUTH_TOKEN"]);
    assert!(!home.join(".heliostat").exists());
    there(&lines.join("\n")).ok().says(&["Ray runtime started."]);
    assert_eq!(place.daemons().len(), 2);
}

#[test]
fn a_taken_port_is_named_with_the_remedy() {
    let place = Place::new("taken");
    let other = TcpListener::bind(("0.0.0.0", place.port)).unwrap();
    let refused = place.start_head().failed();
    refused.says(&[&place.port.to_string(), "in use by another program", "`--port`"]);
    assert_eq!(place.daemons(), []);
    drop(other);
    place.start_head().ok();
    place.start_head().failed().says(&["already running at", "Please specify a different port"]);
    place.run(&["status"]).ok();
    assert_eq!(place.daemons().len(), 1);
}

#[test]
fn what_makes_no_sense_starts_nothing() {
    let place = Place::new("sense");
    let nowhere = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().to_string();
    for (arguments, said) in [
        (
            &["start"][..],
            "`--address` is a required flag unless starting a head node with `--head`.",
        ),
        (
            &["start", "--address=1.2.3.4:5", "--port=6"],
            "`--port` should only be specified when starting head node with `--head`.",
        ),
        (&["start", "--address=1.2.3.4"], "expected '<host>:<port>'"),
        (&["start", "--address", &nowhere], &nowhere),
        (&["start", "--head", "--resources={broken"], "--resources"),
        (&["start", "--head", "--labels=a"], "key=value"),
        (&["start", "--head", "--num-cpus=-1"], "--num-cpus"),
        (&["start", "--head", "--temp-dir=/proc/nowhere"], "/proc/nowhere"),
        (&["status", "--address", &nowhere], &nowhere),
    ] {
        let answer = place.run(arguments).failed().says(&[said]);
        assert!(!answer.text.contains("Ray runtime started."), "{}", answer.text);
    }
    assert_eq!(place.daemons(), []);
    let left = fs::read_dir(place.folder.join("ray")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "no folder of a session that never was is left");
}

/// STATE-2: the state of a head that was killed is taken up again on its port; `stop` gives it up.
#[test]
fn a_killed_head_is_taken_up_again() {
    let place = Place::new("killed");
    place.start_head().ok();
    let before = place.latest();
    let [pid] = place.daemons()[..] else { panic!("one daemon") };
    kill(pid, "-KILL");
    wait_until("it is gone", || place.daemons().is_empty());
    place.run(&["status"]).failed();
    place
        .start_head()
        .ok()
        .says(&["taken up again", before.file_name().unwrap().to_str().unwrap()]);
    assert_eq!(place.latest(), before);
    place.run(&["status"]).ok().says(&["0.0/2.0 CPU", "(no failures)"]);
    let [pid] = place.daemons()[..] else { panic!("one daemon") };
    kill(pid, "-KILL");
    wait_until("it is gone", || place.daemons().is_empty());
    place.run(&["stop"]).ok();
    let fresh = place.start_head().ok();
    assert!(!fresh.text.contains("taken up again"), "{}", fresh.text);
}

#[test]
fn block_stays_until_a_signal_or_the_daemons_death() {
    let place = Place::new("block");
    let start = || {
        let port = format!("--port={}", place.port);
        let mut command =
            place.command(&["start", "--head", "--block", &port, "--object-store-memory=80000000"]);
        // The daemon answers before the command knows that it does.
        let said = place.folder.join("said");
        let output = fs::File::create(&said).unwrap();
        let child = command.stdout(output).stderr(Stdio::piped()).spawn().unwrap();
        wait_until("it says that it runs", || {
            fs::read_to_string(&said).unwrap().contains("Ray runtime started")
        });
        child
    };
    for signal in ["-TERM", "-INT"] {
        let mut child = start();
        kill(child.id(), signal);
        assert!(child.wait().unwrap().success());
        assert_eq!(place.daemons(), []);
    }
    let child = start();
    kill(place.daemons()[0], "-KILL");
    let ended = child.wait_with_output().unwrap();
    let text = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(text.contains("exited unexpectedly") && text.contains("SIGKILL"), "{text}");
}

#[test]
fn sessions_elsewhere_are_stopped_as_well() {
    let place = Place::new("elsewhere");
    let elsewhere = place.folder.join("other place");
    let temp_dir = format!("--temp-dir={}", elsewhere.display());
    place.run(&["start", "--head", &format!("--port={}", place.port), &temp_dir]).ok();
    place.run(&["status"]).ok();
    place.run(&["stop"]).ok().says(&["Stopped all 1 Ray processes."]);
    place.run(&["status"]).failed();
}

/// Drivers that know nothing but the address find the daemon, wherever its session is.
#[test]
fn a_daemon_is_located_by_the_clusters_address() {
    let place = Place::new("locate");
    place.start_head().ok();
    let address = format!("127.0.0.1:{}", place.port);
    let elsewhere = place.folder.join("elsewhere");
    for tmpdir in [&place.folder, &elsewhere] {
        let Output { status, stdout, .. } = place
            .command(&["locate", "--address", &address])
            .env("RAY_TMPDIR", tmpdir)
            .output()
            .unwrap();
        let line = String::from_utf8(stdout).unwrap();
        assert!(status.success() && line.contains(place.latest().to_str().unwrap()), "{line}");
    }
}

/// The daemon as a driver's `init` starts it.
#[test]
fn a_daemon_without_its_driver_does_not_stay() {
    use std::io::{BufRead as _, BufReader};
    let place = Place::new("owned");
    let mut daemon =
        place.command(&["node", "--head", "--owner-driver", "--ready-fd=1", "--host=127.0.0.1"]);
    let mut daemon = daemon.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut line).unwrap();
    for field in
        ["session_dir", "session_name", "node_id", "host", "port", "control_address", "node_socket"]
    {
        assert!(line.contains(&format!("\"{field}\":")), "{field} is not in {line}");
    }
    assert!(!place.latest().join("control.redb").exists(), "its state ends with it");
    kill(daemon.id(), "-TERM");
    assert!(daemon.wait().unwrap().success());
    let refused =
        place.command(&["node", "--head", "--ready-fd=1", "--labels=-"]).output().unwrap();
    assert!(String::from_utf8(refused.stdout).unwrap().starts_with("{\"error\":"));
}

#[test]
fn the_version_is_that_of_the_api() {
    let place = Place::new("version");
    place.run(&["--version"]).ok().says(&["ray version 2.60.0"]);
    place.run(&["--help"]).ok().says(&["start", "stop", "status"]);
    place.run(&["start", "--help"]).ok().says(&["--head", "--port", "--address", "--block"]);
}
