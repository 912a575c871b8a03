//! Calls that run or ran lately, as bars on the lanes of processes, and failures, grouped. Pure.

use std::collections::BTreeMap;

use helio_report::Row;
use helio_report::calls::{Calls, Found};
use helio_types::JobId;
use serde_json::Value;

use crate::answers::tasks::{Activity, Failure, Failures};

/// LIMIT-1: as many bars as one answer may have; of more the latest are told.
pub(crate) const BARS_MAX: usize = 4000;
/// LIMIT-1: groups of errors.
const GROUPS_MAX: usize = 100;

fn text<'row>(row: &'row Row, column: &str) -> &'row str {
    row.get(column).and_then(Value::as_str).unwrap_or_default()
}

fn number(row: &Row, column: &str) -> u64 {
    row.get(column).and_then(Value::as_u64).unwrap_or_default()
}

/// The calls of a job (`""`: of all jobs) that run now or ended after `since_ms` (milliseconds since 1970), the
/// latest last, at most `most` of them. A running call has an `end` of 0.
pub(crate) fn bars(
    calls: &Calls,
    since_ms: u64,
    job: Option<JobId>,
    most: usize,
    now_ms: u64,
) -> Activity {
    let stream = calls.stream(since_ms.max(1).saturating_mul(1000), job, most);
    let bars = stream.calls.iter().map(Found::bar).collect();
    Activity { now: now_ms, bars, is_cut: stream.is_cut }
}

struct Group<'row> {
    count: u64,
    last: &'row Row,
}

/// Calls that have failed, those of one function with the same error as one, whatever numbers it names; the most frequent
/// first.
pub(crate) fn errors(tasks: &[Row]) -> Failures {
    let mut groups: BTreeMap<(&str, &str, String), Group<'_>> = BTreeMap::new();
    for row in tasks.iter().filter(|row| text(row, "state") == "FAILED") {
        let said = without_numbers(last_line(text(row, "error_message")));
        let key = (text(row, "func_or_class_name"), text(row, "error_type"), said);
        let group = groups.entry(key).or_insert(Group { count: 0, last: row });
        group.count += 1;
        if number(row, "end_time_ms") >= number(group.last, "end_time_ms") {
            group.last = row;
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.count));
    let left_out = groups.len().saturating_sub(GROUPS_MAX);
    groups.truncate(GROUPS_MAX);
    let failure = |((function, kind, _), Group { count, last }): ((&str, &str, _), _)| Failure {
        function: function.to_owned(),
        error_type: kind.to_owned(),
        message: last_line(text(last, "error_message")).to_owned(),
        count,
        last_ms: number(last, "end_time_ms"),
        task_id: text(last, "task_id").to_owned(),
        node_id: text(last, "node_id").to_owned(),
    };
    Failures { groups: groups.into_iter().map(failure).collect(), left_out: left_out as u64 }
}

/// Returns the last line of a traceback, or the whole of a one-line message.
fn last_line(message: &str) -> &str {
    message.trim_end().rsplit('\n').next().unwrap_or_default().trim()
}

/// Number of letters from which on a hexadecimal word is an id.
const ID_MIN: usize = 8;

/// A message with `#` for each number, address and id: in these the same error of two calls differs.
fn without_numbers(message: &str) -> String {
    let (mut plain, mut word) = (String::with_capacity(message.len()), String::new());
    for letter in message.chars().chain([' ']) {
        if letter.is_ascii_alphanumeric() {
            word.push(letter);
        } else {
            push_word(&mut plain, &word);
            plain.push(letter);
            word.clear();
        }
    }
    plain
}

fn push_word(plain: &mut String, word: &str) {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let has_digit = digits.bytes().any(|byte| byte.is_ascii_digit());
    // Words such as `added` are hexadecimal, too: only those with a digit can be ids.
    if is_hex && has_digit && (digits.len() >= ID_MIN || digits.len() < word.len()) {
        plain.push('#');
        return;
    }
    let mut was_digit = false;
    for letter in word.chars() {
        let is_digit = letter.is_ascii_digit();
        if !is_digit || !was_digit {
            plain.push(if is_digit { '#' } else { letter });
        }
        was_digit = is_digit;
    }
}

#[cfg(test)]
mod tests {
    use helio_proto::inspect::{Answer, TaskPhase, TaskRow};
    use helio_types::{ActorId, TaskId};
    use serde_json::json;

    use super::*;

    fn rows(values: &[Value]) -> Vec<Row> {
        values.iter().filter_map(|row| row.as_object().cloned()).collect()
    }

    /// A call of the first job; times in milliseconds, 0: not yet.
    fn call(number: u64, phase: TaskPhase, start: u64, end: u64) -> TaskRow {
        TaskRow {
            task_id: TaskId::new(number, ActorId([0; ActorId::LEN])),
            name: "f".to_owned(),
            phase,
            started_us: start * 1000,
            ended_us: end * 1000,
            ..TaskRow::default()
        }
    }

    fn table(tasks: Vec<TaskRow>) -> Calls {
        let job_id = JobId([1; JobId::LEN]);
        let mut calls = Calls::default();
        calls.add(&[Answer { job_id, tasks, ..Answer::default() }], true);
        calls
    }

    fn starts(told: &Activity) -> Vec<u64> {
        told.bars.iter().map(|bar| bar.start).collect()
    }

    #[test]
    fn bars_are_of_what_runs_or_ended_since_then() {
        let calls = table(vec![
            call(1, TaskPhase::Finished, 90, 110),
            call(2, TaskPhase::Finished, 10, 99),
            call(3, TaskPhase::Sent, 5, 0),
            call(4, TaskPhase::WaitsForWorker, 0, 0),
            // Its process is gone, and nobody knows when it ended.
            call(5, TaskPhase::Failed, 20, 0),
        ]);
        let told = bars(&calls, 100, None, BARS_MAX, 200);
        assert_eq!(starts(&told), [5, 90]);
        assert_eq!((told.now, told.is_cut), (200, false));
        let of_job = |number| {
            let job = JobId([number; JobId::LEN]);
            starts(&bars(&calls, 0, Some(job), BARS_MAX, 200))
        };
        assert_eq!(of_job(1), [5, 10, 90]);
        assert!(of_job(2).is_empty());
    }

    #[test]
    fn of_too_many_bars_the_latest_are_told() {
        let many = (1..=BARS_MAX as u64 + 5).map(|at| call(at, TaskPhase::Finished, at, at));
        let told = bars(&table(many.collect()), 0, None, BARS_MAX, 9);
        assert!(told.is_cut);
        assert_eq!(starts(&told), (6..=BARS_MAX as u64 + 5).collect::<Vec<_>>());
    }

    #[test]
    fn the_same_error_of_a_function_is_one_group() {
        let fails = |id: &str, name: &str, message: &str, end: u64| {
            json!({
                "task_id": id, "func_or_class_name": name, "state": "FAILED", "error_type": "TASK_EXECUTION_EXCEPTION",
                "error_message": message, "start_time_ms": 1, "end_time_ms": end,
            })
        };
        let traceback = "Traceback (most recent call last):\n  File 3\nValueError: no column\n";
        let told = errors(&rows(&[
            fails("a", "load", traceback, 10),
            fails("b", "load", "Traceback\n  File 4\nValueError: no column", 30),
            fails("c", "load", "KeyError: 'x'", 20),
            fails("d", "save", "ValueError: no column", 20),
            json!({ "task_id": "e", "func_or_class_name": "save", "state": "FINISHED" }),
        ]));
        assert_eq!(told.groups.len(), 3);
        let first = &told.groups[0];
        assert_eq!(first.message, "ValueError: no column");
        assert_eq!((first.count, first.task_id.as_str()), (2, "b"));
    }

    #[test]
    fn errors_that_differ_in_numbers_are_the_same() {
        let check = |message: &str, expect: &str| {
            assert_eq!(without_numbers(message).trim_end(), expect);
        };
        check("part-00017.parquet has no column `price`.", "part-#.parquet has no column `price`.");
        check(
            "(pid=8160, ip=192.0.2.2): <x.A object at 0x7feafa9265d0>",
            "(pid=#, ip=#.#.#.#): <x.A object at #>",
        );
        check("actor 7cd04911280ba4329f45976404000000 is dead", "actor # is dead");
        check(
            "db-7:5432 refused a f64 of added faces, für 1.5 s",
            "db-#:# refused a f# of added faces, für #.# s",
        );
        check("", "");
    }
}
