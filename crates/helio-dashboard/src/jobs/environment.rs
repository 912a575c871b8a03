//! The environment of an entry point: its folder, its variables, and the way to the cluster.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::request::Request;
use crate::packages::Packages;

/// The parts of the environment that all jobs have in common.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    pub(crate) packages: Packages,
    pub(crate) token: String,
    pub(crate) session_name: String,
    /// The control service's `host:port`, for `ray.init()`.
    pub(crate) control_address: String,
    /// The node on which entry points run, in hex.
    pub(crate) node_id: String,
    /// Time between SIGTERM and SIGKILL for a job that is stopped.
    pub(crate) grace: Duration,
    /// The cluster's interpreter, for entry points that need more than a shell.
    pub(crate) python: PathBuf,
    pub(crate) session_dir: PathBuf,
}

/// The environment of one job's command, made ready.
#[derive(Debug)]
pub(crate) struct Prepared {
    folder: PathBuf,
    variables: BTreeMap<String, String>,
    entrypoint: String,
    /// The part of the environment that the entry point waits for before it begins; empty: nothing.
    pub(super) waits_for: &'static str,
}

impl Surroundings {
    /// Makes the environment of a job ready: packages that were uploaded are unpacked.
    ///
    /// # Errors
    /// A sentence for the user.
    pub(crate) fn prepare(
        &self,
        id: &str,
        request: &Request,
        wait_file: &Path,
    ) -> Result<Prepared, String> {
        let mut env = request.runtime_env.clone();
        env.retain(|_, value| !value.is_null());
        let view = self.packages.view(id);
        let mut folder = usual_folder();
        // The driver hands the names on, so that workers of other nodes find the same code. What is fetched from
        // elsewhere the entry point fetches itself.
        if let Some(working_dir) = env.get("working_dir").filter(|given| !is_fetched(given)) {
            folder = self.packages.place(&view, "working_dir", working_dir)?;
        }
        let mut imports = Vec::new();
        if let Some(Value::Array(modules)) = env.get("py_modules") {
            for module in modules.iter().filter(|given| !is_fetched(given)) {
                imports.push(self.packages.place(&view, "py_modules", module)?);
            }
        }
        let mut variables = BTreeMap::new();
        let of_user = env.get("env_vars").and_then(Value::as_object);
        for (name, value) in of_user.into_iter().flatten() {
            if let Some(value) = value.as_str() {
                variables.insert(name.clone(), value.to_owned());
            }
        }
        let path =
            variables.get("PYTHONPATH").cloned().or_else(|| std::env::var("PYTHONPATH").ok());
        if !imports.is_empty() {
            let places = imports.iter().map(|place| import_place(place).display().to_string());
            let all: Vec<String> = places.chain(path.filter(|path| !path.is_empty())).collect();
            variables.insert("PYTHONPATH".to_owned(), all.join(":"));
        }
        let config = json!({ "runtime_env": env, "metadata": metadata(id, &request.metadata) });
        let own = [
            ("RAY_ADDRESS", self.control_address.clone()),
            ("RAY_JOB_CONFIG_JSON_ENV_VAR", config.to_string()),
            ("HELIOSTAT_AUTH_TOKEN", self.token.clone()),
            ("HELIOSTAT_SESSION", self.session_name.clone()),
            // Its name within the folder of code: drivers give their workers of this node the same folder.
            ("HELIOSTAT_JOB_VIEW", name_of(&view)),
        ];
        variables.extend(own.map(|(name, value)| (name.to_owned(), value)));
        let is_plain = request.needs.is_empty()
            && ["pip", "uv", "conda"].iter().all(|tool| !env.contains_key(*tool))
            && !fetches(&env);
        let mut entrypoint = request.entrypoint.clone();
        if !is_plain {
            let spec =
                json!({ "entrypoint": entrypoint, "needs": request.needs, "runtime_env": env });
            variables.insert("HELIOSTAT_JOB_ENTRY".to_owned(), spec.to_string());
            // Where it says that it waits for something, and for what.
            let file = wait_file.display().to_string();
            variables.insert("HELIOSTAT_JOB_WAIT_FILE".to_owned(), file);
            let session = self.session_dir.display().to_string();
            variables.insert("HELIOSTAT_SESSION_DIR".to_owned(), session);
            entrypoint =
                format!("exec {} -m heliostat.core.driver.job_entry", quoted(&self.python));
        }
        let waits_for = match (is_plain, request.needs.is_empty()) {
            (true, _) => "",
            (false, true) => "The job's runtime environment is being made ready.",
            (false, false) => "The job waits for the resources of its entry point.",
        };
        // Lines are to be seen when they are printed.
        variables.entry("PYTHONUNBUFFERED".to_owned()).or_insert_with(|| "1".to_owned());
        Ok(Prepared { folder, variables, entrypoint, waits_for })
    }
}

impl Prepared {
    /// The watcher of the entry point, as a process of its own group: this program under another command.
    pub(crate) fn command(&self, run: &Path, end: &Path) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("heliostat")
            .arg("job-process")
            .arg("--run")
            .arg(run)
            .arg("--end")
            .arg(end)
            .arg("--")
            .arg(&self.entrypoint)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .process_group(0)
            .env_remove("HELIOSTAT_ADDRESS")
            .env_remove("RAY_API_SERVER_ADDRESS")
            .envs(&self.variables);
        command
    }
}

/// Without a `working_dir`: the folder where the head was started, else the user's.
pub(crate) fn usual_folder() -> PathBuf {
    let named =
        ["PWD", "HOME"].into_iter().filter_map(|name| std::env::var_os(name).map(PathBuf::from));
    named
        .into_iter()
        .find(|folder| folder.is_absolute() && fs::metadata(folder).is_ok_and(|at| at.is_dir()))
        .unwrap_or_else(|| PathBuf::from("/"))
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

fn metadata(id: &str, given: &Map<String, Value>) -> Map<String, Value> {
    let mut all = Map::new();
    all.insert("job_submission_id".to_owned(), json!(id));
    all.insert("job_name".to_owned(), json!(id));
    all.extend(given.clone());
    all
}

fn name_of(view: &Path) -> String {
    view.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Returns the entry of the import path for a place: the folder around a module, or the wheel itself.
fn import_place(place: &Path) -> &Path {
    if place.is_dir() { place.parent().unwrap_or(place) } else { place }
}

/// Whether this is a URI of another place than the cluster.
fn is_fetched(given: &Value) -> bool {
    given.as_str().is_some_and(|given| given.contains("://") && !given.starts_with("gcs://"))
}

fn fetches(env: &Map<String, Value>) -> bool {
    let modules = env.get("py_modules").and_then(Value::as_array).into_iter().flatten();
    env.get("working_dir").into_iter().chain(modules).any(is_fetched)
}
