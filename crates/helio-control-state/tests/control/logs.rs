//! A driver that ends waits for all lines of its workers, wherever they ran.

use helio_proto::cluster::{ControlToNode, FlushJobLogs, JobLogs, JobLogsFlushed};
use helio_proto::node::{LogLine, LogLines, NodeToClient};

use crate::harness::{Harness, job, node, worker};

const CPUS: &[(&str, f64)] = &[("CPU", 1.0)];

impl Harness {
    /// Driver 1 asks; returns the nodes that are asked in turn.
    fn flush_logs(&mut self) -> Vec<u8> {
        let (job_id, driver) = (job(1), worker(1));
        self.say(1, FlushJobLogs { job_id, driver, request_id: 7, node_id: node(1) });
        self.take(|to, message| matches!(message, ControlToNode::FlushLogs(_)).then_some(to.0[0]))
    }

    fn flushed(&mut self, number: u8) {
        let (driver, node_id) = (worker(1), node(1));
        self.say(number, JobLogsFlushed { driver, request_id: 7, node_id });
    }

    /// Takes the messages to driver 1, in order: lines, and the numbers of requests that were answered.
    fn told(&mut self) -> Vec<Result<String, u64>> {
        self.take(|to, message| match message {
            ControlToNode::ToClient(to_client) if to == node(1) => match &to_client.message {
                NodeToClient::LogLines(lines) => Some(Ok(lines.lines[0].text.clone())),
                NodeToClient::LogsFlushed(flushed) => Some(Err(flushed.request_id)),
                _ => None,
            },
            _ => None,
        })
    }
}

#[test]
fn the_answer_comes_behind_the_lines_of_all_other_nodes() {
    let mut harness = Harness::with_driver(1.0);
    harness.register(2, CPUS);
    harness.register(3, CPUS);
    assert_eq!(harness.flush_logs(), [2, 3]);
    harness.flushed(2);
    assert!(harness.told().is_empty(), "node 3 may have lines");
    let lines = vec![LogLine { text: "the last".into(), ..LogLine::default() }];
    harness.say(3, JobLogs { job_id: job(1), lines: LogLines { lines } });
    harness.flushed(3);
    assert_eq!(harness.told(), [Ok("the last".to_owned()), Err(7)]);
    harness.flushed(3);
    assert!(harness.told().is_empty(), "a request has one answer");
}

#[test]
fn nobody_waits_for_a_node_that_is_gone_or_where_there_is_no_other() {
    let mut harness = Harness::with_driver(1.0);
    assert!(harness.flush_logs().is_empty());
    assert_eq!(harness.told(), [Err(7)]);
    harness.register(2, CPUS);
    assert_eq!(harness.flush_logs(), [2]);
    harness.pass(60_000, &[1]);
    assert_eq!(harness.told(), [Err(7)], "node 2 died");
}

#[test]
fn a_driver_that_has_ended_waits_no_longer() {
    let mut harness = Harness::with_driver(1.0);
    harness.register(2, CPUS);
    assert_eq!(harness.flush_logs(), [2]);
    harness.client_gone(1, 1, true);
    harness.flushed(2);
    assert!(harness.told().is_empty());
}
