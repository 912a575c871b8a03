//! A driver that ends waits for all lines of its workers, wherever they ran.

use helio_proto::cluster::{ControlToNode, FlushJobLogs, JobLogs, JobLogsFlushed};
use helio_proto::node::{LogLine, LogLines, NodeToClient};

use crate::desk::{Desk, job, node, worker};

const CPUS: &[(&str, f64)] = &[("CPU", 1.0)];

impl Desk {
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
    let mut desk = Desk::with_driver(1.0);
    desk.register(2, CPUS);
    desk.register(3, CPUS);
    assert_eq!(desk.flush_logs(), [2, 3]);
    desk.flushed(2);
    assert!(desk.told().is_empty(), "node 3 may have lines");
    let lines = vec![LogLine { text: "the last".into(), ..LogLine::default() }];
    desk.say(3, JobLogs { job_id: job(1), lines: LogLines { lines } });
    desk.flushed(3);
    assert_eq!(desk.told(), [Ok("the last".to_owned()), Err(7)]);
    desk.flushed(3);
    assert!(desk.told().is_empty(), "a request has one answer");
}

#[test]
fn nobody_waits_for_a_node_that_is_gone_or_where_there_is_no_other() {
    let mut desk = Desk::with_driver(1.0);
    assert!(desk.flush_logs().is_empty());
    assert_eq!(desk.told(), [Err(7)]);
    desk.register(2, CPUS);
    assert_eq!(desk.flush_logs(), [2]);
    desk.pass(60_000, &[1]);
    assert_eq!(desk.told(), [Err(7)], "node 2 died");
}

#[test]
fn a_driver_that_has_ended_waits_no_longer() {
    let mut desk = Desk::with_driver(1.0);
    desk.register(2, CPUS);
    assert_eq!(desk.flush_logs(), [2]);
    desk.client_gone(1, 1, true);
    desk.flushed(2);
    assert!(desk.told().is_empty());
}
