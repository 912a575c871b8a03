//! The format of a line of a log: Ray's two forms, with the event's fields.
//!
//! Text: `[<date> <level> <process> <thread>] (<component>) <file>:<line>: <message> <name>=<value> …`; a value
//! with spaces is quoted. JSON: one object a line, with the keys `asctime`, `levelname`, `component`, `message`,
//! `filename`, `lineno`, and one of each field. The component is the crate, without `helio_` or `_`.

#![allow(unsafe_code, reason = "the date of the user's time zone")]

use std::fmt::{self, Write as _};

use helio_config::log_level::LogLevel;
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata};

use crate::clock::unix_ms;

/// The field that makes an event end the process; it is not shown.
pub(super) const FATAL: &str = "fatal";

/// **LIMIT-1** The most that a value of a field takes, in bytes; the rest is cut off.
const VALUE_MAX: usize = 16 << 10;

/// The line of an event, with its line feed.
pub(super) fn of(event: &Event<'_>, level: LogLevel, is_json: bool) -> String {
    let mut parts = Parts { is_json, message: String::new(), fields: String::new() };
    event.record(&mut parts);
    let at = Place::of(event.metadata());
    if is_json { json(level, &at, &parts) } else { text(level, &at, &parts) }
}

/// The line that stands for lines that could not be written.
pub(super) fn of_loss(lost: u64, error: &str, is_json: bool) -> String {
    let mut parts = Parts { is_json, message: String::new(), fields: String::new() };
    parts.message.push_str("lines before this one could not be written");
    parts.add("lost", &lost.to_string(), false);
    parts.add("error", error, true);
    let at = Place { component: "env", file: "file.rs", line: 0 };
    let level = LogLevel::Warning;
    if is_json { json(level, &at, &parts) } else { text(level, &at, &parts) }
}

/// The position of an event in the source.
struct Place<'a> {
    component: &'a str,
    file: &'a str,
    line: u32,
}

impl<'a> Place<'a> {
    fn of(metadata: &'a Metadata<'_>) -> Self {
        let target = metadata.target();
        let of_crate = target.split("::").next().unwrap_or(target);
        let path = metadata.file().unwrap_or_default();
        Self {
            component: of_crate.strip_prefix("helio_").unwrap_or(of_crate.trim_start_matches('_')),
            file: path.rsplit('/').next().unwrap_or(path),
            line: metadata.line().unwrap_or_default(),
        }
    }
}

/// The message, and the fields as they stand in the line.
struct Parts {
    is_json: bool,
    message: String,
    fields: String,
}

impl Parts {
    /// `is_text`: the value is neither a number nor a boolean.
    fn add(&mut self, name: &str, value: &str, is_text: bool) {
        if name == FATAL {
            return;
        }
        let value = cut(value);
        let fields = &mut self.fields;
        if self.is_json {
            fields.push(',');
            quote(fields, name);
            fields.push(':');
            if is_text { quote(fields, value) } else { fields.push_str(value) }
        } else {
            let is_plain = !value.is_empty()
                && !value.contains(|c: char| c.is_whitespace() || c.is_control() || c == '"');
            fields.push(' ');
            fields.push_str(name);
            fields.push('=');
            if is_plain { fields.push_str(value) } else { quote(fields, value) }
        }
    }
}

impl Visit for Parts {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = Bounded(String::new());
        // The write stops where the text is full.
        let _ = write!(text, "{value:?}");
        self.record_str(field, &text.0);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message.push_str(cut(value));
        } else {
            self.add(field.name(), value, true);
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field.name(), &value.to_string(), false);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field.name(), &value.to_string(), false);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field.name(), if value { "true" } else { "false" }, false);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no number for the others.
        self.add(field.name(), &value.to_string(), !value.is_finite());
    }
}

/// Takes text up to [`VALUE_MAX`].
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.push_str(text);
        if self.0.len() > VALUE_MAX { Err(fmt::Error) } else { Ok(()) }
    }
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(VALUE_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn text(level: LogLevel, at: &Place<'_>, parts: &Parts) -> String {
    let Place { component, file, line } = at;
    let mut out = String::with_capacity(96 + parts.message.len() + parts.fields.len());
    let (pid, thread) = (std::process::id(), rustix::thread::gettid().as_raw_nonzero());
    let date = Date(unix_ms());
    let _ = write!(out, "[{date} {} {pid} {thread}] ({component}) {file}:{line}: ", letter(level));
    // An event is one line, whatever its message holds.
    for c in parts.message.chars() {
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out.push_str(&parts.fields);
    out.push('\n');
    out
}

fn json(level: LogLevel, at: &Place<'_>, parts: &Parts) -> String {
    let Place { component, file, line } = at;
    let mut out = String::with_capacity(160 + parts.message.len() + parts.fields.len());
    let date = Date(unix_ms());
    let _ = write!(
        out,
        "{{\"asctime\":\"{date}\",\"levelname\":\"{}\",\"component\":\"{component}\",\"message\":",
        letter(level)
    );
    quote(&mut out, &parts.message);
    out.push_str(",\"filename\":");
    quote(&mut out, file);
    let _ = write!(out, ",\"lineno\":{line}");
    out.push_str(&parts.fields);
    out.push_str("}\n");
    out
}

/// Appends the text as a string of JSON.
fn quote(out: &mut String, text: &str) {
    let _ = write!(out, "{}", serde_json::Value::from(text));
}

const fn letter(level: LogLevel) -> char {
    match level {
        LogLevel::Trace => 'T',
        LogLevel::Debug => 'D',
        LogLevel::Info => 'I',
        LogLevel::Warning => 'W',
        LogLevel::Error => 'E',
        // For "critical", as Ray writes it.
        LogLevel::Fatal => 'C',
    }
}

/// `2026-01-31 23:59:59,001` in this machine's time zone.
struct Date(u64);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = (self.0 / 1000) as libc::time_t;
        // SAFETY: zeros are a value of this plain structure.
        let mut split: libc::tm = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are valid for the call. The time zone is read when the first log line is
        // written; later changes of the environment by user code are not looked at.
        unsafe { libc::localtime_r(&raw const seconds, &raw mut split) };
        write!(
            f,
            "{:04}-{:02}-{:02} {:02}:{:02}:{:02},{:03}",
            split.tm_year + 1900,
            split.tm_mon + 1,
            split.tm_mday,
            split.tm_hour,
            split.tm_min,
            split.tm_sec,
            self.0 % 1000
        )
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn parts(is_json: bool, message: &str) -> Parts {
        let mut parts = Parts { is_json, message: message.to_owned(), fields: String::new() };
        parts.add("node_id", "ab12", true);
        parts.add("why", "its disk \"sda\"\nis full", true);
        parts.add("pid", "17", false);
        parts.add("is_head", "true", false);
        parts.add(FATAL, "true", false);
        parts.add("empty", "", true);
        parts
    }

    const AT: Place<'_> = Place { component: "node", file: "core.rs", line: 7 };

    #[test]
    fn a_line_of_text_holds_message_and_fields() {
        let line = text(LogLevel::Warning, &AT, &parts(false, "two\nlines"));
        let (head, rest) = line.split_once("] ").unwrap();
        let words: Vec<&str> = head.split(' ').collect();
        assert_eq!(words[2..4], ["W", &std::process::id().to_string()], "{head}");
        let (date, time) = (words[0], words[1]);
        assert!(date.len() == 11 && time.len() == 12 && time.as_bytes()[8] == b',', "{head}");
        assert_eq!(
            rest,
            "(node) core.rs:7: two\\nlines node_id=ab12 why=\"its disk \\\"sda\\\"\\nis full\" pid=17 \
             is_head=true empty=\"\"\n"
        );
    }

    #[test]
    fn a_line_of_json_is_an_object_with_the_types_of_its_fields() {
        let line = json(LogLevel::Fatal, &AT, &parts(true, "two\nlines"));
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        let object = value.as_object().unwrap();
        assert_eq!(object["asctime"].as_str().unwrap().len(), 23);
        let rest = serde_json::json!({
            "asctime": object["asctime"], "levelname": "C", "component": "node", "message": "two\nlines",
            "filename": "core.rs", "lineno": 7, "node_id": "ab12", "why": "its disk \"sda\"\nis full",
            "pid": 17, "is_head": true, "empty": "",
        });
        assert_eq!(value, rest);
    }

    /// LIMIT-1.
    #[test]
    fn a_huge_value_is_cut() {
        let mut bounded = Bounded(String::new());
        let _ = write!(bounded, "{:?}", vec![1u8; 1 << 20]);
        assert!(bounded.0.len() < 2 * VALUE_MAX, "{}", bounded.0.len());
        let long = "ä".repeat(VALUE_MAX);
        assert!(cut(&long).len() <= VALUE_MAX && cut("short") == "short");
    }
}
