//! The usage of each machine: two hours in steps of ten seconds, and a week in steps of five minutes.
//!
//! **LIMIT-1** Two files a machine, of [`MACHINES_MAX`] machines at most; those of machines that were not there for a week are
//! removed when a head begins.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use helio_proto::control::NodeInfo;
use helio_proto::inspect::{Answer, MachineUse};
use helio_types::NodeId;

use crate::answers::figures::Curves;

use super::ring::Ring;
use super::spans::{Span, curves};

/// The names of the columns: percent, bytes, bytes a second; what is not known is not a number.
pub(crate) const COLUMNS: [&str; 12] = [
    "cpu_percent",
    "memory",
    "memory_used",
    "disk_read_per_s",
    "disk_written_per_s",
    "received_per_s",
    "sent_per_s",
    "gpu_percent",
    "gpu_memory",
    "gpu_memory_used",
    "cpus_used",
    "object_store_used",
];

const FOLDER: &str = "machines";
/// Seconds of a row, and the number of rows.
const FINE: (u64, u64) = (10, 720);
const COARSE: (u64, u64) = (300, 2016);
pub(super) const MACHINES_MAX: usize = 750;
/// The size limit of all files together, in bytes.
pub(super) const BYTES_MAX: u64 = {
    let row = 8 + 4 * COLUMNS.len() as u64 + 4;
    MACHINES_MAX as u64 * (2 * 4096 + (FINE.1 + COARSE.1) * row)
};
/// The number of machines that are asked a second; with more machines rows are as much rarer.
const MACHINES_A_SECOND: usize = 100;
const KEPT: Duration = Duration::from_secs(8 * 24 * 3600);

/// The recorded use of each machine: a folder of files, and the spans that are not written yet.
#[derive(Debug)]
pub(crate) struct Machines {
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: Option<Instant>,
    spans: HashMap<NodeId, Span>,
    is_told: bool,
}

impl Machines {
    /// Makes the folder, and removes what is too old.
    pub(super) fn begin(folder: &Path) -> io::Result<()> {
        let folder = folder.join(FOLDER);
        std::fs::create_dir_all(&folder)?;
        for entry in std::fs::read_dir(folder)?.flatten() {
            let age = entry.metadata().and_then(|found| found.modified()).map(|at| at.elapsed());
            if matches!(age, Ok(Ok(age)) if age > KEPT) {
                std::fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    pub(super) fn in_folder(folder: &Path) -> Self {
        Self { folder: folder.join(FOLDER), state: Mutex::default() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is time for the next row.
    pub(super) fn is_due(&self, machines: usize) -> bool {
        let every = FINE.0.max((machines / MACHINES_A_SECOND) as u64);
        let mut state = self.lock();
        let now = Instant::now();
        let is_due = state.next.is_none_or(|next| next <= now);
        if is_due {
            state.next = Some(now + Duration::from_secs(every));
        }
        is_due
    }

    /// Adds a row for each node that is alive, of what its daemon has told.
    pub(super) fn add(&self, second: u64, nodes: &[NodeInfo], told: &[Answer]) {
        let used: BTreeMap<NodeId, &MachineUse> =
            told.iter().map(|answer| (answer.node_id, &answer.machine)).collect();
        let mut state = self.lock();
        for node in nodes.iter().filter(|node| node.alive && !node.is_guest) {
            let id = node.address.node_id;
            if !state.spans.contains_key(&id) && state.spans.len() >= MACHINES_MAX {
                if !std::mem::replace(&mut state.is_told, true) {
                    tracing::warn!("of more than {MACHINES_MAX} machines no past is kept");
                }
                continue;
            }
            let values = row(node, used.get(&id).copied());
            let over = state.spans.entry(id).or_default().add(second / COARSE.0, &values);
            let written = self
                .ring(&id.hex(), FINE, true)
                .and_then(|ring| ring.write(second / FINE.0, &values))
                .and_then(|()| match over {
                    Some((number, means)) => {
                        self.ring(&id.hex(), COARSE, true)?.write(number, &means)
                    }
                    None => Ok(()),
                });
            if let Err(error) = written
                && !std::mem::replace(&mut state.is_told, true)
            {
                tracing::warn!(%error, "what machines use is not kept");
            }
        }
    }

    fn ring(&self, id: &str, (unit, rows): (u64, u64), is_new: bool) -> io::Result<Ring> {
        let path = self.folder.join(format!("{id}.{unit}"));
        match is_new {
            true => Ring::open(&path, &COLUMNS, rows),
            false => Ring::read_only(&path, &COLUMNS, rows),
        }
    }

    /// The curves of a machine; none: nothing is known of it.
    pub(crate) fn curves(
        &self,
        id: NodeId,
        from: u64,
        to: u64,
        points: u64,
        now: u64,
    ) -> Option<Curves> {
        let of = if from + FINE.0 * FINE.1 < now { COARSE } else { FINE };
        let ring = self.ring(&id.hex(), of, false).ok()?;
        Some(curves(&ring, of.0, &COLUMNS, from, to, points))
    }
}

fn row(node: &NodeInfo, used: Option<&MachineUse>) -> Vec<f32> {
    let known = |of: fn(&MachineUse) -> f64| used.filter(|used| used.cpus > 0).map_or(f64::NAN, of);
    let busy = node.gpus.iter().filter(|gpu| gpu.has_utilization);
    let busy: Vec<f64> = busy.map(|gpu| f64::from(gpu.utilization)).collect();
    let gpus = |of: fn(&helio_proto::control::GpuUse) -> u64| match node.gpus.is_empty() {
        true => f64::NAN,
        false => node.gpus.iter().map(|gpu| of(gpu) as f64).sum(),
    };
    let cpus = node.total.get("CPU").to_f64() - node.available.get("CPU").to_f64();
    let values = [
        known(|used| f64::from(used.cpu_permille) / 10.0),
        known(|used| used.memory as f64),
        known(|used| used.memory_used as f64),
        known(|used| used.disk_read_per_s as f64),
        known(|used| used.disk_written_per_s as f64),
        known(|used| used.received_per_s as f64),
        known(|used| used.sent_per_s as f64),
        busy.iter().sum::<f64>() / busy.len() as f64,
        gpus(|gpu| gpu.memory_total),
        gpus(|gpu| gpu.memory_used),
        cpus,
        node.object_store_used as f64,
    ];
    values.map(|value| value as f32).to_vec()
}

#[cfg(test)]
mod tests {
    use helio_types::NodeAddress;

    use super::*;

    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn node(id: u8) -> NodeInfo {
        let address = NodeAddress { node_id: NodeId([id; NodeId::LEN]), ..NodeAddress::default() };
        NodeInfo { address, alive: true, ..NodeInfo::default() }
    }

    #[test]
    fn each_machine_has_two_hours_and_a_week() {
        let path = std::env::temp_dir().join(format!("machines-{}", std::process::id()));
        let folder = Folder(path);
        Machines::begin(&folder.0).unwrap();
        let machines = Machines::in_folder(&folder.0);
        assert!(machines.is_due(2) && !machines.is_due(2));
        let now = 1_800_000_000;
        let begun = now - 3 * 3600;
        let told = |permille| Answer {
            node_id: NodeId([1; NodeId::LEN]),
            machine: MachineUse { cpus: 4, cpu_permille: permille, ..MachineUse::default() },
            ..Answer::default()
        };
        for second in (begun..now).step_by(10) {
            let dead = NodeInfo { alive: false, ..node(3) };
            machines.add(second, &[node(1), node(2), dead], &[told((second / 300 % 100) as u32)]);
        }
        let of = |id: u8, from: u64, points| {
            machines.curves(NodeId([id; NodeId::LEN]), from, now - 1, points, now)
        };
        let hour = of(1, now - 3600, 360).unwrap();
        assert_eq!((hour.every_s, hour.at.len()), (10, 360));
        let cpu = |told: &Curves, at: usize| told.series["cpu_percent"][at];
        let at = hour.at[5];
        assert!((cpu(&hour, 5).unwrap() - (at / 300 % 100) as f64 / 10.0).abs() < 1e-3);
        // Older moments are known in steps of five minutes.
        let day = of(1, now - 24 * 3600, 1000).unwrap();
        assert_eq!((day.every_s, day.at.len()), (300, 35));
        // Of a daemon that did not tell only what the head knows.
        let other = of(2, now - 3600, 360).unwrap();
        assert_eq!((cpu(&other, 5), other.series["cpus_used"][5]), (None, Some(0.0)));
        assert!(of(3, now - 3600, 360).is_none(), "it was not there");
        let files = std::fs::read_dir(folder.0.join(FOLDER)).unwrap().flatten();
        let bytes: u64 = files.map(|file| file.metadata().unwrap().len()).sum();
        assert!(bytes <= 2 * BYTES_MAX / MACHINES_MAX as u64, "{bytes}");
    }
}
