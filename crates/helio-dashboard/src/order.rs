//! The order of a list's rows: by their keys, or by a column of numbers, the largest first. Pure.
//!
//! A place in an order is a text that sorts as the rows do, so that an answer can say after which row the next one begins.

use helio_report::calls::{Block, Field, Found, Key, Of};
use helio_report::select::shown;
use helio_report::{Resource, Row};
use helio_types::TaskId;
use serde_json::Value;

/// The duration of what has ended: from `start_time_ms` to `end_time_ms`.
const TOOK: &str = "took";

/// The columns that rows can stand in order by, the largest first: their numbers, and how long they took.
pub(crate) fn orders(resource: Resource) -> Vec<&'static str> {
    let numbers = resource.columns().iter().filter(|column| column.is_number());
    let mut orders: Vec<&str> = numbers.map(|column| column.name).collect();
    if ["start_time_ms", "end_time_ms"].iter().all(|time| orders.contains(time)) {
        orders.insert(0, TOOK);
    }
    orders
}

/// The place of a row: by its key, or behind what is larger and with that in order.
pub(crate) fn place(resource: Resource, row: &Row, order: Option<&str>) -> String {
    let key = key(resource, row);
    let Some(order) = order else { return key };
    let number = |name: &str| row.get(name).and_then(Value::as_u64);
    let size = match order {
        TOOK => number("start_time_ms")
            .zip(number("end_time_ms"))
            .map(|(from, to)| to.saturating_sub(from)),
        column => number(column),
    };
    // A further one in front, so that what has no number is the last.
    format!("{:020}.{key}", u64::MAX - size.map_or(0, |size| size.saturating_add(1)))
}

/// The name of a row among those of its resource. Of an object there is one for each process that has a
/// reference, of a task one for each attempt.
fn key(resource: Resource, row: &Row) -> String {
    let field = |name: &str| row.get(name).map(shown).unwrap_or_default();
    match resource {
        Resource::Tasks => format!("{}.{:0>4}", field("task_id"), field("attempt_number")),
        Resource::Objects => {
            format!(
                "{}.{}.{}.{}",
                field("object_id"),
                field("ip"),
                field("pid"),
                field("reference_type")
            )
        }
        Resource::Jobs => format!("{}.{}", field("job_id"), field("submission_id")),
        Resource::Envs => format!("{}.{}", field("runtime_env"), field("node_id")),
        other => field(other.key()),
    }
}

/// A call and where it stands.
pub(crate) struct Placed<'a> {
    pub(crate) place: (u64, Key),
    pub(crate) call: Found<'a>,
}

impl PartialEq for Placed<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}

impl Eq for Placed<'_> {}

impl PartialOrd for Placed<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Placed<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.place.cmp(&other.place)
    }
}

/// The order of calls by a column.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Order<'a> {
    Took,
    By(Of, &'a str),
}

impl<'a> Order<'a> {
    pub(crate) fn new(column: &'a str) -> Self {
        if column == TOOK { Self::Took } else { Self::By(Of::named(column), column) }
    }

    /// No call of a block stands before that; none: who knows?
    pub(crate) fn best(self, block: &Block<'_>) -> Option<u64> {
        let largest = match self {
            Self::Took => Some(block.slowest()),
            Self::By(of, _) => block.largest(of),
        };
        largest.map(|largest| u64::MAX - largest.saturating_add(1))
    }

    /// The place of a call in the order; one without a number is the last.
    pub(crate) fn rank(self, call: &Found<'_>) -> u64 {
        let number = |of: Of, column: &str| match call.field(of) {
            Field::Number(number) => number,
            Field::Shared(_) => None,
            Field::InRow => call.row().get(column).and_then(Value::as_u64),
        };
        let size = match self {
            Self::Took => {
                number(Of::Started, "").zip(number(Of::Ended, "")).map(|(a, b)| b.saturating_sub(a))
            }
            Self::By(of, column) => number(of, column),
        };
        u64::MAX - size.map_or(0, |size| size.saturating_add(1))
    }
}

/// The place that `next` of an answer names.
pub(crate) fn parse_place(text: &str, has_rank: bool) -> Option<(u64, Key)> {
    let (rank, key) = match has_rank {
        true => text.split_once('.').and_then(|(rank, key)| Some((rank.parse().ok()?, key)))?,
        false => (0, text),
    };
    let (id, attempt) = key.split_once('.')?;
    Some((rank, (TaskId::from_hex(id).ok()?, attempt.parse().ok()?)))
}
