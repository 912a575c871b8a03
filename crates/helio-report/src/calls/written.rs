//! The row of a call as JSON, written without making the row: a page of a hundred is asked for five times a second.

use std::fmt::Write as _;

use helio_types::{ActorId, JobId, NodeId, ResourceSet, WorkerId};

use super::found::Found;
use crate::rows;

/// Writes a text as JSON.
fn put_text(text: &str, out: &mut String) {
    let is_plain = text.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\');
    if is_plain {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&serde_json::Value::from(text).to_string());
    }
}

/// Writes a text in quotes; null for an empty one.
fn put_text_or_null(text: &str, out: &mut String) {
    match text.is_empty() {
        true => out.push_str("null"),
        false => put_text(text, out),
    }
}

fn put_hex(id: &[u8], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push('"');
    for byte in id {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    out.push('"');
}

/// Writes an id as hexadecimal digits; null: there is none.
fn put_id(id: Option<&[u8]>, out: &mut String) {
    match id {
        Some(id) => put_hex(id, out),
        None => out.push_str("null"),
    }
}

/// A number that says nothing where it is 0.
fn put_number(number: u64, out: &mut String) {
    match number {
        0 => out.push_str("null"),
        number => {
            let _ = write!(out, "{number}");
        }
    }
}

impl Found<'_> {
    /// Writes the row of the call as a JSON object with these columns; null is what the row has not.
    pub fn write(&self, columns: &[&str], out: &mut String) {
        if self.call.is_constructor {
            let mut row = self.row();
            let value =
                |column: &&str| ((*column).to_owned(), row.remove(*column).unwrap_or_default());
            let row: crate::Row = columns.iter().map(value).collect();
            out.push_str(&serde_json::Value::Object(row).to_string());
            return;
        }
        out.push('{');
        for (place, column) in columns.iter().enumerate() {
            if place > 0 {
                out.push(',');
            }
            put_text(column, out);
            out.push(':');
            self.write_column(column, out);
        }
        out.push('}');
    }

    fn write_column(&self, column: &str, out: &mut String) {
        let (table, call) = (self.table, self.call);
        let phase = self.phase();
        let started_us = if phase == call.phase { call.started_us } else { 0 };
        let actor_id = table.actors.get(call.actor).unwrap_or(ActorId::NIL);
        let job_id = || table.jobs.get(call.job).unwrap_or(JobId::NIL);
        match column {
            "task_id" => put_hex(&self.key.0.0, out),
            "attempt_number" => {
                let _ = write!(out, "{}", self.key.1);
            }
            "name" | "func_or_class_name" => put_text(table.names.get(call.name), out),
            "state" => put_text(phase.name(), out),
            "job_id" => put_hex(&job_id().0, out),
            "actor_id" => put_id((!actor_id.is_nil()).then_some(&actor_id.0[..]), out),
            "type" => {
                put_text(if actor_id.is_nil() { "NORMAL_TASK" } else { "ACTOR_TASK" }, out);
            }
            "parent_task_id" => match table.parents.get(call.parent) {
                Some(maker) => put_text(&rows::parent(*maker, job_id()), out),
                None => out.push_str("null"),
            },
            "node_id" => {
                let id: &Option<NodeId> = table.nodes.get(call.node);
                put_id(id.as_ref().map(|id| &id.0[..]), out);
            }
            "worker_id" => {
                let id: &Option<WorkerId> = table.workers.get(call.worker);
                put_id(id.as_ref().map(|id| &id.0[..]), out);
            }
            "worker_pid" => {
                let worker_id = table.workers.get(call.worker).unwrap_or(WorkerId::NIL);
                put_number(table.pids.get(&worker_id).copied().unwrap_or_default().into(), out);
            }
            "error_type" => put_text_or_null(&table.errors.get(call.error).0, out),
            "error_message" => put_text_or_null(&table.errors.get(call.error).1, out),
            "language" => put_text("PYTHON", out),
            "required_resources" => {
                let none = ResourceSet::default();
                let set = table.resource_sets.get(call.resources as usize).unwrap_or(&none);
                out.push_str(&rows::resources(set).to_string());
            }
            "creation_time_ms" => put_number(call.created_ms, out),
            "start_time_ms" => put_number(started_us / 1000, out),
            "end_time_ms" => put_number(call.ended_us / 1000, out),
            "events" => {
                let way = rows::way(started_us, call.ended_us, phase, call.created_ms);
                out.push('[');
                for (place, (state, at_ms)) in way.enumerate() {
                    let comma = if place > 0 { "," } else { "" };
                    let _ = write!(out, "{comma}{{\"state\":\"{state}\",\"created_ms\":{at_ms}}}");
                }
                out.push(']');
            }
            "why" => put_text_or_null(table.whys.get(call.why), out),
            _ => out.push_str("null"),
        }
    }
}
