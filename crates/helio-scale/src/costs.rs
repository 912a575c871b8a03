//! The cost model: what surrounds the machine, in nanoseconds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::idle::Idle;

/// The costs of operations on one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// When and where they were measured.
    pub origin: String,
    /// CPU of a process that is awake to read and decode a message that comes alone, whatever its length.
    pub receive_ns: u64,
    /// CPU for each byte of a message that is read and decoded.
    pub decode_byte_ns: f64,
    /// CPU to encode and write a message that is alone on its connection, whatever its length.
    pub send_ns: u64,
    /// CPU for each byte of a message that is encoded and written.
    pub byte_ns: f64,
    /// CPU for each byte of a message that is written and was encoded before.
    pub copy_byte_ns: f64,
    /// The way of a message from one process to another.
    pub latency_ns: u64,
    /// Making a batch of changes durable: the control service waits for it.
    pub commit_ns: u64,
    /// From a node's order to start an actor to the actor's first answer.
    pub actor_start_ns: u64,
    /// The cost of idle nodes for a real control service, by their number.
    pub idle: Vec<Idle>,
    /// Between which values half of the measurements of a constant lay, by its name.
    pub spread: BTreeMap<String, (f64, f64)>,
}

impl Costs {
    /// Round figures of the size that was measured, for runs that assert counts only.
    #[must_use]
    pub fn rough() -> Self {
        Self {
            origin: "round figures".to_owned(),
            receive_ns: 5_000,
            decode_byte_ns: 1.0,
            send_ns: 5_000,
            byte_ns: 1.0,
            copy_byte_ns: 0.5,
            latency_ns: 50_000,
            commit_ns: 1_000_000,
            actor_start_ns: 10_000_000,
            idle: Vec::new(),
            spread: BTreeMap::new(),
        }
    }

    /// The constants by name, with their meaning.
    #[must_use]
    pub fn rows(&self) -> Vec<(&'static str, f64, &'static str)> {
        vec![
            (
                "receive_ns",
                self.receive_ns as f64,
                "CPU to read and decode a message, each on a connection of its own",
            ),
            ("decode_byte_ns", self.decode_byte_ns, "and for each byte of it"),
            (
                "send_ns",
                self.send_ns as f64,
                "CPU to encode and write a message, each on a connection of its own",
            ),
            ("byte_ns", self.byte_ns, "and for each byte of it"),
            ("copy_byte_ns", self.copy_byte_ns, "the same when it was encoded before"),
            ("latency_ns", self.latency_ns as f64, "the way of a message between two processes"),
            ("commit_ns", self.commit_ns as f64, "making a batch of changes durable"),
            (
                "actor_start_ns",
                self.actor_start_ns as f64,
                "from the creation of an actor to its first answer, with what else ran there",
            ),
        ]
    }

    /// Sets the constant of that name.
    pub(crate) fn set(&mut self, name: &str, value: f64) {
        match name {
            "receive_ns" => self.receive_ns = value as u64,
            "decode_byte_ns" => self.decode_byte_ns = value,
            "send_ns" => self.send_ns = value as u64,
            "byte_ns" => self.byte_ns = value,
            "copy_byte_ns" => self.copy_byte_ns = value,
            "latency_ns" => self.latency_ns = value as u64,
            "commit_ns" => self.commit_ns = value as u64,
            "actor_start_ns" => self.actor_start_ns = value as u64,
            _ => {}
        }
    }

    /// The text of the file.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::from(
            "# What surrounds the control service's machine costs, measured on real processes by\n\
             # `cargo xtask scale --measure`. Nanoseconds: the median, and between which values half of the\n\
             # measurements lay. `idle NODES`: a second without heartbeats, a heartbeat that comes alone, one of all\n\
             # nodes' that come at once.\n",
        );
        let _ = writeln!(text, "origin = {}", self.origin);
        for (name, value, _) in self.rows() {
            let _ = write!(text, "{name} = {value}");
            if let Some((low, high)) = self.spread.get(name) {
                let _ = write!(text, " {low} {high}");
            }
            text.push('\n');
        }
        for idle in &self.idle {
            let Idle { n_nodes, ticks_ns, beat_ns, gathered_ns } = idle;
            let _ = writeln!(text, "idle {n_nodes} = {ticks_ns:.0} {beat_ns:.0} {gathered_ns:.0}");
        }
        text
    }

    /// Reads the file.
    ///
    /// # Errors
    /// When it is not there, or a constant is missing or no number.
    pub fn load(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            format!("{}: {error}: write it with `cargo xtask scale --measure`", path.display())
        })?;
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let entries: BTreeMap<&str, &str> =
            lines.filter_map(|line| line.split_once(" = ")).collect();
        let numbers = |name: &str| {
            let words = entries.get(name).into_iter().flat_map(|value| value.split(' '));
            words.map_while(|word| word.parse::<f64>().ok()).collect::<Vec<f64>>()
        };
        let number = |name: &str| {
            let value = numbers(name).first().copied();
            value.ok_or_else(|| format!("{}: {name} is missing or no number", path.display()))
        };
        let spread = entries.keys().filter_map(|name| match numbers(name)[..] {
            [_, low, high] if !name.starts_with("idle ") => Some(((*name).to_owned(), (low, high))),
            _ => None,
        });
        let mut idle = Vec::new();
        for (name, value) in &entries {
            let Some(n_nodes) = name.strip_prefix("idle ") else { continue };
            let values: Option<Vec<f64>> =
                value.split(' ').map(|number| number.parse().ok()).collect();
            match (n_nodes.parse(), values.as_deref()) {
                (Ok(n_nodes), Some(&[ticks_ns, beat_ns, gathered_ns])) => {
                    idle.push(Idle { n_nodes, ticks_ns, beat_ns, gathered_ns });
                }
                _ => return Err(format!("{}: {name} has not three numbers", path.display())),
            }
        }
        idle.sort_unstable_by_key(|one| one.n_nodes);
        Ok(Self {
            spread: spread.collect(),
            idle,
            origin: entries.get("origin").map(|text| (*text).to_owned()).unwrap_or_default(),
            receive_ns: number("receive_ns")? as u64,
            decode_byte_ns: number("decode_byte_ns")?,
            send_ns: number("send_ns")? as u64,
            byte_ns: number("byte_ns")?,
            copy_byte_ns: number("copy_byte_ns")?,
            latency_ns: number("latency_ns")? as u64,
            commit_ns: number("commit_ns")? as u64,
            actor_start_ns: number("actor_start_ns")? as u64,
        })
    }
}
