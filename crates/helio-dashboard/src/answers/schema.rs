//! The types of the answers for the page, `page/src/answers.ts`: `cargo xtask rows` writes them, and the test holds the
//! file to the structs.

use std::any::TypeId;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use helio_report::Resource;
use helio_report::parts::{CallStep, DeathCause, GroupBundle, GroupStats};
use helio_report::summary::{ActorSummary, ObjectSummary, TaskSummary};
use serde_json::Value;
use ts_rs::{Config, TS, TypeVisitor};

use super::cluster::{
    AuthenticationMode, ClusterMetadata, ClusterStatus, Machines, OneMachine, Version,
};
use super::figures::{Curves, MachineCurves};
use super::jobs::{Deleted, JobDetails, JobLogs, Stopped, Submitted};
use super::logs::FoundFiles;
use super::tasks::{Activity, Failures, Listing, Summarized};
use super::told::Runs;
use super::told::seen::{
    ApplicationRun, DatasetRun, RunCurves, SearchRun, StackAnswer, TrainingRun,
};
use super::{Envelope, Inner};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/page/src/answers.ts");

/// With this variable the test writes the file.
const WRITES: &str = "WRITE_ANSWERS";

const HEAD: &str = "// The answers of the head's routes, and which route gives which.
//
// Written by `cargo xtask rows` from crates/helio-dashboard/src/answers; do not edit.
import type { Lists } from \"./rows\";
";

struct Schema {
    config: Config,
    seen: HashSet<TypeId>,
    types: BTreeMap<String, String>,
    gets: String,
    others: String,
}

impl TypeVisitor for Schema {
    fn visit<T: TS + 'static + ?Sized>(&mut self) {
        if !self.seen.insert(TypeId::of::<T>()) {
            return;
        }
        if T::output_path().is_some() {
            let docs = T::docs().map_or_else(String::new, |docs| comment(&docs) + "\n");
            let text = format!("\n{docs}export {}\n", laid_out(&T::decl(&self.config)));
            self.types.insert(T::ident(&self.config), text);
        }
        T::visit_dependencies(self);
        T::visit_generics(self);
    }
}

impl Schema {
    fn name<T: TS + 'static>(&mut self) -> String {
        self.visit::<T>();
        T::name(&self.config)
    }

    /// Notes the type of the answer to `GET` of that path.
    fn get<T: TS + 'static>(&mut self, path: &str) {
        let name = self.name::<T>();
        // Writing to a `String` does not fail.
        let _ = writeln!(self.gets, "  {path:?}: {name};");
    }

    /// Notes the type of the answer to another method.
    fn other<T: TS + 'static>(&mut self, method: &str, path: &str) {
        let name = self.name::<T>();
        let _ = writeln!(self.others, "  \"{method} {path}\": {name};");
    }
}

/// A comment of several lines as one.
fn comment(docs: &str) -> String {
    let words: Vec<&str> = docs.split_whitespace().filter(|word| *word != "*").collect();
    words.join(" ")
}

/// A type with a line for each of its fields.
fn laid_out(declared: &str) -> String {
    let Some((head, rest)) = declared.split_once(" = { ") else { return declared.to_owned() };
    let (mut lines, mut line) = (vec![format!("{head} = {{")], Vec::new());
    let (mut depth, mut is_comment) = (0, false);
    for word in rest.trim_end_matches("};").split_whitespace() {
        is_comment |= word == "/**";
        if is_comment {
            line.push(word);
            if word == "*/" {
                lines.push(format!("  {}", comment(&line.join(" "))));
                line.clear();
                is_comment = false;
            }
            continue;
        }
        depth += word.matches(['<', '{', '[', '(']).count();
        depth -= word.matches(['>', '}', ']', ')']).count();
        line.push(word);
        if depth == 0 && word.ends_with(',') {
            lines.push(format!("  {};", line.join(" ").trim_end_matches(',')));
            line.clear();
        }
    }
    lines.push("};".to_owned());
    lines.join("\n")
}

/// The text of the file.
fn text() -> String {
    let mut all = Schema {
        config: Config::new().with_large_int("number"),
        seen: HashSet::new(),
        types: BTreeMap::new(),
        gets: String::new(),
        others: String::new(),
    };
    all.get::<Version>("/api/version");
    all.get::<AuthenticationMode>("/api/authentication_mode");
    all.get::<Vec<JobDetails>>("/api/jobs/");
    all.get::<JobDetails>("/api/jobs/{id}");
    all.get::<JobLogs>("/api/jobs/{id}/logs");
    all.other::<Submitted>("POST", "/api/jobs/");
    all.other::<Stopped>("POST", "/api/jobs/{id}/stop");
    all.other::<Deleted>("DELETE", "/api/jobs/{id}");
    all.get::<Envelope<ClusterStatus>>("/api/cluster_status");
    all.get::<Envelope<ClusterMetadata>>("/api/v0/cluster_metadata");
    all.get::<Envelope<Machines>>("/nodes");
    all.get::<Envelope<OneMachine>>("/nodes/{id}");
    // Within rows of lists, whose columns stand in rows.ts.
    all.visit::<(CallStep, DeathCause, GroupBundle, GroupStats)>();
    let listing = all.name::<Envelope<Inner<Listing<Value>>>>();
    for resource in Resource::ALL {
        let name = resource.name().replace('-', "_");
        let of = listing.replace("JsonValue", &format!("Lists[{name:?}]"));
        let _ = writeln!(all.gets, "  \"/api/v0/{name}\": {of};");
    }
    all.get::<Envelope<Inner<Summarized<TaskSummary>>>>("/api/v0/tasks/summarize");
    all.get::<Envelope<Inner<Summarized<ActorSummary>>>>("/api/v0/actors/summarize");
    all.get::<Envelope<Inner<Summarized<ObjectSummary>>>>("/api/v0/objects/summarize");
    all.get::<Activity>("/api/v0/tasks/activity");
    all.get::<Failures>("/api/v0/tasks/errors");
    // Of a request with `detail`.
    all.get::<Envelope<Inner<FoundFiles>>>("/api/v0/logs");
    all.get::<Curves>("/api/v0/metrics/past");
    all.get::<MachineCurves>("/api/v0/metrics/machines");
    all.get::<StackAnswer>("/api/v0/stacks/{node}/{pid}");
    all.get::<Runs<TrainingRun>>("/api/v0/training");
    all.get::<RunCurves>("/api/v0/training/{run}/curves");
    all.get::<Runs<SearchRun>>("/api/v0/tuning");
    all.get::<Runs<DatasetRun>>("/api/v0/datasets");
    all.get::<Runs<ApplicationRun>>("/api/v0/serving");
    let mut text = HEAD.to_owned();
    text.extend(all.types.into_values());
    let _ = write!(
        text,
        "\n/** What `GET` of a path answers; a name in braces stands for a part of the path. */\n\
         export interface Answers {{\n{}}}\n\
         \n/** The same of other methods. */\nexport interface Done {{\n{}}}\n",
        all.gets, all.others
    );
    text
}

#[test]
fn the_page_has_the_types_of_the_answers() {
    let text = text();
    if std::env::var_os(WRITES).is_some() {
        std::fs::write(FILE, &text).unwrap();
    }
    let found = std::fs::read_to_string(FILE).unwrap_or_default();
    assert!(found == text, "{FILE} is not what the structs say: run `cargo xtask rows`");
}

/// The routes as `router` names them; lists are one route there.
#[test]
fn each_path_that_the_page_knows_is_a_route() {
    let router = include_str!("../lib.rs");
    let text = text();
    let (_, tables) = text.split_once("export interface Answers").unwrap();
    let paths = tables.lines().filter_map(|line| line.trim().strip_prefix('"')?.split('"').next());
    let mut count = 0;
    for path in paths {
        let path = path.rsplit(' ').next().unwrap();
        let is_list = |name: &str| Resource::named(name).is_some();
        let route = match path.strip_prefix("/api/v0/") {
            Some(name) if is_list(name) => "/api/v0/{resource}",
            Some(name) if name.strip_suffix("/summarize").is_some_and(is_list) => {
                "/api/v0/{resource}/summarize"
            }
            _ => path,
        };
        assert!(router.contains(&format!("\"{route}\"")), "{path} is not a route");
        count += 1;
    }
    assert!(count > 30, "{count}");
}
