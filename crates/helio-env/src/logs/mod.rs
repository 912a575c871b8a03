//! The log of this process: what its code reports through the macros of `tracing`, a line each, in one file
//! of the session's folder `logs`.
//!
//! - [`start`] names the file and reads the settings. Before it, and in copies of the process that user code
//!   forks, events go nowhere.
//! - An event that the level leaves out costs one load and one comparison where it stands: neither its fields
//!   are evaluated nor its text is made.
//! - The level of an event is that of its macro; an `error!` with the field `fatal` ends the process and has
//!   the level of that name.
//! - Whatever happens to the file, the process goes on: [`file`] counts what is lost.

mod file;
mod line;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use helio_config::log_level::LogLevel;
use helio_config::table::{BACKEND_LOG_JSON, ROTATION_BACKUP_COUNT, ROTATION_MAX_BYTES};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

use crate::settings::{read, variable};
use file::LogFile;

static FILE: Mutex<Option<LogFile>> = Mutex::new(None);

/// The process that started the log. A copy of it shares the file and, should another thread have been writing
/// when it was forked, has [`FILE`] locked for ever.
static WRITER: AtomicU32 = AtomicU32::new(0);

static LEVEL: AtomicU8 = AtomicU8::new(LogLevel::Fatal as u8);
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// From now on the events of this process go to that file, as the environment asks; a process that joins
/// another session starts its log again. The first event makes the file.
pub fn start(path: PathBuf) {
    let (level, warning) = LogLevel::read(&variable);
    let (json, bytes_max) = (read(&BACKEND_LOG_JSON), read(&ROTATION_MAX_BYTES));
    let backups_max = read(&ROTATION_BACKUP_COUNT);
    let wrong = [warning, json.clone().err(), bytes_max.clone().err(), backups_max.clone().err()];
    let file = LogFile::new(
        path,
        bytes_max.unwrap_or(file::BYTES_MAX),
        backups_max.unwrap_or(file::BACKUPS_MAX),
    );
    let Some(mut current) = lock() else { return };
    *current = Some(file);
    drop(current);
    WRITER.store(std::process::id(), Ordering::Release);
    LEVEL.store(level as u8, Ordering::Relaxed);
    IS_JSON.store(json.unwrap_or(false), Ordering::Relaxed);
    // The call fails when this process has a subscriber already.
    let _ = tracing::subscriber::set_global_default(Log);
    // The macros remember whether they are enabled.
    tracing::callsite::rebuild_interest_cache();
    for wrong in wrong.into_iter().flatten() {
        tracing::warn!("{wrong}");
    }
}

/// Has the log tell of panics, too; the message goes to standard error as before.
pub fn log_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload_as_str().unwrap_or("not a text");
        let at = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(at, "panic: {text}");
        before(panic);
    }));
}

/// `None`: a copy of the process cannot have it.
fn lock() -> Option<MutexGuard<'static, Option<LogFile>>> {
    let writer = WRITER.load(Ordering::Acquire);
    if writer == 0 || writer == std::process::id() {
        return Some(FILE.lock().unwrap_or_else(PoisonError::into_inner));
    }
    match FILE.try_lock() {
        Ok(file) => Some(file),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

fn level_of(metadata: &Metadata<'_>) -> LogLevel {
    match *metadata.level() {
        Level::ERROR if metadata.fields().field(line::FATAL).is_some() => LogLevel::Fatal,
        Level::ERROR => LogLevel::Error,
        Level::WARN => LogLevel::Warning,
        Level::INFO => LogLevel::Info,
        Level::DEBUG => LogLevel::Debug,
        _ => LogLevel::Trace,
    }
}

/// The log as a subscriber of `tracing`. Of spans nothing is kept: the events here carry their
/// fields.
struct Log;

impl Subscriber for Log {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        !metadata.is_span() && level_of(metadata) as u8 >= LEVEL.load(Ordering::Relaxed)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let chosen = LEVEL.load(Ordering::Relaxed);
        let filters = [
            (LogLevel::Trace, LevelFilter::TRACE),
            (LogLevel::Debug, LevelFilter::DEBUG),
            (LogLevel::Info, LevelFilter::INFO),
            (LogLevel::Warning, LevelFilter::WARN),
        ];
        let found = filters.into_iter().find(|(level, _)| *level as u8 == chosen);
        Some(found.map_or(LevelFilter::ERROR, |(_, filter)| filter))
    }

    fn event(&self, event: &Event<'_>) {
        if WRITER.load(Ordering::Acquire) != std::process::id() {
            return;
        }
        let is_json = IS_JSON.load(Ordering::Relaxed);
        let line = line::of(event, level_of(event.metadata()), is_json);
        if let Some(mut file) = lock()
            && let Some(file) = file.as_mut()
        {
            file.append(&line, |lost, error| line::of_loss(lost, error, is_json));
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
