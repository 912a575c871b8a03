//! Questions to processes, and the memory monitor's kills.

use std::collections::BTreeMap;

use helio_proto::cluster::NodeToNode;
use helio_proto::control::GpuUse;
use helio_proto::inspect::{
    Answer, Answered, Asked, Inspect, Inspected, LAST_ROWS_MAX, LastWords, Metric, Question,
    TaskRow, Topic,
};
use helio_proto::node::{LeaseLost, NodeToClient};
use helio_proto::raw::Raw;
use helio_types::DeathKind;

use super::{World, node_id};
use crate::limits::{INSPECTION_MS_MAX, INSPECTIONS_MAX, LAST_WORDS_ROWS_MAX};
use crate::{Conn, Event, MemoryUse};

fn ask(world: &mut World, conn: Conn, request_id: u64, own_node_only: bool) {
    let question = Question { topic: Topic::Tasks, ..Question::default() };
    world.say(conn, Inspect { request_id, question, own_node_only });
}

fn asked(world: &mut World, conn: Conn) -> Option<Asked> {
    world.take(conn, |message| match message {
        NodeToClient::Asked(asked) => Some(asked.clone()),
        _ => None,
    })
}

fn told(world: &mut World, conn: Conn) -> Option<Inspected> {
    world.take(conn, |message| match message {
        NodeToClient::Inspected(told) => Some(told.clone()),
        _ => None,
    })
}

fn answer(pid: u32) -> Answer {
    Answer { pid, ..Answer::default() }
}

#[test]
fn the_answers_of_all_processes_and_nodes_come_together() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.view(&[(2, true, 1.0)]);
    let (one, two) = (world.driver(), world.driver());
    ask(&mut world, one, 7, false);
    for (conn, pid) in [(one, 11), (two, 12)] {
        let asked = asked(&mut world, conn).unwrap();
        assert_eq!(told(&mut world, one), None);
        world.say(conn, Answered { request_id: asked.request_id, answer: Raw::of(&answer(pid)) });
    }
    let (whom, question) = world.asked.pop().unwrap();
    let NodeToNode::Asked(question) = question else { panic!("{question:?}") };
    assert_eq!(whom, node_id(2));
    let answers = vec![Raw::of(&answer(21))];
    let message =
        NodeToNode::Inspected(Inspected { request_id: question.request_id, answers, silent: 1 });
    world.feed(Event::PeerSaid { conn: Conn(900), node_id: node_id(2), message });
    let told = told(&mut world, one).unwrap();
    let answers = told.read().answers;
    let pids: Vec<u32> = answers.iter().map(|answer| answer.pid).collect();
    assert_eq!((told.request_id, told.silent, &pids[1..]), (7, 1, &[11, 12, 21][..]));
    assert!(answers[0].is_daemon);
}

#[test]
fn who_does_not_answer_is_counted_and_who_is_gone_is_not_waited_for() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let (one, two, three) = (world.driver(), world.driver(), world.driver());
    ask(&mut world, one, 1, true);
    let question = asked(&mut world, one).unwrap();
    world.say(one, Answered { request_id: question.request_id, answer: Raw::of(&answer(1)) });
    // Twice is once, and an answer to no question is none.
    world.say(one, Answered { request_id: question.request_id, answer: Raw::of(&answer(1)) });
    world.say(one, Answered { request_id: 99, answer: Raw::of(&answer(1)) });
    world.feed(Event::ClientClosed { conn: three });
    assert_eq!(told(&mut world, one), None);
    world.pass(INSPECTION_MS_MAX);
    let told = told(&mut world, one).unwrap();
    assert_eq!((told.silent, told.answers.len()), (1, 2), "{two:?} did not answer");
    assert_eq!(world.node.census().questions, 0, "LIMIT-1");
}

#[test]
fn so_many_questions_are_open_and_those_of_who_is_gone_are_forgotten() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let (one, two) = (world.driver(), world.driver());
    for n in 0..=INSPECTIONS_MAX as u64 {
        ask(&mut world, one, n, true);
    }
    let first = told(&mut world, one).unwrap();
    assert_eq!((first.request_id, first.silent), (INSPECTIONS_MAX as u64, 1), "LIMIT-1");
    world.feed(Event::ClientClosed { conn: one });
    assert_eq!(world.node.census().questions, 0);
    let _ = two;
}

#[test]
fn measurements_of_the_node_and_its_processes_are_had_at_once() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let driver = world.driver();
    world.feed(Event::Scrape { number: 5 });
    let question = asked(&mut world, driver).unwrap();
    assert_eq!(question.question.topic, Topic::Metrics);
    world.say(driver, Answered { request_id: question.request_id, answer: Raw::of(&answer(3)) });
    let answers = world.scraped.take().unwrap();
    assert_eq!(answers.len(), 2);
    assert!(answers[0].metrics.iter().any(|metric| metric.name == "object_store_memory"));
}

fn scrape(world: &mut World) -> Vec<Metric> {
    world.feed(Event::Scrape { number: 1 });
    world.scraped.take().unwrap().swap_remove(0).metrics
}

#[test]
fn gpus_are_measured_where_there_are_some() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let is_of_gpus = |name: &str| name.starts_with("node_gpu") || name.starts_with("node_gram");
    assert!(!scrape(&mut world).iter().any(|metric| is_of_gpus(&metric.name)));

    let one = GpuUse {
        index: 0,
        name: "NVIDIA H200".to_owned(),
        has_utilization: true,
        utilization: 37,
        memory_used: 3 << 30,
        memory_total: 141 << 30,
        power_mw: 350_000,
        temperature: 41,
    };
    // One that is split into instances does not count how busy it is.
    let two = GpuUse { index: 1, has_utilization: false, temperature: 0, ..one.clone() };
    world.feed(Event::GpusRead(vec![one.clone(), two.clone()]));
    assert_eq!(world.node.info().gpus, [one, two]);
    let values = |metric: Metric| -> Vec<(String, f64)> {
        metric.series.into_iter().map(|one| (one.tags[0].value.clone(), one.value)).collect()
    };
    let found: BTreeMap<String, Vec<(String, f64)>> = scrape(&mut world)
        .into_iter()
        .filter(|metric| is_of_gpus(&metric.name))
        .map(|metric| (metric.name.clone(), values(metric)))
        .collect();
    let both = |value: f64| vec![("0".to_owned(), value), ("1".to_owned(), value)];
    assert_eq!(found["node_gpus_available"], both(1.0));
    assert_eq!(found["node_gpus_utilization"], [("0".to_owned(), 37.0)]);
    assert_eq!(found["node_gram_used"], both(3.0 * 1024.0));
    assert_eq!(found["node_gram_available"], both(138.0 * 1024.0));
    assert_eq!(found["node_gpu_power_milliwatts"], both(350_000.0));
    assert_eq!(found["node_gpu_temperature_celsius"], [("0".to_owned(), 41.0)]);
}

#[test]
fn a_full_memory_ends_one_worker_and_tells_its_caller_why() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let driver = world.driver();
    for number in [1, 2] {
        let class = world.class(1, &[("CPU", 1.0)]);
        world.request(driver, number, class);
    }
    assert!(world.node.has_work());
    let memory = |used| MemoryUse {
        used,
        total: 1 << 30,
        threshold: 0.5,
        top: vec![(77, 1 << 29, "python hungry.py".to_owned())],
    };
    world.feed(Event::MemoryRead(memory(1 << 28)));
    let lost = |message: &NodeToClient| match message {
        NodeToClient::LeaseLost(lost) => Some(lost.clone()),
        _ => None,
    };
    assert_eq!(world.take(driver, lost), None, "below the threshold nothing happens");
    world.feed(Event::MemoryRead(memory(1 << 30)));
    let LeaseLost { cause, .. } = world.take(driver, lost).unwrap();
    assert_eq!((cause.kind, cause.is_final), (DeathKind::OutOfMemory, true));
    for part in ["1.00 GB of 1.00 GB", "77\t0.50\tpython hungry.py", "num_cpus"] {
        assert!(cause.message.contains(part), "{part}: {}", cause.message);
    }
    assert_eq!(world.take(driver, lost), None, "one at a time");
}

fn rows_of_the_ended(world: &mut World, conn: Conn, topic: Topic) -> Vec<usize> {
    let question = Question { topic, ..Question::default() };
    world.say(conn, Inspect { request_id: 1, question, own_node_only: true });
    if let Some(asked) = asked(world, conn) {
        world.say(conn, Answered { request_id: asked.request_id, answer: Raw::of(&answer(1)) });
    }
    let told = told(world, conn).unwrap();
    told.read().answers.iter().filter(|one| one.is_over).map(|one| one.tasks.len()).collect()
}

#[test]
fn what_a_process_said_last_is_told_after_its_end() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let one = world.driver();
    let words = |rows: usize| LastWords {
        answer: Answer { tasks: vec![TaskRow::default(); rows], ..Answer::default() },
    };
    for rows in [1, 2] {
        let other = world.driver();
        world.say(other, words(rows));
        world.feed(Event::ClientClosed { conn: other });
    }
    assert_eq!(rows_of_the_ended(&mut world, one, Topic::Tasks), [2, 1]);
    assert!(rows_of_the_ended(&mut world, one, Topic::Workers).is_empty());
    // LIMIT-1: of one process, and of all.
    let most = LAST_ROWS_MAX as usize;
    for _ in 0..LAST_WORDS_ROWS_MAX / most {
        let other = world.driver();
        world.say(other, words(most + 1));
        world.feed(Event::ClientClosed { conn: other });
    }
    let mut kept = rows_of_the_ended(&mut world, one, Topic::Tasks);
    assert_eq!(kept.pop(), Some(0), "the forgotten reports come last, as counts without rows");
    assert_eq!(kept, vec![most; LAST_WORDS_ROWS_MAX / most]);
}
