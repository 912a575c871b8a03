//! The progress of processes with the environments that they make: each that does writes a file of the session,
//! which is read when somebody asks. `python/heliostat/core/runtime_env/progress.py` is the other end.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// The folder of these files in the session's.
const FOLDER: &str = "making";

/// A file is a line; more is not read.
const FILE_BYTES_MAX: u64 = 4096;

/// Returns the end of a sentence about the environment that one of these processes makes; empty: nothing is known.
pub(crate) fn tell(session_dir: &Path, pids: &[u32], now_ms: u64) -> String {
    let told = pids.iter().find_map(|pid| {
        let path = session_dir.join(FOLDER).join(pid.to_string());
        if fs::metadata(&path).ok()?.len() > FILE_BYTES_MAX {
            return None;
        }
        describe(&serde_json::from_slice(&fs::read(path).ok()?).ok()?, *pid, now_ms)
    });
    told.unwrap_or_default()
}

/// `step`: what it does, in words; `since_ms`: since when, in milliseconds since 1970; `bytes`: how much there is of it;
/// `file`: what grows with it instead.
fn describe(making: &Value, pid: u32, now_ms: u64) -> Option<String> {
    let step = making["step"].as_str()?;
    let seconds = now_ms.saturating_sub(making["since_ms"].as_u64()?) as f64 / 1e3;
    let file = making["file"].as_str().and_then(|file| fs::metadata(file).ok());
    let bytes = file.map_or(making["bytes"].as_u64().unwrap_or_default(), |file| file.len());
    let size = match bytes {
        0 => String::new(),
        bytes => format!(", {:.1} MiB so far", bytes as f64 / f64::from(1 << 20)),
    };
    Some(format!("; pid {pid} {step}, for {seconds:.1} s{size}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_wrote_is_told_and_what_is_no_such_file_is_not() {
        let session = std::env::temp_dir().join(format!("making_{}", std::process::id()));
        let folder = session.join(FOLDER);
        fs::create_dir_all(&folder).unwrap();
        assert_eq!(tell(&session, &[7], 9_000), "");
        fs::write(folder.join("6"), "no JSON").unwrap();
        let told = r#"{"step":"runs uv","since_ms":4500,"bytes":3145728}"#;
        fs::write(folder.join("7"), told).unwrap();
        let expected = "; pid 7 runs uv, for 4.5 s, 3.0 MiB so far";
        assert_eq!(tell(&session, &[6, 7], 9_000), expected);
        let part = session.join("part");
        fs::write(&part, vec![0; 1 << 20]).unwrap();
        let told = format!(r#"{{"step":"fetches","since_ms":8000,"file":{part:?}}}"#);
        fs::write(folder.join("8"), told).unwrap();
        let expected = "; pid 8 fetches, for 1.0 s, 1.0 MiB so far";
        assert_eq!(tell(&session, &[8], 9_000), expected);
        fs::remove_dir_all(session).unwrap();
    }
}
