//! `list`, `get`, `summary`, `timeline`: what there is in the cluster, as any client could ask for it.

use std::path::{Path, PathBuf};

use helio_observer::{Asker, Told};
use helio_proto::control::{ControlRequest, ControlResponse};
use helio_proto::inspect::{Answers, Question, Topic};
use helio_report::select::{Filter, select, shown};
use helio_report::{Resource, Row, summary, trace};
use serde_json::{Value, json};

use crate::args::{Format, Get, List, Summary, Timeline};
use crate::{folder, locate, observer, output, table};

/// The cluster that is asked: through the daemon of this machine.
pub(crate) struct Cluster {
    socket: PathBuf,
    token: String,
    address: String,
}

impl Cluster {
    pub(crate) fn find(address: Option<&str>) -> Result<Self, String> {
        let found = locate::choose(&folder::temp_dir(None), address)?;
        let socket = Path::new(found.text("node_socket")).to_owned();
        let address = found.text("control_address").to_owned();
        Ok(Self { socket, token: locate::token()?, address })
    }

    /// Host and port of its head.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn inspect(&self, topic: Topic, id: &[u8]) -> Result<Answers, String> {
        let question = Question { topic, id: id.to_vec(), ..Question::default() };
        let told = observer::inspect(&self.socket, &self.token, question)?;
        warn_of(told.silent);
        Ok(told)
    }

    pub(crate) fn ask(
        &self,
        request: impl Into<ControlRequest>,
    ) -> Result<ControlResponse, String> {
        observer::ask(&self.socket, &self.token, request)
    }

    pub(crate) fn rows(&self, resource: Resource) -> Result<Vec<Row>, String> {
        Ok(self.told(resource)?.rows)
    }

    fn told(&self, resource: Resource) -> Result<Told, String> {
        let asker = Asker::new(&self.socket, &self.token);
        let told = observer::block_on(asker.rows(resource))??;
        warn_of(told.silent);
        Ok(told)
    }
}

fn warn_of(silent: u32) {
    if silent > 0 {
        eprintln!("{silent} processes or nodes did not answer in time; their part is missing.");
    }
}

fn named(name: &str) -> Result<Resource, String> {
    let found = Resource::named(name).or_else(|| Resource::named(&format!("{name}s")));
    found.ok_or_else(|| {
        let known: Vec<&str> = Resource::ALL.iter().map(|resource| resource.name()).collect();
        format!("There is nothing called {name:?} to list: {}.", known.join(", "))
    })
}

pub(crate) fn list(args: &List) -> Result<(), String> {
    let resource = named(&args.resource)?;
    let filters =
        args.filter.iter().map(|text| Filter::parse(text)).collect::<Result<Vec<_>, _>>()?;
    filters.iter().try_for_each(|filter| filter.check(resource))?;
    let Told { rows: all, total, .. } =
        Cluster::find(args.cluster.address.as_deref())?.told(resource)?;
    let n_rows = all.len() as u64;
    let chosen = select(all, &filters);
    let n_chosen = chosen.len() as u64;
    let shown: Vec<Row> = chosen.into_iter().take(args.limit).collect();
    let columns = resource.names(args.detail);
    match args.format {
        // A program finds every column there; those for detail are null unless it asked for them.
        Format::Json => {
            let cut = |row: &Row| {
                row.iter()
                    .filter(|(name, _)| columns.contains(&name.as_str()))
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect()
            };
            let rows: Vec<Row> = shown.iter().map(cut).collect();
            output::line(&json(&rows, &resource.names(true)).to_string());
        }
        Format::Yaml => output::print(&yaml(&shown, &columns)),
        Format::Default | Format::Table if args.detail => output::print(&yaml(&shown, &columns)),
        Format::Default | Format::Table => {
            output::print(&table(&shown, &columns, args.wide));
            let matching = (!filters.is_empty()).then_some(n_chosen);
            output::line(&footer(resource.name(), shown.len(), matching, n_rows, total));
        }
    }
    Ok(())
}

/// The number of rows that are shown, below them: of all, or (`matching`) of those for which the filters hold. Of
/// `total` things `n_rows` have a row: the oldest calls have none that a filter could look at.
fn footer(name: &str, n_shown: usize, matching: Option<u64>, n_rows: u64, total: u64) -> String {
    let known = match total - n_rows.min(total) {
        0 => format!("{total} known"),
        counted => format!("{total} known, of which {counted} are only counted"),
    };
    match matching {
        None => format!("{n_shown} of {total} {name}"),
        Some(0) => format!("None of the {name} matches ({known})"),
        Some(matching) => format!("{n_shown} of {matching} {name} that match ({known})"),
    }
}

pub(crate) fn get(args: &Get) -> Result<(), String> {
    let resource = named(&args.resource)?;
    let all = Cluster::find(args.cluster.address.as_deref())?.rows(resource)?;
    // A job that was submitted has two ids.
    let others = if resource == Resource::Jobs { &["submission_id"][..] } else { &[] };
    let is_it = |row: &Row| {
        let mut keys = [resource.key()].into_iter().chain(others.iter().copied());
        keys.any(|key| row.get(key).map(shown).as_deref() == Some(&args.id))
    };
    let found: Vec<Row> = all.into_iter().filter(is_it).collect();
    if found.is_empty() {
        return Err(format!("None of the {} has the id {}.", resource.name(), args.id));
    }
    let columns = resource.names(true);
    match args.format {
        Format::Json => output::line(&json(&found, &columns).to_string()),
        Format::Table => output::print(&table(&found, &columns, args.wide)),
        Format::Default | Format::Yaml => output::print(&yaml(&found, &columns)),
    }
    Ok(())
}

pub(crate) fn summarize(args: &Summary) -> Result<(), String> {
    let resource = named(&args.resource)?;
    let told = Cluster::find(args.cluster.address.as_deref())?.told(resource)?;
    let summary = match resource {
        Resource::Tasks => json!(summary::tasks(&told.rows, &told.more)),
        Resource::Actors => json!(summary::actors(&told.rows)),
        Resource::Objects => json!(summary::objects(&told.rows, told.total)),
        other => {
            return Err(format!(
                "There is no summary of {}: tasks, actors, objects.",
                other.name()
            ));
        }
    };
    match args.format {
        Format::Default | Format::Table => {
            let width = table::terminal().filter(|_| !args.wide);
            output::print(&summary_table(resource, &summary, width));
        }
        Format::Yaml => output::print(&yaml(
            &[summary.as_object().cloned().unwrap_or_default()],
            &summary
                .as_object()
                .map(|all| all.keys().map(String::as_str).collect::<Vec<_>>())
                .unwrap_or_default(),
        )),
        Format::Json => output::line(
            &serde_json::to_string_pretty(&summary).map_err(|error| error.to_string())?,
        ),
    }
    Ok(())
}

/// Columns of a summary's table, and the fields that they show.
fn summary_columns(resource: Resource) -> &'static [(&'static str, &'static str)] {
    match resource {
        Resource::Tasks => {
            &[("function", "func_or_class_name"), ("type", "type"), ("states", "state_counts")]
        }
        Resource::Actors => &[("class", "class_name"), ("states", "state_counts")],
        _ => &[
            ("call_site", ""),
            ("references", "total_objects"),
            ("mb", "total_size_mb"),
            ("workers", "total_num_workers"),
            ("nodes", "total_num_nodes"),
            ("tasks", "task_state_counts"),
            ("reference_types", "ref_type_counts"),
        ],
    }
}

/// A line for each group, the sums below it; `width`: of the terminal that lines are to fit into.
fn summary_table(resource: Resource, summary: &Value, width: Option<usize>) -> String {
    let columns = summary_columns(resource);
    let groups = summary["summary"].as_object().into_iter().flatten();
    let rows: Vec<Row> = groups
        .map(|(name, group)| {
            let cell = |field: &str| match (&group[field], field) {
                (_, "") => name.clone(),
                (Value::Object(counts), _) => {
                    let counts = counts.iter().map(|(state, count)| format!("{state}: {count}"));
                    counts.collect::<Vec<_>>().join(", ")
                }
                (Value::Number(number), "total_size_mb") => {
                    format!("{:.1}", number.as_f64().unwrap_or_default())
                }
                (value, _) => shown(value),
            };
            columns
                .iter()
                .map(|(title, field)| ((*title).to_owned(), Value::from(cell(field))))
                .collect()
        })
        .collect();
    let titles: Vec<&str> = columns.iter().map(|(title, _)| *title).collect();
    let mut text = match width {
        Some(width) => table::named_within(width, &rows, &titles),
        None => table::whole(&rows, &titles),
    };
    for (name, value) in summary.as_object().into_iter().flatten() {
        if name.starts_with("total_") || name == "note" {
            let name = name.replace('_', " ");
            let value = match value.as_f64().filter(|_| value.is_f64()) {
                Some(number) => format!("{number:.1}"),
                None => shown(value),
            };
            text.push_str(&format!("{name}: {value}\n"));
        }
    }
    text
}

pub(crate) fn timeline(args: &Timeline) -> Result<(), String> {
    let cluster = Cluster::find(args.cluster.address.as_deref())?;
    let (tasks, nodes) = (cluster.rows(Resource::Tasks)?, cluster.rows(Resource::Nodes)?);
    let now_us = helio_env::clock::unix_us();
    let events = Value::from(trace::chrome(&tasks, &nodes, now_us));
    let path = args.output.clone().unwrap_or_else(|| {
        std::env::temp_dir().join(format!("ray-timeline-{}.json", now_us / 1_000_000))
    });
    std::fs::write(&path, events.to_string())
        .map_err(|error| format!("{}: {error}", path.display()))?;
    output::line(&format!("Trace file written to {}.", path.display()));
    output::line(
        "You can open this with chrome://tracing in the Chrome browser, or at ui.perfetto.dev.",
    );
    Ok(())
}

fn json(rows: &[Row], columns: &[&str]) -> Value {
    let cut = |row: &Row| -> Row {
        columns
            .iter()
            .map(|column| ((*column).to_owned(), row.get(*column).cloned().unwrap_or(Value::Null)))
            .collect()
    };
    rows.iter().map(cut).map(Value::Object).collect()
}

/// Rows as YAML: JSON is YAML, so values are written as JSON.
fn yaml(rows: &[Row], columns: &[&str]) -> String {
    let mut text = String::new();
    for row in rows {
        text.push_str("---\n");
        for (place, column) in columns.iter().enumerate() {
            let value = row.get(*column).cloned().unwrap_or(Value::Null);
            let lead = if place == 0 { "- " } else { "  " };
            text.push_str(&format!("{lead}{column}: {value}\n"));
        }
    }
    if rows.is_empty() { "[]\n".to_owned() } else { text }
}

/// A table for whoever reads the output.
fn table(rows: &[Row], columns: &[&str], is_wide: bool) -> String {
    match table::terminal().filter(|_| !is_wide) {
        Some(width) => table::within(width, rows, columns),
        None => table::whole(rows, columns),
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn a_summary_is_a_table_with_its_sums() {
        let rows = [
            json!({"func_or_class_name": "f", "state": "FINISHED", "type": "NORMAL_TASK"}),
            json!({"func_or_class_name": "f", "state": "RUNNING", "type": "NORMAL_TASK"}),
        ];
        let rows: Vec<Row> = rows.iter().filter_map(|row| row.as_object().cloned()).collect();
        let text = summary_table(Resource::Tasks, &json!(summary::tasks(&rows, &[])), None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "FUNCTION  TYPE         STATES");
        assert_eq!(lines[1], "f         NORMAL_TASK  FINISHED: 1, RUNNING: 1");
        assert!(lines.contains(&"total tasks: 2"), "{text}");
    }

    #[test]
    fn a_summary_fits_the_terminal() {
        let name = |end: &str| format!("{}{end}", "a_function_with_a_long_name_".repeat(5));
        let row = |name: String, state: &str| json!({"func_or_class_name": name, "state": state, "type": "ACTOR_TASK"});
        let rows = [row(name("x"), "FINISHED"), row(name("y"), "PENDING_NODE_ASSIGNMENT")];
        let rows: Vec<Row> = rows.iter().filter_map(|row| row.as_object().cloned()).collect();
        let told = json!(summary::tasks(&rows, &[]));
        for width in [40, 80, 100, 160] {
            let text = summary_table(Resource::Tasks, &told, Some(width));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
        }
        let text = summary_table(Resource::Tasks, &told, Some(80));
        assert!(text.contains("PENDING_NODE_ASSIGNMENT: 1"), "{text}");
        assert!(text.contains("_x") && text.contains("_y"), "the ends of names differ: {text}");
        assert!(summary_table(Resource::Tasks, &told, None).contains(&name("x")));
    }

    #[test]
    fn a_footer_says_how_many_there_are() {
        assert_eq!(footer("tasks", 100, None, 500, 900), "100 of 900 tasks");
        assert_eq!(footer("tasks", 2, Some(2), 500, 500), "2 of 2 tasks that match (500 known)");
        assert_eq!(
            footer("tasks", 0, Some(0), 500, 900),
            "None of the tasks matches (900 known, of which 400 are only counted)"
        );
    }

    #[test]
    fn rows_have_forms_for_programs() {
        let rows: Vec<Row> = [
            json!({"id": "ab", "n": 1, "x": null}),
            json!({"id": "abcd", "n": 22, "x": {"a": 1.5}}),
        ]
        .iter()
        .filter_map(|row| row.as_object().cloned())
        .collect();
        assert_eq!(json(&rows[..1], &["n", "missing"]), json!([{"n": 1, "missing": null}]));
        assert_eq!(
            yaml(&rows, &["id", "x"]),
            "---\n- id: \"ab\"\n  x: null\n---\n- id: \"abcd\"\n  x: {\"a\":1.5}\n"
        );
        assert_eq!(yaml(&[], &["id"]), "[]\n");
    }
}
