//! The usage of the cluster and of the head's machine, now and before: each second of a day, and each minute of a week;
//! and the usage of each machine ([`machines`]).
//!
//! **LIMIT-1** The rows lie in files of the session's folder, which never take more than [`BYTES_MAX`]. A row is
//! written at once, so that a killed head loses the second that it was in. Where the disk is full rows are left out.

mod columns;
mod machines;
mod ring;
mod spans;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use helio_env::clock;
use helio_observer::Asker;
use helio_proto::inspect::{Question, Topic};

use crate::answers::figures::Curves;

use self::columns::{COLUMNS, Readings};
use self::machines::Machines;
use self::ring::Ring;
use self::spans::{Span, curves};

/// The folder within the session's.
const FOLDER: &str = "metrics";
const SECONDS_OF_A_DAY: u64 = 24 * 60 * 60;
const MINUTES_OF_A_WEEK: u64 = 7 * 24 * 60;
/// The most that both files take: 200 MB would be too much.
pub(crate) const BYTES_MAX: u64 = 200_000_000;

/// A reading a second, for clusters of up to so many nodes; with more nodes readings are as much rarer.
const NODES_A_SECOND: usize = 500;

/// The most points of a curve.
pub(crate) const POINTS_MAX: u64 = 5_000;

/// The rows of one session.
#[derive(Debug)]
pub(crate) struct Past {
    seconds: Ring,
    minutes: Ring,
    minute: Mutex<Span>,
    machines: Machines,
}

impl Past {
    /// Opens the rows of a session, or begins them.
    pub(crate) fn open(session_dir: &Path) -> io::Result<Self> {
        const { assert!(COLUMNS.len() <= 64, "the files stay small") };
        let bytes =
            [SECONDS_OF_A_DAY, MINUTES_OF_A_WEEK].map(|n| Ring::bytes_max(COLUMNS.len(), n));
        assert!(bytes.iter().sum::<u64>() + machines::BYTES_MAX <= BYTES_MAX, "LIMIT-1");
        let folder = session_dir.join(FOLDER);
        std::fs::create_dir_all(&folder)?;
        Machines::begin(&folder)?;
        let open = |name: &str, rows| Ring::open(&folder.join(name), &COLUMNS, rows);
        Ok(Self {
            seconds: open("seconds", SECONDS_OF_A_DAY)?,
            minutes: open("minutes", MINUTES_OF_A_WEEK)?,
            minute: Mutex::default(),
            machines: Machines::in_folder(&folder),
        })
    }

    /// Opens the rows of a session that is over.
    pub(crate) fn read(folder: &Path) -> io::Result<Self> {
        let open = |name: &str, rows| Ring::read_only(&folder.join(name), &COLUMNS, rows);
        Ok(Self {
            seconds: open("seconds", SECONDS_OF_A_DAY)?,
            minutes: open("minutes", MINUTES_OF_A_WEEK)?,
            minute: Mutex::default(),
            machines: Machines::in_folder(folder),
        })
    }

    /// Adds the row of a second, and the one of the minute before when it is the first of a new one.
    fn add(&self, second: u64, values: &[f32]) -> io::Result<()> {
        let mut minute = self.minute.lock().expect("no writer has panicked with it");
        let written = match minute.add(second / 60, values) {
            Some((number, means)) => self.minutes.write(number, &means),
            None => Ok(()),
        };
        self.seconds.write(second, values).and(written)
    }

    /// Curves of the cluster. What is older than a day is known by minutes.
    pub(crate) fn curves(&self, from: u64, to: u64, points: u64, now: u64) -> Curves {
        let (rows, unit) = match from + SECONDS_OF_A_DAY < now {
            true => (&self.minutes, 60),
            false => (&self.seconds, 1),
        };
        curves(rows, unit, &COLUMNS, from, to, points)
    }

    /// The past of each machine.
    pub(crate) fn machines(&self) -> &Machines {
        &self.machines
    }

    /// Reads the cluster and the machine for as long as the runtime lives.
    pub(crate) async fn keep(self: Arc<Self>, asker: Asker) {
        let mut readings = Readings::default();
        let mut is_told = false;
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let Ok(nodes) = asker.nodes().await else { continue };
            if self.machines.is_due(nodes.nodes.len()) {
                let question = Question { topic: Topic::Workers, ..Question::default() };
                let told = asker.inspect(question).await;
                let second = clock::unix_ms() / 1000;
                self.machines.add(second, &nodes.nodes, &told.unwrap_or_default().answers);
            }
            let values = readings.row(&nodes);
            let rests = (nodes.nodes.len() / NODES_A_SECOND) as u64;
            match self.add(clock::unix_ms() / 1000, &values) {
                Ok(()) => is_told = false,
                Err(error) if !is_told => {
                    is_told = true;
                    tracing::warn!(%error, "what the cluster uses is not kept");
                }
                Err(_) => {}
            }
            tokio::time::sleep(Duration::from_secs(rests)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(std::path::PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn past(name: &str) -> (Folder, Past) {
        let path = std::env::temp_dir().join(format!("past-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let past = Past::open(&path).unwrap();
        (Folder(path), past)
    }

    fn row(value: f32) -> Vec<f32> {
        let mut row = vec![f32::NAN; COLUMNS.len()];
        row[0] = value;
        row
    }

    fn first(curves: &Curves) -> Vec<Option<f64>> {
        curves.series[COLUMNS[0]].clone()
    }

    #[test]
    fn a_day_of_seconds_and_a_week_of_minutes_are_there() {
        let (_folder, past) = past("week");
        let now = 1_800_000_000;
        let begun = now - 8 * SECONDS_OF_A_DAY;
        for second in begun..now {
            past.add(second, &row((second / 60) as f32)).unwrap();
        }
        let seconds = past.curves(now - 100, now - 1, 100, now);
        assert_eq!((seconds.every_s, seconds.at.len()), (1, 100));
        let day = past.curves(now - SECONDS_OF_A_DAY, now - 1, 300, now);
        assert_eq!((day.every_s, first(&day).len()), (288, 300));
        let week = past.curves(now - 7 * SECONDS_OF_A_DAY, now - 1, 7 * 24 * 60, now);
        assert_eq!(week.every_s, 60);
        let found = first(&week);
        assert!(found.len() >= 7 * 24 * 60 - 1, "{}", found.len());
        let at = week.at[5];
        assert_eq!(found[5], Some(f64::from((at / 60) as f32)));
        // A cell that is not a number stays unknown, and so does the time before the first row.
        assert_eq!(seconds.series[COLUMNS[1]][0], None);
        let before = past.curves(begun - 1000, begun - 500, 10, now);
        assert!(before.at.is_empty());
    }

    #[test]
    fn gaps_are_gaps_and_who_goes_on_has_what_was_before() {
        let (folder, past) = past("gap");
        let now = 1_800_000_000;
        past.add(now - 10, &row(1.0)).unwrap();
        past.add(now - 7, &row(4.0)).unwrap();
        // The process was killed; another goes on with the session.
        std::mem::forget(past);
        let again = Past::open(&folder.0).unwrap();
        let curves = again.curves(now - 20, now, 100, now);
        assert_eq!(first(&curves), [Some(1.0), None, None, Some(4.0)]);
        assert_eq!(curves.at[0], now - 10);
    }
}
