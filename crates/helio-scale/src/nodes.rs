//! The simulated nodes: their ids, hosts and resources; and the clock that measures them.

use helio_proto::control::NodeInfo;
use helio_types::{NodeAddress, NodeId, ResourceSet};
use rustix::time::{ClockId, clock_gettime};

/// The CPUs of a node.
pub(crate) const NODE_CPUS: f64 = 64.0;

/// The id of that node.
pub(crate) fn node_id(number: usize) -> NodeId {
    let mut bytes = [1; NodeId::LEN];
    // Ids are random in life: neighbours here are not neighbours in the order of ids.
    let mixed = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bytes[..8].copy_from_slice(&mixed.to_be_bytes());
    NodeId(bytes)
}

/// The CPU time of this thread.
pub(crate) fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the status of a node that has nothing to do.
pub(crate) fn describe(number: usize) -> NodeInfo {
    let gib = f64::from(1 << 30);
    let node_resource = format!("node:{}", host(number));
    let resources = |store: f64| {
        ResourceSet::from_units([
            ("CPU", NODE_CPUS),
            ("memory", 256.0 * gib),
            ("object_store_memory", store),
            (node_resource.as_str(), 1.0),
        ])
    };
    NodeInfo {
        address: NodeAddress { node_id: node_id(number), host: host(number), port: 6379 },
        alive: true,
        total: resources(64.0 * gib),
        // No two nodes are alike, as in life: placement by the free memory has no ties.
        available: resources(64.0 * gib - number as f64),
        name: host(number),
        hostname: host(number),
        session_dir: "/tmp/heliostat/session_2026-01-01_00-00-00_000000_1".to_owned(),
        version: 1,
        workers: 8,
        ..NodeInfo::default()
    }
}

/// The address of a node.
pub(crate) fn host(number: usize) -> String {
    format!("10.{}.{}.{}", number / 62_500, number / 250 % 250, number % 250 + 1)
}
