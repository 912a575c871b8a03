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
/// The columns where those are too wide for the terminal: a session's name says when it began.
const NARROW: [&str; 4] = ["session", "lasted", "tasks", "size"];

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
                let lasted_s = told.ended_ms.saturating_sub(told.begun_ms) / 1_000;
                let (hours, minutes) = (lasted_s / 3_600, lasted_s / 60 % 60);
                let cells = [
                    ("from", moment(told.begun_ms)),
                    ("to", moment(told.ended_ms)),
                    ("session", session_of(&dir)),
                    ("lasted", format!("{hours}:{minutes:02}:{:02}", lasted_s % 60)),
                    ("tasks", read(&told.calls()).len().to_string()),
                    ("size", format!("{:.1} MB", bytes as f64 / 1e6)),
                    ("folder", dir.display().to_string()),
                ];
                rows.push(
                    cells.map(|(name, cell)| (name.to_owned(), cell.into())).into_iter().collect(),
                );
            }
            Err(why) => unreadable.push(format!("{}: {why}", dir.display())),
        }
    }
    if !rows.is_empty() {
        let whole = table::whole(&rows, &COLUMNS);
        match table::terminal() {
            Some(width) if whole.lines().any(|line| line.chars().count() > width) => {
                output::print(&table::whole(&rows, &NARROW));
                output::line(&format!(
                    "Open one of them: {} history open SESSION",
                    names::command()
                ));
            }
            _ => output::print(&whole),
        }
    }
    unreadable.iter().for_each(|line| output::line(line));
    Ok(())
}

/// The name of the session whose history lies in a folder: that of the folder, or of the session's around it.
fn session_of(dir: &Path) -> String {
    let is_within = dir.file_name().is_some_and(|name| name == FOLDER);
    let named = if is_within { dir.parent().unwrap_or(dir) } else { dir };
    named.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The folder of a history: one that is named, or that of the session with this name or beginning of a name.
fn find(place: &str, all: impl FnOnce() -> Vec<PathBuf>) -> Result<PathBuf, String> {
    // The folder of a session is as good as that of its history.
    let named = [Path::new(place).join(FOLDER), PathBuf::from(place)];
    if let Some(dir) = named.into_iter().find(|dir| is_history(dir)) {
        return Ok(dir);
    }
    if place.contains('/') {
        return Ok(PathBuf::from(place));
    }
    let mut found: Vec<PathBuf> =
        all().into_iter().filter(|dir| session_of(dir).starts_with(place)).collect();
    if let Some(exact) = found.iter().position(|dir| session_of(dir) == place) {
        found = vec![found.swap_remove(exact)];
    }
    match (found.pop(), found.len()) {
        (Some(dir), 0) => Ok(dir),
        (Some(_), others) => Err(format!(
            "{} sessions have names that begin with {place}: say more of the name.",
            others + 1
        )),
        (None, _) => Ok(PathBuf::from(place)),
    }
}

fn open(place: Option<&str>, port: Option<u16>) -> Result<(), String> {
    let dir = match place {
        Some(place) => find(place, all)?,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_found_by_its_folder_or_by_the_name_of_its_session() {
        let base = std::env::temp_dir().join(format!("history-find-{}", std::process::id()));
        let dirs: Vec<PathBuf> =
            ["session_a1", "session_a12"].map(|name| base.join(name).join(FOLDER)).into();
        for dir in &dirs {
            fs::create_dir_all(dir).unwrap();
            fs::write(dir.join("00000001.history"), "").unwrap();
        }
        let find = |place: &str| find(place, || dirs.clone());
        assert_eq!(find("session_a1").as_ref(), Ok(&dirs[0]));
        assert_eq!(find(&base.join("session_a12").display().to_string()).as_ref(), Ok(&dirs[1]));
        assert_eq!(find(&dirs[0].display().to_string()).as_ref(), Ok(&dirs[0]));
        let said = find("session_a").unwrap_err();
        assert!(said.starts_with("2 sessions have names that begin with session_a"), "{said}");
        // Whoever opens it says what is wrong.
        assert_eq!(find("session_b"), Ok(PathBuf::from("session_b")));
        fs::remove_dir_all(&base).unwrap();
    }
}
