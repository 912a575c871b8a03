//! `cargo xtask mutants`: plants bugs in the machines, one at a time, and looks for the first seed that shows each, or,
//! where no seed does, for a scenario.
//! Keeps the page with the table up to date row by row, or prints it; whoever is not found is named on stderr.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Parser;
use helio_sim::mutants::{Found, MUTANTS, Mutant, hunt, play};
use helio_sim::scenarios::{SCENARIOS, Scenario};

/// Looks for planted bugs.
#[derive(Parser)]
struct Options {
    /// Only mutants with one of these in their name.
    #[arg(long, default_value = "", value_delimiter = ',')]
    only: Vec<String>,
    /// Plant nothing, and name each seed that fails.
    #[arg(long)]
    clean: bool,
    /// The page with the table: a row is written as soon as its mutant is found, and the other rows stay.
    #[arg(long)]
    page: Option<PathBuf>,
    /// Begin with the seed or the scenario that the page has, and look for another one only where that does not fail any more.
    #[arg(long, requires = "page")]
    known: bool,
    /// Look among the scenarios alone.
    #[arg(long)]
    scenarios: bool,
    /// Begin with this seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Run so many seeds before a mutant counts as not found.
    #[arg(long, default_value_t = 2_000)]
    seeds: u64,
    /// Hunt so many at a time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

/// The seed or the scenario that shows a mutant, and the sentence about it.
type Row = (String, String);

/// The rows, by the name of their mutant.
type Rows = BTreeMap<String, Row>;

fn main() -> ExitCode {
    let options = Options::parse();
    // A machine's own assertion is one way to be found; its message is in the table.
    std::panic::set_hook(Box::new(|_| {}));
    if options.clean {
        return run_clean(options.seeds, options.jobs.max(1) as u64);
    }
    let is_wanted =
        |mutant: &&Mutant| options.only.iter().any(|word| mutant.name.contains(word.as_str()));
    let wanted: Vec<&Mutant> = MUTANTS.iter().filter(is_wanted).collect();
    let before = options.page.as_deref().map(read).unwrap_or_default();
    let (next, missed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let rows = Mutex::new(before.clone());
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| {
                while let Some(mutant) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = options.known.then(|| known(mutant, &before)).flatten();
                    let found = found.or_else(|| {
                        let seeds = options.from..options.seeds;
                        let by_seed = (!options.scenarios).then(|| by_seed(mutant, seeds));
                        by_seed.flatten().or_else(|| by_scenario(mutant, SCENARIOS))
                    });
                    let row = found.unwrap_or_else(|| ("not found".to_owned(), String::new()));
                    missed.fetch_add(usize::from(row.1.is_empty()), Ordering::Relaxed);
                    eprintln!("{}: {}", mutant.name, row.0);
                    let Ok(mut rows) = rows.lock() else { continue };
                    // The page is written after each row: a hunt takes hours, and may be stopped.
                    rows.insert(mutant.name.to_owned(), row);
                    if let Some(path) = &options.page
                        && let Err(error) = std::fs::write(path, page(&rows, options.seeds))
                    {
                        eprintln!("{}: {error}", path.display());
                    }
                }
            });
        }
    });
    if options.page.is_none() {
        print!("{}", page(&rows.into_inner().unwrap_or_default(), options.seeds));
    }
    let missed = missed.into_inner();
    eprintln!("{} mutants, {missed} not found in {} seeds", wanted.len(), options.seeds);
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The rows of a page that was written before.
fn read(page: &Path) -> Rows {
    let text = std::fs::read_to_string(page).unwrap_or_default();
    let rows = text.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.strip_suffix(" |")?.splitn(5, " | ").skip(1);
        let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
        Some((name.to_owned(), (cells.nth(1)?.to_owned(), cells.next()?.to_owned())))
    });
    rows.collect()
}

/// Runs the seed or the scenario alone that the page has for the mutant.
fn known(mutant: &Mutant, rows: &Rows) -> Option<Row> {
    let by = &rows.get(mutant.name)?.0;
    if let Ok(seed) = by.parse() {
        return by_seed(mutant, seed..seed + 1);
    }
    let place = SCENARIOS.iter().position(|one| *by == scenario(one.name))?;
    by_scenario(mutant, &SCENARIOS[place..=place])
}

fn by_seed(mutant: &Mutant, seeds: Range<u64>) -> Option<Row> {
    hunt(mutant, seeds).map(|found| (found.by.to_string(), shown(&found.says)))
}

fn by_scenario(mutant: &Mutant, scenarios: &[Scenario]) -> Option<Row> {
    play(mutant, scenarios).map(|found| (scenario(found.by), shown(&found.says)))
}

fn scenario(name: &str) -> String {
    format!("scenario `{name}`")
}

/// Runs the seeds without a bug, in `jobs` parts at a time.
fn run_clean(seeds: u64, jobs: u64) -> ExitCode {
    let nothing = Mutant { name: "", area: "", breaks: "" };
    let failed = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for part in 0..jobs {
            let (failed, nothing) = (&failed, &nothing);
            scope.spawn(move || {
                let (mut at, end) = (part * seeds / jobs, (part + 1) * seeds / jobs);
                while let Some(Found { by: seed, says }) = hunt(nothing, at..end) {
                    failed.fetch_add(1, Ordering::Relaxed);
                    eprintln!("seed {seed}: {says}");
                    at = seed + 1;
                }
            });
        }
    });
    let failed = failed.into_inner();
    eprintln!("{failed} of {seeds} seeds fail");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn page(rows: &Rows, seeds: u64) -> String {
    let mut text = format!(
        "# Planted bugs\n\n\
         `cargo xtask mutants` writes this page. It builds the machines with switches for the bugs below, plants one \
         after the other, and runs the simulator's seeds from 0 on until one fails ([simulator](simulator.md)): the \
         first {seeds} are those that `make test` runs. Where none fails, one of the scenarios with names does, which \
         `make test` plays, too (`crates/helio-sim/src/scenarios`). `--only WORD` looks for some of them. `--known` begins \
         with the seeds and scenarios below, which may not be the first ones any more; `--scenarios` plays scenarios \
         alone.\n\n\
         | area | mutant | what it breaks | first failing seed, or scenario | what finds it |\n|---|---|---|---|---|\n"
    );
    for Mutant { name, area, breaks } in MUTANTS {
        let Some((seed, says)) = rows.get(*name) else { continue };
        text.push_str(&format!("| {area} | `{name}` | {breaks} | {seed} | {says} |\n"));
    }
    text
}

/// A violation's first words, without what differs from run to run.
fn shown(says: &str) -> String {
    let line = says.lines().next().unwrap_or_default();
    let is_id = |word: &str| word.len() >= 16 && word.chars().any(|letter| letter.is_ascii_digit());
    let words = line.split_whitespace().map(|word| if is_id(word) { "…" } else { word });
    let text: Vec<&str> = words.take(24).collect();
    text.join(" ").replace('|', "\\|").replace('<', "\\<")
}
