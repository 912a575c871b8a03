//! `history`: clusters that are gone, as their heads wrote them down (decision 55).

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use helio_config::table::HISTORY;
use helio_observer::history::Recorded;
use helio_observer::read;
use helio_report::rows::moment;

use crate::{args, dashboard, folder, in_python, names, output, table};

/// Within a session's folder: its history.
const FOLDER: &str = "history";
/// Beside it or in it: the figures of machines.
const FIGURES: &str = "metrics";

/// The columns of the list; the folder, which is long, stands last.
const COLUMNS: [&str; 5] = ["from", "to", "tasks", "size", "folder"];

/// Time after a failed copy until the next try.
const COPY_AGAIN: Duration = Duration::from_secs(30);

/// The folder in which a head writes the history of its session, and the address of its copies.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    copies: Option<String>,
}

impl Place {
    /// `None`: nowhere.
    pub(crate) fn of(session_dir: &Path, name: &str) -> Option<Self> {
        let set = helio_env::settings::text(&HISTORY).unwrap_or_default();
        let own = session_dir.join(FOLDER);
        match set.as_str() {
            "" => Some(Self { folder: own, copies: None }),
            "0" => None,
            url if url.contains("://") => {
                let url = format!("{}/{name}", url.trim_end_matches('/'));
                Some(Self { folder: own, copies: Some(url) })
            }
            given => Some(Self { folder: Path::new(given).join(name), copies: None }),
        }
    }

    /// Has a process copy what is written, for as long as this one lives.
    pub(crate) fn copy(&self, python: &Path) {
        let Some(url) = self.copies.clone() else { return };
        let (folder, python) = (self.folder.clone(), python.to_owned());
        let copy = move || {
            loop {
                let done = Command::new(&python)
                    .args(["-m", "heliostat.util.history_command", names::command()])
                    .arg(&url)
                    .arg("--follow")
                    .arg(&folder)
                    .stdin(Stdio::null())
                    .output();
                let why = match done {
                    Ok(done) => String::from_utf8_lossy(&done.stderr).trim().to_owned(),
                    Err(error) => format!("{}: {error}", python.display()),
                };
                tracing::warn!(url, why, "the history is not copied");
                std::thread::sleep(COPY_AGAIN);
            }
        };
        let started = std::thread::Builder::new().name("history-copy".to_owned()).spawn(copy);
        if let Err(error) = started {
            tracing::warn!(%error, "the history is not copied");
        }
    }
}

pub(crate) fn run(what: args::History) -> Result<(), String> {
    match what {
        args::History::List => list(),
        args::History::Open { place: Some(place), port } if place.contains("://") => {
            let mut arguments = vec![OsString::from(place)];
            if let Some(port) = port {
                arguments.push(OsString::from(format!("--port={port}")));
            }
            in_python::run("heliostat.util.history_command", &arguments)
        }
        args::History::Open { place, port } => open(place.as_deref(), port),
    }
}

/// The histories of this machine, the latest last: those in folders of sessions, and where the setting says.
fn all() -> Vec<PathBuf> {
    let is_folder = |set: &String| !set.is_empty() && set != "0" && !set.contains("://");
    let set = helio_env::settings::text(&HISTORY).filter(is_folder);
    let elsewhere = set.iter().filter_map(|set| fs::read_dir(set).ok()).flatten();
    let elsewhere = elsewhere.filter_map(|entry| Some(entry.ok()?.path()));
    let mut found: Vec<PathBuf> = folder::own_sessions(&folder::temp_dir(None))
        .filter(|(_, found)| found.is_dir())
        .map(|(dir, _)| dir.join(FOLDER))
        .chain(elsewhere)
        .filter(|dir| is_history(dir))
        .collect();
    found.sort_by_key(|dir| fs::metadata(dir).and_then(|found| found.modified()).ok());
    found
}

fn is_history(dir: &Path) -> bool {
    let is_file =
        |entry: fs::DirEntry| entry.path().extension().is_some_and(|end| end == "history");
    fs::read_dir(dir).is_ok_and(|entries| entries.flatten().any(is_file))
}

fn list() -> Result<(), String> {
    let all = all();
    if all.is_empty() {
        output::line("There are no histories on this machine. A head with a dashboard writes one.");
    }
    let (mut rows, mut unreadable) = (Vec::new(), Vec::new());
    for dir in all {
        let sizes = fs::read_dir(&dir).into_iter().flatten().flatten();
        let bytes: u64 = sizes.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum();
        match Recorded::open(&dir) {
            Ok(told) => {
                let cells = [
                    moment(told.begun_ms),
                    moment(told.ended_ms),
                    read(&told.calls()).len().to_string(),
                    format!("{:.1} MB", bytes as f64 / 1e6),
                    dir.display().to_string(),
                ];
                let named = COLUMNS.iter().zip(cells);
                rows.push(named.map(|(name, cell)| ((*name).to_owned(), cell.into())).collect());
            }
            Err(why) => unreadable.push(format!("{}: {why}", dir.display())),
        }
    }
    if !rows.is_empty() {
        output::print(&table::whole(&rows, &COLUMNS));
    }
    unreadable.iter().for_each(|line| output::line(line));
    Ok(())
}

fn open(place: Option<&str>, port: Option<u16>) -> Result<(), String> {
    let dir = match place {
        // The folder of a session is as good as that of its history.
        Some(place) => [Path::new(place).join(FOLDER), PathBuf::from(place)]
            .into_iter()
            .find(|dir| is_history(dir))
            .unwrap_or_else(|| PathBuf::from(place)),
        None => all().pop().ok_or(
            "There are no histories on this machine. Name a folder: `heliostat history open FOLDER`.",
        )?,
    };
    let recorded = Recorded::open(&dir)?;
    for note in &recorded.notes {
        eprintln!("{note}");
    }
    let server = dashboard::open_here(port)?;
    let url = server.url.clone();
    let token = helio_env::token::fresh();
    let figures =
        [dir.join(FIGURES), dir.with_file_name(FIGURES)].into_iter().find(|dir| dir.is_dir());
    let own = std::env::temp_dir().join(format!("heliostat-history-{}", std::process::id()));
    folder::make_own(&own).map_err(|error| format!("{}: {error}", own.display()))?;
    let shown = format!(
        "{}: {} to {}, {} tasks.",
        recorded.about.session_name,
        moment(recorded.begun_ms),
        moment(recorded.ended_ms),
        read(&recorded.calls()).len()
    );
    let _served = server.serve_past(&token, recorded, figures, &own)?;
    // The server has opened its files.
    let _ = fs::remove_dir_all(&own);
    output::line(&dashboard::link(&url, &token)?);
    output::line(&shown);
    output::line("Serving until Ctrl-C.");
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}
