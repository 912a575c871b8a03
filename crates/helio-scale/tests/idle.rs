//! Heartbeats of pretended nodes reach a real control service in a process of its own.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::time::Duration;

use helio_scale::idle::{Cluster, Plan};

/// Each node registers, and its heartbeat is answered: what is measured is what was meant.
#[test]
fn every_heartbeat_reaches_the_real_service_and_is_answered() {
    let program = Path::new(env!("CARGO_BIN_EXE_helio-scale"));
    let plan = Plan { seconds: 0, readings: 1, quiet: Duration::from_millis(50) };
    let mut cluster = Cluster::start(program, 7, plan).unwrap();
    assert_eq!(cluster.be_answered().unwrap(), 7);
}
