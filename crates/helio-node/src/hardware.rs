//! Reads what the machine uses from time to time, for whoever asks the daemon for its processes.

use std::time::{Duration, Instant};

use helio_env::usage::{self, Machine};
use helio_node_state::Event;
use helio_proto::inspect::MachineUse;

use crate::input::Inputs;

/// Time between two readings, which take some 100 µs.
const READ_EVERY: Duration = Duration::from_secs(5);

/// Reads the machine for as long as the daemon lives.
pub(crate) async fn watch(inputs: Inputs) {
    let mut before = (Instant::now(), usage::machine());
    loop {
        tokio::time::sleep(READ_EVERY).await;
        let now = (Instant::now(), usage::machine());
        let told = wire(&before.1, &now.1, now.0 - before.0);
        before = now;
        if inputs.send(Event::MachineRead(told).into()).await.is_err() {
            return;
        }
    }
}

fn wire(before: &Machine, now: &Machine, passed: Duration) -> MachineUse {
    let rate = |of: fn(&Machine) -> u64| {
        (of(now).saturating_sub(of(before)) as f64 / passed.as_secs_f64()) as u64
    };
    let all = now.cpu_all - before.cpu_all;
    let busy = (now.cpu_busy - before.cpu_busy) / all;
    MachineUse {
        cpus: now.cpus as u32,
        // A clock that stood still makes no number of it.
        cpu_permille: if all > 0.0 { (1000.0 * busy).clamp(0.0, 1000.0).round() as u32 } else { 0 },
        memory: now.memory_total,
        memory_used: now.memory_total.saturating_sub(now.memory_available),
        disk_read_per_s: rate(|machine| machine.disk.read_bytes),
        disk_written_per_s: rate(|machine| machine.disk.written_bytes),
        received_per_s: rate(|machine| machine.received),
        sent_per_s: rate(|machine| machine.sent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_readings_make_rates() {
        let before = Machine { cpu_all: 10.0, cpu_busy: 4.0, received: 500, ..Machine::default() };
        let now = Machine {
            cpus: 2,
            cpu_all: 20.0,
            cpu_busy: 6.5,
            memory_total: 100,
            memory_available: 30,
            received: 1500,
            ..before
        };
        let told = wire(&before, &now, Duration::from_secs(5));
        assert_eq!((told.cpus, told.cpu_permille), (2, 250));
        assert_eq!((told.memory, told.memory_used, told.received_per_s), (100, 70, 200));
        assert_eq!(wire(&now, &now, Duration::from_secs(5)).cpu_permille, 0);
    }
}
