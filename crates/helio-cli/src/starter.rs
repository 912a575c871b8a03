//! The process that started the daemon: it waits for one line on a pipe or on standard output.

use std::fs::File;
use std::io::Write as _;

use serde_json::{Value, json};

/// The process that started the daemon and waits for one line.
pub(crate) struct Starter {
    pipe: Option<File>,
    is_stdout: bool,
}

impl Starter {
    pub(crate) fn new(number: Option<i32>) -> std::io::Result<Self> {
        let pipe = match number {
            None | Some(1) => None,
            Some(number) => Some(helio_env::inherited::take(number)?),
        };
        Ok(Self { pipe, is_stdout: number == Some(1) })
    }

    /// Says that it takes longer, and why.
    pub(crate) fn note(&mut self, waits: &str) {
        let line = format!("{}\n", json!({ "waits": waits }));
        // One that has gone away meanwhile is served like one that waits.
        let _ = match &mut self.pipe {
            Some(pipe) => pipe.write_all(line.as_bytes()),
            None if self.is_stdout => std::io::stdout().write_all(line.as_bytes()),
            None => Ok(()),
        };
    }

    pub(crate) fn is_there(&self) -> bool {
        self.is_stdout || self.pipe.is_some()
    }

    /// Says it and closes; only the first line is said. Whether this was it.
    pub(crate) fn say(&mut self, line: &Value) -> bool {
        let line = format!("{line}\n");
        let said = if let Some(mut pipe) = self.pipe.take() {
            pipe.write_all(line.as_bytes())
        } else if std::mem::take(&mut self.is_stdout) {
            std::io::stdout().write_all(line.as_bytes())
        } else {
            return false;
        };
        said.is_ok()
    }
}
