//! The constants of the cost model, measured on real processes of this machine.
//!
//! The cost of a message is that for a real control service ([`crate::idle`]), less the machine's part;
//! what its bytes cost, and how long it takes, is measured between two processes over TCP, encoded and
//! decoded as everywhere. Changes go into the durable store; actors are started by Heliostat itself. CPU
//! times are those of a thread or process, so that other work on the machine does not count; the waits do contain it.
//! Of each the median is taken, and the spread is told.

use std::collections::BTreeMap;
use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use helio_control_state::{Control, Event};
use helio_proto::cluster::{ClusterView, NodeStatus, NodeToControl, RegisterNode, StatusUnchanged};
use helio_proto::control::NodeInfo;
use helio_proto::{decode, encode};
use helio_storage::{Change, Embedded, Storage};
use helio_types::{NodeAddress, NodeId, ResourceSet};

use crate::costs::Costs;
use crate::idle::{self, Idle, Message, Plan};
use crate::nodes::{cpu_ns, describe, node_id};
use crate::spread::Spread;

const MESSAGES: u64 = 20_000;
const ROUND_TRIPS: u64 = 2_000;
const COMMITS: usize = 200;
const MACHINE_ROUNDS: usize = 101;
/// Number of repetitions of a measurement without a spread of its own.
const RUNS: usize = 5;

/// The sizes of idle clusters that are measured.
const IDLE_NODES: [usize; 4] = [10, 100, MESSAGE_NODES, 10_000];
/// The number of nodes with which a message is measured.
const MESSAGE_NODES: usize = 1_000;

/// Starts Heliostat and prints how long actors take to answer, in nanoseconds.
const ACTORS: &str = "
import time
import heliostat as ray
ray.init(num_cpus=4)
@ray.remote
class A:
    def ready(self): return True
ray.get(A.remote().ready.remote())
times = []
for _ in range(20):
    began = time.perf_counter_ns()
    actor = A.remote()
    ray.get(actor.ready.remote())
    times.append(time.perf_counter_ns() - began)
    del actor
    time.sleep(0.2)
print(*times)
ray.shutdown()
";

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

fn info(number: u8) -> NodeInfo {
    let units =
        [("CPU", 64.0), ("memory", 1e11), ("object_store_memory", 1e10), ("node:10.0.0.1", 1.0)];
    NodeInfo {
        address: NodeAddress {
            node_id: NodeId([number; NodeId::LEN]),
            host: "10.0.0.1".to_owned(),
            port: 6379,
        },
        alive: true,
        total: ResourceSet::from_units(units),
        available: ResourceSet::from_units(units),
        name: "10.0.0.1".to_owned(),
        hostname: "10.0.0.1".to_owned(),
        ..NodeInfo::default()
    }
}

fn write(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    let mut frame = Vec::with_capacity(bytes.len() + 4);
    frame.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    frame.extend_from_slice(bytes);
    stream.write_all(&frame)
}

fn read(stream: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The other process: reads messages, answers with the CPU time that short and long ones took, then
/// echoes.
///
/// # Errors
/// When the connection fails.
pub fn serve(port: u16) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    // Short messages would wait for one another, and the wait would be taken for the way.
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    for _ in 0..2 {
        let began = cpu_ns();
        for _ in 0..MESSAGES {
            let bytes = read(&mut reader)?;
            decode::<NodeToControl>(&bytes).map_err(|_| std::io::ErrorKind::InvalidData)?;
        }
        let each = (cpu_ns() - began) / MESSAGES;
        write(&mut stream, &each.to_le_bytes())?;
    }
    for _ in 0..2 * (MESSAGES / 10) {
        read(&mut reader)?;
    }
    for _ in 0..ROUND_TRIPS {
        let bytes = read(&mut reader)?;
        write(&mut stream, &bytes)?;
    }
    Ok(())
}

/// Measures everything.
///
/// # Errors
/// When a process or the store fails.
pub fn measure(origin: &str, python: &Path) -> Result<Costs, String> {
    let mut measured: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    // Runs, not repetitions within one: what a run lies near to in memory is a part of the spread.
    for _ in 0..RUNS {
        let bytes = messages().map_err(|error| format!("messages between processes: {error}"))?;
        measured.entry("decode_byte_ns").or_default().push(bytes.decode_byte_ns);
        measured.entry("byte_ns").or_default().push(bytes.byte_ns);
        measured.entry("copy_byte_ns").or_default().push(bytes.copy_byte_ns);
        measured.entry("latency_ns").or_default().push(bytes.latency_ns as f64);
    }
    let (idle, messages) = at_rest()?;
    for message in messages {
        let machine = machine();
        // The cost model adds the machine's part again, as it is measured in each run.
        let (receive_ns, send_ns) =
            (message.receive_ns - machine.receive_ns, message.answer_ns - machine.answer_ns);
        measured.entry("receive_ns").or_default().push(receive_ns.max(0.0).round());
        measured.entry("send_ns").or_default().push(send_ns.max(0.0).round());
    }
    measured.insert("commit_ns", commits()?);
    let actors = Command::new(python).args(["-c", ACTORS]).output();
    let actors = actors.map_err(|error| format!("{}: {error}", python.display()))?;
    let text = String::from_utf8_lossy(&actors.stdout);
    // A warning of the library may stand before the line with the times.
    let starts = text.lines().last().unwrap_or_default().split(' ');
    let starts: Result<Vec<f64>, _> = starts.map(str::parse).collect();
    let starts = starts.map_err(|_| {
        format!("actors could not be measured: {}", String::from_utf8_lossy(&actors.stderr))
    })?;
    measured.insert("actor_start_ns", starts);
    let mut costs = Costs { origin: origin.to_owned(), idle, ..Costs::rough() };
    for (name, values) in measured {
        let spread = Spread::of(values);
        costs.spread.insert(name.to_owned(), spread);
        costs.set(name, spread.middle);
    }
    Ok(costs)
}

/// Idle clusters of each size, and what a message costs in one of [`MESSAGE_NODES`], as often as it was measured.
fn at_rest() -> Result<(Vec<Idle>, Vec<Message>), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let nodes_max = idle::nodes_max();
    let mut all = Vec::new();
    let mut messages = Vec::new();
    for n_nodes in IDLE_NODES {
        if n_nodes > nodes_max {
            eprintln!(
                "{n_nodes} idle nodes are left out: a process may have descriptors for {nodes_max} (`ulimit -Hn`)"
            );
            continue;
        }
        eprintln!("{n_nodes} idle nodes");
        let mut cluster = idle::Cluster::start(&program, n_nodes, Plan::long())?;
        let measured = cluster.idle()?;
        if n_nodes == MESSAGE_NODES {
            for _ in 0..RUNS {
                messages.push(cluster.message(measured.gathered_ns.middle)?);
            }
        }
        eprintln!("{measured:?}");
        all.push(measured);
    }
    Ok((all, messages))
}

/// The machine's part in what a message costs.
fn machine() -> Message {
    let mut control = Control::new("session");
    let mut now_us = 1_000_000_000;
    for number in 0..MESSAGE_NODES {
        let info = describe(number);
        let message = RegisterNode { info, ..RegisterNode::default() }.into();
        drop(control.apply(Event::Node { node_id: node_id(number), message }, now_us));
    }
    let mut round = |after_us: u64| {
        now_us += after_us;
        drop(control.apply(Event::Tick, now_us));
        let began = cpu_ns();
        for number in 0..MESSAGE_NODES {
            let message = StatusUnchanged::default().into();
            drop(control.apply(Event::Node { node_id: node_id(number), message }, now_us));
        }
        (cpu_ns() - began) as f64 / MESSAGE_NODES as f64
    };
    // A heartbeat soon after another one is not answered.
    let rounds: Vec<(f64, f64)> =
        (0..MACHINE_ROUNDS).map(|_| (round(1_000_000), round(1_000))).collect();
    let answered = median(rounds.iter().map(|(ns, _)| *ns as u64).collect()) as f64;
    let receive_ns = median(rounds.iter().map(|(_, ns)| *ns as u64).collect()) as f64;
    Message { receive_ns, answer_ns: answered - receive_ns }
}

/// The constants of bytes, and of the way of a message; the others are those of [`Costs::rough`].
fn messages() -> std::io::Result<Costs> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port().to_string();
    let mut other = Command::new(std::env::current_exe()?)
        .args(["serve", &port])
        .stdin(Stdio::null())
        .spawn()?;
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);

    let short = NodeToControl::Unchanged(StatusUnchanged { sent_ms: 1 << 30 });
    let status = NodeToControl::Status(NodeStatus { info: info(1), sent_ms: 1 << 30 });
    let mut sends = [0; 2];
    let mut receives = [0; 2];
    for (message, (send, receive)) in
        [&short, &status].into_iter().zip(sends.iter_mut().zip(&mut receives))
    {
        let began = cpu_ns();
        for _ in 0..MESSAGES {
            write(&mut stream, &encode(message))?;
        }
        *send = (cpu_ns() - began) / MESSAGES;
        let answer = read(&mut reader)?;
        *receive = answer.try_into().map(u64::from_le_bytes).unwrap_or(0);
    }
    let [send_ns, _] = sends;
    let [receive_ns, receive_status_ns] = receives;
    let more = (encode(&status).len() - encode(&short).len()) as f64;
    let decode_byte_ns = receive_status_ns.saturating_sub(receive_ns) as f64 / more;

    let view = ClusterView { nodes: (0..32).map(info).collect() };
    let encoded = encode(&view);
    let each_byte = |stream: &mut TcpStream, write_one: &dyn Fn(&mut TcpStream) -> _| {
        let began = cpu_ns();
        for _ in 0..MESSAGES / 10 {
            write_one(stream)?;
        }
        // A view is a hundred times as long as a status, so a tenth of them will do.
        let each_ns = (cpu_ns() - began) / (MESSAGES / 10);
        std::io::Result::Ok(each_ns.saturating_sub(send_ns) as f64 / encoded.len() as f64)
    };
    let byte_ns = each_byte(&mut stream, &|stream| write(stream, &encode(&view)))?;
    let copy_byte_ns = each_byte(&mut stream, &|stream| write(stream, &encoded))?;

    let mut trips = Vec::new();
    for _ in 0..ROUND_TRIPS {
        let began = Instant::now();
        write(&mut stream, &encode(&status))?;
        read(&mut reader)?;
        trips.push(began.elapsed().as_nanos() as u64);
    }
    other.wait()?;
    Ok(Costs {
        decode_byte_ns,
        byte_ns,
        copy_byte_ns,
        // There and back.
        latency_ns: median(trips) / 2,
        ..Costs::rough()
    })
}

fn commits() -> Result<Vec<f64>, String> {
    let folder = std::env::temp_dir().join(format!("helio-scale-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut times = Vec::new();
    let mut store = Embedded::open(&folder.join("state")).map_err(|error| error.to_string())?;
    for number in 0..COMMITS {
        let change = |part: u8| Change {
            key: [&number.to_be_bytes()[..], &[part]].concat(),
            value: Some(vec![part; 500]),
        };
        let changes: Vec<Change> = (0..10).map(change).collect();
        let began = Instant::now();
        store.commit(&changes).map_err(|error| error.to_string())?;
        times.push(began.elapsed().as_nanos() as f64);
    }
    drop(store);
    std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(times)
}
