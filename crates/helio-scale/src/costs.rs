//! The cost model: what surrounds the machine, in nanoseconds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::idle::Idle;
use crate::spread::Spread;

/// The costs of operations on one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// The time and the machine of the measurements.
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
    pub spread: BTreeMap<String, Spread>,
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
             # measurements lay. `idle NODES`, each with these three: a second without heartbeats, a heartbeat that\n\
             # comes alone, one of all nodes' that come at once.\n",
        );
        let _ = writeln!(text, "origin = {}", self.origin);
        for (name, value, _) in self.rows() {
            let _ = write!(text, "{name} = {value}");
            if let Some(Spread { low, high, .. }) = self.spread.get(name) {
                let _ = write!(text, " {low} {high}");
            }
            text.push('\n');
        }
        for idle in &self.idle {
            let _ = write!(text, "idle {} =", idle.n_nodes);
            for Spread { middle, low, high } in [idle.ticks_ns, idle.beat_ns, idle.gathered_ns] {
                let _ = write!(text, " {middle:.0} {low:.0} {high:.0}");
            }
            text.push('\n');
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
            // `origin` is no number; its list is empty.
            words.map_while(|word| word.parse::<f64>().ok()).collect::<Vec<f64>>()
        };
        let number = |name: &str| {
            let value = numbers(name).first().copied();
            value.ok_or_else(|| format!("{}: {name} is missing or no number", path.display()))
        };
        let spread = entries.keys().filter_map(|name| match numbers(name)[..] {
            [middle, low, high] if !name.starts_with("idle ") => {
                Some(((*name).to_owned(), Spread { middle, low, high }))
            }
            _ => None,
        });
        let mut idle = Vec::new();
        for name in entries.keys() {
            let Some(n_nodes) = name.strip_prefix("idle ") else { continue };
            let numbers = numbers(name);
            let figures: Vec<Spread> = match numbers.len() {
                // Measured before the spread was told.
                3 => numbers.iter().map(|middle| Spread::of([*middle])).collect(),
                _ => numbers
                    .chunks_exact(3)
                    .map(|one| Spread { middle: one[0], low: one[1], high: one[2] })
                    .collect(),
            };
            match (n_nodes.parse(), &figures[..]) {
                (Ok(n_nodes), &[ticks_ns, beat_ns, gathered_ns]) => {
                    idle.push(Idle { n_nodes, ticks_ns, beat_ns, gathered_ns });
                }
                _ => {
                    return Err(format!(
                        "{}: {name} has neither nine numbers nor three",
                        path.display()
                    ));
                }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_was_measured_is_read_as_it_was_written() {
        let file = std::env::temp_dir().join(format!("scale-costs-{}", std::process::id()));
        let spread = |middle| Spread { middle, low: middle - 1.0, high: middle + 2.0 };
        let [ticks_ns, beat_ns, gathered_ns] = [7.0, 5.0, 3.0].map(spread);
        let mut costs = Costs::rough();
        costs.idle = vec![Idle { n_nodes: 10, ticks_ns, beat_ns, gathered_ns }];
        costs.spread.insert("commit_ns".to_owned(), spread(costs.commit_ns as f64));
        std::fs::write(&file, costs.text()).unwrap();
        let read = Costs::load(&file);
        let without = costs.text().replace("7 6 9 5 4 7 3 2 5", "7 5 3");
        std::fs::write(&file, without).unwrap();
        let older = Costs::load(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(read.unwrap(), costs);
        assert_eq!(older.idle[0].beat_ns, Spread { middle: 5.0, low: 5.0, high: 5.0 });
    }
}
