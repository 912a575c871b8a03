//! The choice of a list's rows for an answer: keyset pages and columns. Pure.
//!
//! An answer that has not all rows names the place in their [order](crate::order) after which the next one begins. So pages
//! neither skip nor repeat rows while others come and go.

use std::collections::BinaryHeap;

use helio_observer::{Told, read};
use helio_report::calls::{Calls, Found, Group, Of};
use helio_report::{Resource, Row};
use helio_types::TaskId;
use serde_json::Value;

use crate::answers::tasks::ListingAbout;
use crate::filter::{Filter, OfCalls};
use crate::order::{Order, Placed, orders, parse_place, place};
use crate::parameters::flag;

/// Most rows of one answer; Ray has no more at all.
pub(crate) const LIMIT_MAX: usize = 10_000;
const LIMIT: usize = 100;

/// The part of the page that a request asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    limit: usize,
    filters: Vec<Filter>,
    /// `next` of an earlier answer: only rows behind its last one.
    after: Option<String>,
    /// The column by which rows are sorted, the largest value first; `None`: by their keys.
    order: Option<String>,
    is_detailed: bool,
    /// Whether rows have the column `why`, which Ray's clients do not know.
    has_why: bool,
}

impl Wanted {
    /// Reads a query string.
    ///
    /// # Errors
    /// A sentence that names the parameter.
    pub(crate) fn parse(query: &str) -> Result<Self, String> {
        let (mut columns, mut predicates, mut values) = (Vec::new(), Vec::new(), Vec::new());
        let mut wanted = Self {
            limit: LIMIT,
            filters: Vec::new(),
            after: None,
            order: None,
            is_detailed: false,
            has_why: false,
        };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "limit" => wanted.limit = limit(&value)?,
                "detail" => wanted.is_detailed = flag(&name, &value)?,
                "why" => wanted.has_why = flag(&name, &value)?,
                "next" => wanted.after = Some(value.into_owned()).filter(|after| !after.is_empty()),
                "timeout" => check_timeout(&value)?,
                // Heads list the drivers of jobs as jobs alone.
                "exclude_driver" => {
                    flag(&name, &value)?;
                }
                "order" => {
                    wanted.order = Some(value.to_lowercase()).filter(|name| !name.is_empty())
                }
                "filter_keys" => columns.push(value.to_lowercase()),
                "filter_predicates" => predicates.push(value),
                "filter_values" => values.push(value),
                // `age` is read before the rows are asked for; other names are refused by then (`parameters.rs`).
                _ => {}
            }
        }
        if columns.len() != values.len() || columns.len() != predicates.len() {
            return Err(
                "`filter_keys`, `filter_predicates` and `filter_values` must be given equally often.".to_owned()
            );
        }
        for ((column, predicate), value) in columns.into_iter().zip(predicates).zip(values) {
            let is_equal = match &*predicate {
                "=" => true,
                "!=" => false,
                other => return Err(format!("`filter_predicates` are = and !=, not {other:?}.")),
            };
            wanted.filters.push(Filter { column, is_equal, value: value.into_owned() });
        }
        Ok(wanted)
    }

    /// The answer.
    ///
    /// # Errors
    /// A sentence: a filter, the order or `next` does not fit these rows.
    pub(crate) fn page(&self, resource: Resource, told: &Told) -> Result<Page, String> {
        let rows = &told.rows;
        let columns = resource.names(true);
        let known = |column: &str| {
            columns.contains(&column) || rows.first().is_some_and(|row| row.contains_key(column))
        };
        if let Some(filter) = self.filters.iter().find(|filter| !known(&filter.column)) {
            return Err(format!(
                "There is no column `{}` to filter {} by, only {}.",
                filter.column,
                resource.name(),
                columns.join(", ")
            ));
        }
        for filter in &self.filters {
            filter.check(resource)?;
        }
        let order = self.order.as_deref();
        let orders = orders(resource);
        if let Some(order) = order.filter(|order| !orders.contains(order)) {
            let called = resource.name();
            return Err(match orders.is_empty() {
                true => {
                    format!("There is no order by `{order}`: {called} have no column of numbers.")
                }
                false => format!(
                    "There is no order by `{order}`: {called} can be in order by {}.",
                    orders.join(", ")
                ),
            });
        }
        let after =
            self.after.as_deref().map(|after| self.place_of(resource, after)).transpose()?;
        if let Some(calls) = &told.calls {
            // Locked once: a second time while a writer waits would be for ever.
            let calls = read(calls);
            let chosen = self.of_calls(&calls, &self.columns(resource), after);
            return Ok(self.answer(told, calls.len(), chosen));
        }
        let mut chosen: Vec<(String, &Row)> = rows
            .iter()
            .filter(|row| self.filters.iter().all(|filter| filter.holds(row)))
            .map(|row| (place(resource, row, order), row))
            .collect();
        let filtered = chosen.len() as u64;
        if let Some(after) = after {
            chosen.retain(|(key, _)| key.as_str() > after);
        }
        // The keys of a page, and no more, are put in order.
        if chosen.len() > self.limit && self.limit > 0 {
            chosen.select_nth_unstable_by(self.limit - 1, |a, b| a.0.cmp(&b.0));
        }
        let is_cut = chosen.len() > self.limit;
        chosen.truncate(self.limit);
        chosen.sort_by(|a, b| a.0.cmp(&b.0));
        let next = chosen.last().filter(|_| is_cut).map(|(key, _)| self.next_after(resource, key));
        let columns = self.columns(resource);
        let cut = |(_, row): (String, &Row)| -> Value {
            let value = |name| row.get(name).cloned().unwrap_or(Value::Null);
            Value::Object(columns.iter().map(|&name| (name.to_owned(), value(name))).collect())
        };
        let rows = chosen.into_iter().map(cut).collect::<Value>().to_string();
        let looked_at = told.rows.len();
        Ok(self.answer(told, looked_at, Chosen { rows, filtered, next, looked_at }))
    }

    /// Names the place of an answer's last row, for the one that follows.
    fn next_after(&self, resource: Resource, place: &str) -> String {
        format!("{}.{place}", self.stamp(resource, place))
    }

    /// The place that `next` names.
    fn place_of<'n>(&self, resource: Resource, next: &'n str) -> Result<&'n str, String> {
        let own =
            next.split_once('.').filter(|(stamp, place)| *stamp == self.stamp(resource, place));
        own.map(|(_, place)| place).ok_or_else(|| {
            let called = resource.name();
            format!(
                "`next` {next:?} is not from an answer of {called} in this order: pass on what `next` of the last answer \
                 says, and leave it out for the first."
            )
        })
    }

    /// Tells the places of one list in one order from those of others, and from what nobody has said.
    fn stamp(&self, resource: Resource, place: &str) -> String {
        let order = self.order.as_deref().unwrap_or_default();
        let text = format!("{} {order} {place}", resource.name());
        format!("{:08x}", crc32fast::hash(text.as_bytes()))
    }

    /// The columns that are shown.
    fn columns(&self, resource: Resource) -> Vec<&'static str> {
        let mut columns = resource.names(self.is_detailed);
        columns.retain(|column| self.has_why || *column != "why");
        columns
    }

    fn answer(&self, told: &Told, known: usize, chosen: Chosen) -> Page {
        let Chosen { rows, filtered, next, looked_at } = chosen;
        let about = ListingAbout {
            total: told.total,
            num_after_truncation: known as u64,
            // Of what there are no rows, nobody knows whether a filter would hold.
            num_filtered: if self.filters.is_empty() { told.total } else { filtered },
            next,
            partial_failure_warning: warning(told),
            warnings: None,
        };
        Page { about, rows, looked_at }
    }

    /// The groups of calls for which all filters hold; none: the filters ask for more than groups say.
    fn groups_of(&self, calls: &Calls) -> Option<Vec<Group>> {
        let is_said =
            |filter: &Filter| matches!(Of::named(&filter.column), Of::Name | Of::State | Of::Type);
        self.filters.iter().all(is_said).then(|| {
            let mut groups = calls.groups();
            groups.retain(|group| {
                let row = group.row();
                self.filters.iter().all(|filter| filter.holds(&row))
            });
            groups
        })
    }

    /// The rows of a table of calls: a row is made of those that are shown, and most others are not looked at.
    fn of_calls<'a>(&self, calls: &'a Calls, columns: &[&str], after: Option<&str>) -> Chosen {
        let mut filters: Vec<OfCalls<'_>> = self.filters.iter().map(OfCalls::new).collect();
        let of_id = self.filters.iter().find_map(|filter| {
            let is_id = filter.is_equal && filter.column == "task_id";
            is_id.then(|| TaskId::from_hex(&filter.value).ok()).flatten()
        });
        let order = self.order.as_deref().map(Order::new);
        let after = after.and_then(|after| parse_place(after, order.is_some()));
        let groups = of_id.is_none().then(|| self.groups_of(calls)).flatten();
        let wanted = groups.as_ref().map(|groups| calls.wanted(groups));
        let (mut filtered, mut looked_at) = (0, 0);
        // The first ones after that place, and one more, the last of them on top: of a million calls no more are kept.
        let mut kept: BinaryHeap<Placed<'_>> = BinaryHeap::new();
        let mut look_at = |call: Found<'a>, kept: &mut BinaryHeap<Placed<'a>>| {
            looked_at += 1;
            if !filters.iter_mut().all(|filter| filter.holds(&call)) {
                return;
            }
            filtered += 1;
            let place = (order.map_or(0, |order| order.rank(&call)), call.key);
            if after.is_some_and(|after| place <= after) {
            } else if kept.len() <= self.limit {
                kept.push(Placed { place, call });
            } else if let Some(mut last) = kept.peek_mut()
                && place < last.place
            {
                *last = Placed { place, call };
            }
        };
        match of_id {
            Some(id) => calls.of(id).for_each(|call| look_at(call, &mut kept)),
            None => {
                for block in calls.blocks() {
                    // Where the calls are counted, blocks that bring nothing need no look.
                    let is_full = kept.len() > self.limit;
                    let last = kept.peek().filter(|_| is_full).map(|last| last.place.0);
                    let is_behind = last.zip(order).is_some_and(|(last, order)| {
                        order.best(&block).is_some_and(|best| best > last)
                    });
                    let is_needed =
                        wanted.is_none_or(|wanted| !is_behind && block.may_have(wanted));
                    if is_needed {
                        block.calls().for_each(|call| look_at(call, &mut kept));
                    }
                }
            }
        }
        if let Some(groups) = groups {
            filtered = groups.iter().map(|group| group.of.count).sum();
        }
        let mut kept = kept.into_sorted_vec();
        let is_cut = kept.len() > self.limit;
        kept.truncate(self.limit);
        let name = |Placed { place: (rank, (id, attempt)), .. }: &Placed<'_>| match order {
            Some(_) => format!("{rank:020}.{}.{attempt:0>4}", id.hex()),
            None => format!("{}.{attempt:0>4}", id.hex()),
        };
        let next = kept
            .last()
            .filter(|_| is_cut)
            .map(|last| self.next_after(Resource::Tasks, &name(last)));
        let mut rows = "[".to_owned();
        for (place, kept) in kept.iter().enumerate() {
            if place > 0 {
                rows.push(',');
            }
            kept.call.write(columns, &mut rows);
        }
        rows.push(']');
        Chosen { rows, filtered, next, looked_at }
    }
}

/// The answer to a request for a page.
#[derive(Debug)]
pub(crate) struct Page {
    /// All but the rows.
    about: ListingAbout,
    /// A list, as JSON.
    rows: String,
    /// The number of rows that were looked at for the page.
    pub(crate) looked_at: usize,
}

impl Page {
    /// The answer as JSON.
    pub(crate) fn text(&self) -> String {
        // Numbers and texts become JSON without fail.
        let about = serde_json::to_string(&self.about).unwrap_or_default();
        format!("{{\"result\":{},{}", self.rows, about.get(1..).unwrap_or("}"))
    }
}

/// The rows of a page.
struct Chosen {
    /// As JSON.
    rows: String,
    /// The number of rows on all pages.
    filtered: u64,
    next: Option<String>,
    looked_at: usize,
}

/// Returns the warning for an answer that lacks the parts of some processes or nodes; empty: nothing is missing.
pub(crate) fn warning(told: &Told) -> String {
    let silent = (told.silent > 0).then(|| {
        format!("{} processes or nodes did not answer in time; their part is missing.", told.silent)
    });
    silent.into_iter().chain(told.notes.iter().cloned()).collect::<Vec<_>>().join(" ")
}

fn limit(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(limit) if limit <= LIMIT_MAX => Ok(limit),
        Ok(limit) => Err(format!(
            "`limit` {limit} exceeds the supported limit {LIMIT_MAX}. Ask for further rows with `next` of the answer."
        )),
        Err(_) => Err(format!("`limit` must be a number of rows, not {text:?}.")),
    }
}

/// The client's time limit, which only has to be a number of seconds.
fn check_timeout(text: &str) -> Result<(), String> {
    let is_one =
        matches!(text, "" | "None") || text.parse().is_ok_and(|seconds: f64| seconds >= 0.0);
    is_one
        .then_some(())
        .ok_or_else(|| format!("`timeout` must be a number of seconds, not {text:?}."))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, RwLock};

    use helio_proto::inspect::{Answer, TaskPhase, TaskRow};
    use helio_types::ActorId;

    use serde_json::json;

    use super::*;

    fn rows() -> Vec<Row> {
        let row = |number: u64| {
            let state = if number.is_multiple_of(2) { "ALIVE" } else { "DEAD" };
            json!({"actor_id": format!("{number:04}"), "state": state, "pid": number, "name": null, "why": "because"})
        };
        // Not in order, as rows come from many.
        let rows = (0..250_u64).rev().map(row);
        rows.filter_map(|row| row.as_object().cloned()).collect()
    }

    fn ask(query: &str) -> Value {
        value(Wanted::parse(query).unwrap().page(Resource::Actors, &Told::all(rows(), 0)).unwrap())
    }

    fn value(page: Page) -> Value {
        serde_json::from_str(&page.text()).unwrap()
    }

    fn keys(page: &Value) -> Vec<&str> {
        page["result"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|row| row["actor_id"].as_str())
            .collect()
    }

    #[test]
    fn pages_have_each_row_once_and_in_order() {
        let (mut query, mut seen) = ("limit=70".to_owned(), Vec::new());
        loop {
            let page = ask(&query);
            seen.extend(keys(&page).iter().map(|key| (*key).to_owned()));
            assert_eq!(
                (page["total"].as_u64(), page["num_filtered"].as_u64()),
                (Some(250), Some(250))
            );
            match page["next"].as_str() {
                Some(next) => query = format!("limit=70&next={next}"),
                None => break,
            }
        }
        assert_eq!(seen, (0..250).map(|number| format!("{number:04}")).collect::<Vec<_>>());
        assert_eq!(keys(&ask("")).len(), 100);
        assert_eq!(ask("limit=0")["result"], json!([]));
        assert_eq!(ask("limit=250")["next"], Value::Null);
    }

    #[test]
    fn pages_in_the_order_of_a_column_have_each_row_once_too() {
        let (mut query, mut seen) = ("limit=70&order=pid".to_owned(), Vec::new());
        loop {
            let page = ask(&query);
            seen.extend(keys(&page).iter().map(|key| (*key).to_owned()));
            match page["next"].as_str() {
                Some(next) => query = format!("limit=70&order=pid&next={next}"),
                None => break,
            }
        }
        assert_eq!(seen, (0..250).rev().map(|number| format!("{number:04}")).collect::<Vec<_>>());
        let wanted = Wanted::parse("order=colour").unwrap();
        let said = wanted.page(Resource::Actors, &Told::all(rows(), 0)).unwrap_err();
        assert!(said.contains("colour") && said.contains("pid"), "{said}");
    }

    fn refusal(query: &str) -> String {
        let wanted = Wanted::parse(query).unwrap();
        wanted.page(Resource::Actors, &Told::all(rows(), 0)).unwrap_err()
    }

    #[test]
    fn rows_stand_in_order_by_numbers_alone() {
        for column in ["name", "state", "is_detached", "took"] {
            let said = refusal(&format!("order={column}"));
            assert!(said.contains(column) && said.contains("pid, num_restarts"), "{said}");
        }
        let wanted = Wanted::parse("order=severity").unwrap();
        let said = wanted.page(Resource::Events, &Told::all(Vec::new(), 0)).unwrap_err();
        assert!(said.contains("no column of numbers"), "{said}");
    }

    #[test]
    fn only_what_an_answer_has_said_is_a_place_to_go_on_from() {
        let next = ask("limit=70")["next"].as_str().unwrap().to_owned();
        assert_eq!(keys(&ask(&format!("limit=1&next={next}"))), ["0070"]);
        assert_eq!(keys(&ask("limit=1&next=")), ["0000"]);
        let other = format!("{}.0070", next.split_once('.').unwrap().0);
        for wrong in ["nowhere", "0070", "00000000.0069", &other, &format!("{next}&order=pid")] {
            let said = refusal(&format!("next={wrong}"));
            assert!(said.contains("`next`") && said.contains("actors"), "{said}");
        }
        let wanted = Wanted::parse(&format!("next={next}")).unwrap();
        let said = wanted.page(Resource::Tasks, &table()).unwrap_err();
        assert!(said.contains("`next`"), "{said}");
    }

    #[test]
    fn a_filter_by_a_value_that_no_row_can_have_is_refused() {
        let filter = |column: &str, value: &str| {
            format!("filter_keys={column}&filter_predicates=%3D&filter_values={value}")
        };
        for (column, value, says) in [
            ("state", "ALIFE", "RESTARTING"),
            ("pid", "seven", "numbers"),
            ("is_detached", "perhaps", "true or false"),
        ] {
            let said = refusal(&filter(column, value));
            assert!(said.contains(column) && said.contains(value) && said.contains(says), "{said}");
        }
        assert_eq!(ask(&filter("state", "dependencies_unready"))["result"], json!([]));
        assert_eq!(ask(&filter("is_detached", "None"))["num_filtered"], 250);
    }

    #[test]
    fn the_slowest_are_first_and_what_has_not_ended_is_last() {
        let row = |id: &str, from: u64, to: Option<u64>| json!({"task_id": id, "attempt_number": 0, "start_time_ms": from, "end_time_ms": to});
        let rows =
            [row("a", 5, Some(6)), row("b", 5, None), row("c", 1, Some(9)), row("d", 5, Some(5))];
        let rows = rows.iter().filter_map(|row| row.as_object().cloned()).collect();
        let wanted = Wanted::parse("order=took").unwrap();
        let page = value(wanted.page(Resource::Tasks, &Told::all(rows, 0)).unwrap());
        let found = page["result"].as_array().unwrap().iter().map(|row| row["task_id"].as_str());
        assert_eq!(found.map(Option::unwrap).collect::<Vec<_>>(), ["c", "a", "d", "b"]);
    }

    #[test]
    fn filters_are_by_any_column() {
        let query = "filter_keys=state&filter_predicates=%3D&filter_values=alive&limit=2";
        let page = ask(query);
        assert_eq!((keys(&page), page["num_filtered"].as_u64()), (vec!["0000", "0002"], Some(125)));
        let query = "filter_keys=pid&filter_predicates=%3D&filter_values=7&filter_keys=STATE&filter_predicates=!%3D&filter_values=ALIVE";
        assert_eq!(keys(&ask(query)), ["0007"]);
        let wanted =
            Wanted::parse("filter_keys=colour&filter_predicates=%3D&filter_values=7").unwrap();
        let said = wanted.page(Resource::Actors, &Told::all(rows(), 0)).unwrap_err();
        assert!(said.contains("`colour`") && said.contains("actor_id"), "{said}");
    }

    #[test]
    fn columns_are_those_that_are_asked_for() {
        let row = |query| ask(query)["result"][0].clone();
        assert!(row("")["required_resources"].is_null() && row("")["actor_id"].is_string());
        let has =
            |query, column| row(query).as_object().is_some_and(|row| row.contains_key(column));
        assert!(!has("", "death_cause") && has("detail=True", "death_cause"));
        assert!(!has("detail=True", "why") && has("detail=true&why=1", "why"));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (query, says) in [
            ("limit=many", "`limit`"),
            ("limit=-1", "`limit`"),
            ("limit=10001", "`next`"),
            ("detail=perhaps", "`detail`"),
            ("exclude_driver=perhaps", "`exclude_driver`"),
            ("timeout=soon", "`timeout`"),
            ("filter_keys=a", "filter_values"),
            ("filter_keys=a&filter_predicates=~&filter_values=b", "filter_predicates"),
        ] {
            let said = Wanted::parse(query).unwrap_err();
            assert!(said.contains(says), "{query}: {said}");
        }
    }

    /// Three blocks of a table, in no order.
    fn table() -> Told {
        let task = |n: u64| {
            // Ten apart from each other, as a permutation.
            let at = n * 7_919 % 10_007;
            let phase = match n % 10 {
                0 => TaskPhase::Failed,
                1 => TaskPhase::WaitsForWorker,
                _ => TaskPhase::Finished,
            };
            TaskRow {
                task_id: TaskId::new(n, ActorId([3; ActorId::LEN])),
                name: if n % 1_000 == 7 { "rare" } else { "often" }.to_owned(),
                phase,
                created_ms: 1 + at,
                started_us: if phase.is_over() { 20_000_000 } else { 0 },
                ended_us: if phase.is_over() { 20_000_000 + at % 997 * 1_000 } else { 0 },
                ..TaskRow::default()
            }
        };
        let tasks = (0..10_007).map(task).collect();
        let mut calls = Calls::default();
        calls.add(&[Answer { tasks, ..Answer::default() }], true);
        Told::of_calls(Arc::new(RwLock::new(calls)), 0, Vec::new())
    }

    #[test]
    fn pages_of_a_table_are_those_of_its_rows() {
        let told = table();
        let calls = told.calls.as_ref().unwrap();
        let rows = Told::all(read(calls).all().map(|call| call.row()).collect(), 0);
        let filter = |column: &str, predicate: &str, value: &str| {
            format!("&filter_keys={column}&filter_predicates={predicate}&filter_values={value}")
        };
        let filters = [
            String::new(),
            filter("name", "%3D", "rare"),
            filter("name", "!%3D", "rare") + &filter("state", "%3D", "FAILED"),
            filter("state", "%3D", "PENDING_NODE_ASSIGNMENT"),
            filter("job_id", "%3D", "01000000"),
            filter("name", "%3D", "nobody"),
        ];
        for filters in &filters {
            for order in ["", "creation_time_ms", "took", "end_time_ms", "attempt_number"] {
                let mut query = format!("limit=700&detail=1&why=1&order={order}{filters}");
                for _ in 0..3 {
                    let wanted = Wanted::parse(&query).unwrap();
                    let of = |told: &Told| value(wanted.page(Resource::Tasks, told).unwrap());
                    let (page, expected) = (of(&told), of(&rows));
                    for what in ["result", "next", "num_filtered"] {
                        assert_eq!(page[what], expected[what], "{query}: {what}");
                    }
                    let Some(next) = page["next"].as_str() else { break };
                    query = format!("limit=700&detail=1&why=1&order={order}{filters}&next={next}");
                }
            }
        }
    }

    /// Sixteen blocks of calls as a cluster makes them: nearly all are of one function, and the latest ended last.
    #[test]
    fn of_a_table_that_a_filter_does_not_narrow_a_block_or_two_are_looked_at() {
        let task = |n: u64| TaskRow {
            task_id: TaskId::new(n, ActorId([3; ActorId::LEN])),
            name: if n == 9 { "rare" } else { "often" }.to_owned(),
            phase: if n == 9 { TaskPhase::Failed } else { TaskPhase::Finished },
            created_ms: 1 + n,
            started_us: 1_000 * (1 + n),
            // One in ten thousand takes long, a later one longer.
            ended_us: 1_000 * (2 + n) + if n % 10_000 == 5 { 1_000_000 + n } else { 0 },
            ..TaskRow::default()
        };
        let tasks = (0..65_536).map(task).collect();
        let mut calls = Calls::default();
        calls.add(&[Answer { tasks, ..Answer::default() }], true);
        let told = Told::of_calls(Arc::new(RwLock::new(calls)), 0, Vec::new());
        let looked_at = |query: &str| {
            let page = Wanted::parse(query).unwrap().page(Resource::Tasks, &told).unwrap();
            assert!(page.about.num_filtered > 0);
            page.looked_at
        };
        let of = |column: &str, value: &str| {
            format!("&filter_keys={column}&filter_predicates=%3D&filter_values={value}")
        };
        for order in ["creation_time_ms", "start_time_ms", "end_time_ms"] {
            for filter in [String::new(), of("name", "often"), of("state", "FINISHED")] {
                let query = format!("limit=100&order={order}{filter}");
                assert!(looked_at(&query) <= 2 * 4_096, "{query}: {}", looked_at(&query));
            }
        }
        let slowest = format!("limit=1&order=took{}", of("name", "often"));
        assert!(looked_at(&slowest) <= 4 * 4_096, "{}", looked_at(&slowest));
        assert!(looked_at(&of("name", "rare")) <= 4_096);
        assert!(looked_at(&of("state", "FAILED")) <= 4_096);
        let id = TaskId::new(40_000, ActorId([3; ActorId::LEN])).hex();
        assert_eq!(looked_at(&of("task_id", &id)), 1);
    }

    #[test]
    fn pages_are_made_while_the_table_is_written_to() {
        let told = table();
        let written = Arc::clone(told.calls.as_ref().unwrap());
        let writer = std::thread::spawn(move || {
            for _ in 0..200 {
                drop(written.write().unwrap());
            }
        });
        while !writer.is_finished() {
            let page = Wanted::parse("limit=1&order=took").unwrap().page(Resource::Tasks, &told);
            assert_eq!(page.unwrap().about.num_after_truncation, 10_007);
        }
        writer.join().unwrap();
    }
}
