//! The page: tables and pictures of what came out.

use std::fmt::Write as _;
use std::path::Path;

use crate::chart::{Line, draw};
use crate::cluster::{CREATIONS, HEARTBEATS, OTHERS, STARTS, SUBSCRIPTIONS, TICKS};
use crate::costs::Costs;
use crate::daemon::{Daemon, Heard};
use crate::idle::Idle;
use crate::scenario::{Outcome, QueuedTask};
use crate::spread::Spread;

/// Percent by which the CPU of an idle node may grow from the smallest cluster to the largest.
const FLAT_PERCENT: f64 = 20.0;

/// A figure of an outcome.
type Figure = fn(&Outcome) -> f64;
type DaemonFigure = fn(&Daemon) -> f64;

/// The value below which `part` (0 to 1) of the values are, in milliseconds.
fn quantile_ms(values: &[u64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * part) as usize).map_or(0.0, |ns| *ns as f64 / 1e6)
}

fn a_node_and_second(one: &Outcome, passed_ns: u64, count: u64) -> f64 {
    count as f64 / one.n_nodes as f64 / (passed_ns as f64 / 1e9)
}

/// The CPU of a daemon's machine in a second, in microseconds.
fn a_daemon_us(heard: Heard, passed_ns: u64) -> f64 {
    heard.machine_ns as f64 / heard.n_daemons.max(1) as f64 / (passed_ns as f64 / 1e9) / 1e3
}

fn an_actor(one: &Outcome, count: u64) -> f64 {
    count as f64 / one.creating.launches.max(1) as f64
}

/// A picture: its file, title and unit, and its lines.
struct Picture {
    file: &'static str,
    title: &'static str,
    unit: &'static str,
    /// The text below the picture: the cost that bounds the curve.
    bound: &'static str,
    lines: &'static [(&'static str, Figure)],
}

const PICTURES: &[Picture] = &[
    Picture {
        file: "rest",
        title: "What an idle node costs the control service",
        unit: "each second",
        bound: "One heartbeat of each node and one answer, which the machine finds in a table that stays in the processor's caches: \
                a node costs the same among how many it is.",
        lines: &[
            ("messages", |one| {
                let rest = &one.at_rest;
                a_node_and_second(one, rest.passed_ns, rest.received + rest.sent)
            }),
            ("CPU, µs", |one| {
                a_node_and_second(one, one.at_rest.passed_ns, one.at_rest.control_ns) / 1e3
            }),
            ("of which the machine, µs", |one| {
                a_node_and_second(one, one.at_rest.passed_ns, one.at_rest.machine_ns) / 1e3
            }),
            ("CPU of the node's own daemon, its machine, µs", |one| {
                a_daemon_us(one.at_rest.daemons, one.at_rest.passed_ns)
            }),
        ],
    },
    Picture {
        file: "load",
        title: "What a node under load costs: its resources change 10 times a second",
        unit: "each second",
        bound: "A node is told of the 32 others that it watches, whatever the number of nodes. What changes is gathered for longer the \
                more nodes there are, so that control sends no more in a second than it can: with 10,000 nodes a node hears of \
                others less often.",
        lines: &[
            ("messages to it", |one| {
                a_node_and_second(one, one.under_load.passed_ns, one.under_load.sent)
            }),
            ("nodes described in these", |one| {
                a_node_and_second(one, one.under_load.passed_ns, one.under_load.view_entries)
            }),
            ("CPU of control, µs", |one| {
                a_node_and_second(one, one.under_load.passed_ns, one.under_load.control_ns) / 1e3
            }),
            ("CPU of the node's own daemon, its machine, µs", |one| {
                a_daemon_us(one.under_load.daemons, one.under_load.passed_ns)
            }),
        ],
    },
    Picture {
        file: "placement",
        title: "What the placement of an actor costs",
        unit: "each actor",
        bound: "A placement looks at a number of nodes like the logarithm of how many there are. What grows beside that is \
                memory: there are 100 actors for each node, and every one is entered in trees by ids that are random, so that with many \
                actors little of what a placement touches is in the processor's caches. The third line has as many actors on 10 nodes: \
                what it has grown by is the actors' part.",
        lines: &[
            ("nodes looked at", |one| an_actor(one, one.creating.visited)),
            ("CPU of the machine from submission to start, µs", |one| {
                an_actor(one, one.creating.machine_ns) / 1e3
            }),
            ("the same with as many actors on 10 nodes, µs", |one| {
                let few = &one.on_few_nodes;
                few.machine_ns as f64 / few.launches.max(1) as f64 / 1e3
            }),
            ("CPU of control, µs", |one| an_actor(one, one.creating.control_ns) / 1e3),
        ],
    },
    Picture {
        file: "start",
        title: "From the submission of an actor to its start, two actors a node under way at a time",
        unit: "milliseconds",
        bound: "Control is one thread, and as many actors wait for it as are under way: two a node, each with the CPU of a placement. \
                The last line is that product; it is nearly the median, and grows with the number of nodes because what is under way does.",
        lines: &[
            ("median", |one| quantile_ms(&one.creating.starts_ns, 0.5)),
            ("99 of 100", |one| quantile_ms(&one.creating.starts_ns, 0.99)),
            ("control's CPU for those that are under way", |one| {
                2.0 * one.n_nodes as f64 * an_actor(one, one.creating.control_ns) / 1e6
            }),
        ],
    },
    Picture {
        file: "spill",
        title: "From a request that finds no room on 33 nodes to a node that has some",
        unit: "milliseconds",
        bound: "Nodes are told of others with room when views are published: every 20 ms, and 1 ms later for every 10 nodes, so that \
                control sends no more in a second than it can. Among up to 33 nodes everybody knows already.",
        lines: &[
            ("median", |one| quantile_ms(&one.spilling.spills_ns, 0.5)),
            ("99 of 100", |one| quantile_ms(&one.spilling.spills_ns, 0.99)),
        ],
    },
    Picture {
        file: "memory",
        title: "Memory of the control service's machine",
        unit: "megabytes",
        bound: "What is remembered: a number of bytes for each node and each actor, which does not depend on how many there are.",
        lines: &[
            ("nodes and actors", |one| one.bytes_of_all as f64 / 1e6),
            ("nodes alone", |one| one.bytes_of_nodes as f64 / 1e6),
        ],
    },
    Picture {
        file: "recovery",
        title: "A tenth of the nodes dies at once",
        unit: "seconds, or messages",
        bound: "Control's one thread places what lived on the dead nodes, each with the CPU of a placement; how often the others are \
                told is bounded.",
        lines: &[
            ("seconds until all actors run again", Outcome::recovery_s),
            ("views sent to each other node", |one| {
                one.recovering.views as f64 / one.n_nodes as f64
            }),
            ("CPU of each daemon's machine, seconds", |one| {
                let heard = one.recovering.daemons;
                heard.machine_ns as f64 / heard.n_daemons.max(1) as f64 / 1e9
            }),
            ("CPU of control, seconds", |one| one.recovering.control_ns as f64 / 1e9),
        ],
    },
];

fn number(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        value if value >= 1000.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.3}"),
    }
}

/// Writes `scale.md` and its pictures.
///
/// # Errors
/// When a file cannot be written.
pub fn write(
    folder: &Path,
    costs: &Costs,
    outcomes: &[Outcome],
    tasks: QueuedTask,
) -> Result<(), String> {
    let pictures = folder.join("scale");
    let save = |path: &Path, text: &str| {
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    std::fs::create_dir_all(&pictures)
        .map_err(|error| format!("{}: {error}", pictures.display()))?;
    for picture in PICTURES {
        let lines: Vec<Line> = picture
            .lines
            .iter()
            .map(|(name, figure)| Line {
                name: (*name).to_owned(),
                points: outcomes.iter().map(|one| (one.n_nodes as f64, figure(one))).collect(),
            })
            .collect();
        let svg = draw(picture.title, picture.unit, &lines);
        save(&pictures.join(format!("{}.svg", picture.file)), &svg)?;
    }
    save(&folder.join("scale.md"), &page(costs, outcomes, tasks))
}

/// Returns the sentence about the growth of an idle node's CPU from the smallest cluster to the
/// largest.
fn flatness(outcomes: &[Outcome]) -> String {
    let (Some(few), Some(many)) = (outcomes.first(), outcomes.last()) else { return String::new() };
    let cpu = |one| a_node_and_second(one, one.at_rest.passed_ns, one.at_rest.control_ns);
    format!(
        "From {} to {} nodes the CPU of an idle node changes by {:+.0} %; it is to stay within {FLAT_PERCENT:.0} %.\n\
         This is the CPU of a control service that is awake. What waking up adds is in the next table.\n\n",
        few.n_nodes,
        many.n_nodes,
        100.0 * (cpu(many) / cpu(few) - 1.0)
    )
}

/// Returns the table of the costs that were measured on a real control service with so many connections.
fn real_nodes(costs: &Costs) -> String {
    let (Some(few), Some(many)) = (costs.idle.first(), costs.idle.last()) else {
        return String::new();
    };
    let row = |name: &str, figure: fn(&Idle) -> Spread| {
        let cell = |one| {
            let Spread { middle, low, high } = figure(one);
            let is_known = low < high; // older measurements did not tell it
            let [middle, low, high] = [middle, low, high].map(|ns| number(ns / 1e3));
            if is_known { format!("{middle} ({low} to {high})") } else { middle }
        };
        let cells: Vec<String> = costs.idle.iter().map(cell).collect();
        format!("| {name} | {} |\n", cells.join(" | "))
    };
    let head: Vec<String> = costs.idle.iter().map(|one| format!("{} nodes", one.n_nodes)).collect();
    format!(
        "## What an idle node costs a real control service\n\n\
         The control service that ships, in a process of its own, with a connection to each of so many pretended nodes,\n\
         each of which sends a heartbeat a second and is answered. This is the CPU time of that process, with what the\n\
         operating system does for it, of each heartbeat; that of a second without heartbeats is shown apart.\n\
         Of each the median, and between which values half of the readings lie.\n\n\
         | CPU, µs | {} |\n|---|{}\n{}{}{}\n\
         A heartbeat that comes alone costs {:.2} times as much with {} nodes as with {}: the more nodes there are, the\n\
         shorter the process sleeps from one heartbeat to the next, and the more of what it needs is still in the\n\
         processor's caches when it wakes up. Heartbeats that come at once share one waking up; among few nodes that is\n\
         still a large part of each.\n\n",
        head.join(" | "),
        "---|".repeat(costs.idle.len()),
        row("a heartbeat, spread over the second", |one| one.beat_ns),
        row("a heartbeat, when those of all nodes come at once", |one| one.gathered_ns),
        row("a second without heartbeats", |one| one.ticks_ns),
        many.beat_ns.middle / few.beat_ns.middle,
        many.n_nodes,
        few.n_nodes,
    )
}

/// Returns the table of the machine's CPU while actors were made, by part and for each actor.
fn parts(outcomes: &[Outcome]) -> String {
    let head: Vec<String> = outcomes.iter().map(|one| format!("{} nodes", one.n_nodes)).collect();
    let mut text = format!(
        "Where the machine's CPU goes, of each actor: how many µs (and how many times)\n\n| part | {} |\n|---|{}\n",
        head.join(" | "),
        "---|".repeat(outcomes.len())
    );
    for name in [CREATIONS, SUBSCRIPTIONS, STARTS, HEARTBEATS, TICKS, OTHERS] {
        let cell = |one: &Outcome| {
            let part = one.creating.parts.get(name).copied().unwrap_or_default();
            let launches = one.creating.launches.max(1) as f64;
            let us = part.all_ns() / 1e3 / launches;
            format!("{} ({})", number(us), number(part.n as f64 / launches))
        };
        let cells: Vec<String> = outcomes.iter().map(cell).collect();
        let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
    }
    text.push('\n');
    text
}

/// Returns the section on the cost of one node's daemon.
fn daemons(outcomes: &[Outcome]) -> String {
    let head: Vec<String> = outcomes.iter().map(|one| format!("{} nodes", one.n_nodes)).collect();
    let mut text = format!(
        "## What the daemon of one node costs\n\n\
         The daemon's machine is the one that ships. It gets the list of all nodes, hears of changes on the 32 that it watches,\n\
         and is asked for workers for which it has no room.\n\n\
         | a daemon | {} |\n|---|{}\n",
        head.join(" | "),
        "---|".repeat(outcomes.len())
    );
    let rows: [(&str, DaemonFigure); 5] = [
        ("kilobytes that it keeps of the others", |one| one.bytes as f64 / 1e3),
        ("CPU to take in the list of all nodes, ms", |one| one.list_ns as f64 / 1e6),
        ("CPU of news of one node, µs", |one| one.news_ns / 1e3),
        ("CPU of a moment in which nothing is due, µs", |one| one.tick_ns / 1e3),
        ("CPU of a request that goes on to another node, µs", |one| one.request_ns / 1e3),
    ];
    for (name, figure) in rows {
        let cells: Vec<String> = outcomes.iter().map(|one| number(figure(&one.daemon))).collect();
        let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
    }
    text.push_str(
        "\nWhat bounds it: the list of nodes, which grows with their number and comes once. News come of those alone that it\n\
         watches, and a request looks at as many nodes as a tree over them is high.\n\n",
    );
    text
}

fn page(costs: &Costs, outcomes: &[Outcome], tasks: QueuedTask) -> String {
    let mut page = String::from(
        "# Scale\n\n\
         Written by `cargo xtask scale`; do not edit. The control service's machine is the one that ships, in simulated\n\
         time, with nodes that register, send heartbeats, start actors and report as daemons do. Its CPU is measured while\n\
         it runs. What surrounds it costs what was measured on real processes:\n\n",
    );
    let _ = writeln!(
        page,
        "| constant | value | half of the measurements | meaning |\n|---|---|---|---|"
    );
    for (name, value, meaning) in costs.rows() {
        let spread = costs.spread.get(name);
        let spread = spread.map(|one| format!("{} to {}", number(one.low), number(one.high)));
        let spread = spread.unwrap_or_default();
        let _ = writeln!(page, "| `{name}` | {} | {spread} | {meaning} |", number(value));
    }
    let _ = writeln!(page, "\nMeasured: {}.\n", costs.origin);
    let _ = writeln!(
        page,
        "Up to 16 of the nodes have a daemon's machine, the one that ships, too: it hears all that control tells its node but the\n\
         starts of actors. What is not simulated: all daemons of a large cluster at once (each knows every other node, so 10,000\n\
         of them would hold 100 million entries), the loss of packets, and machines that are slower than others. Times of real\n\
         clusters are longer where starting a process is.\n"
    );
    for picture in PICTURES {
        let _ = writeln!(
            page,
            "## {}\n\n![{}](scale/{}.svg)\n",
            picture.title, picture.title, picture.file
        );
        let head: Vec<String> =
            outcomes.iter().map(|one| format!("{} nodes", one.n_nodes)).collect();
        let _ = writeln!(page, "| {} | {} |", picture.unit, head.join(" | "));
        let _ = writeln!(page, "|---|{}", "---|".repeat(outcomes.len()));
        for (name, figure) in picture.lines {
            let cells: Vec<String> = outcomes.iter().map(|one| number(figure(one))).collect();
            let _ = writeln!(page, "| {name} | {} |", cells.join(" | "));
        }
        page.push('\n');
        let _ = writeln!(page, "What bounds it: {}\n", picture.bound);
        if picture.file == "placement" {
            page.push_str(&parts(outcomes));
        }
        if picture.file == "rest" {
            page.push_str(&flatness(outcomes));
            page.push_str(&real_nodes(costs));
        }
    }
    page.push_str(&daemons(outcomes));
    let _ = writeln!(page, "## Sizes\n");
    for one in outcomes {
        let bytes = one.bytes_of_all.saturating_sub(one.bytes_of_nodes) as f64;
        let _ = writeln!(
            page,
            "- {} nodes, {} actors: {:.0} bytes an actor, {:.0} bytes a node; {} commits for the creations",
            one.n_nodes,
            one.n_actors,
            bytes / one.n_actors.max(1) as f64,
            one.bytes_of_nodes as f64 / one.n_nodes as f64,
            one.creating.commits
        );
    }
    let _ = writeln!(
        page,
        "- a queued task waits at its owner: {} tasks at one owner take {:.0} bytes and {:.1} µs of CPU each, and cost\n\
         \x20 its daemon {} messages; control hears of none of them (CTL-1)",
        tasks.n_tasks,
        tasks.bytes,
        tasks.submit_ns / 1e3,
        tasks.messages
    );
    page
}
