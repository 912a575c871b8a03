//! The controller's line: it says which routes and replicas there are, and hears what is in flight.
//!
//! A line of JSON each: `{"version", "routes", "deployments", "options"}` comes and is answered with
//! `{"acked": version}`; `{"counts": {deployment: [ongoing, waiting]}}` goes out when they change, and
//! `{"spans": [span]}` when requests are over whose trace is recorded;
//! `{"stop": true}` ends this process. A controller that goes away changes nothing here: its successor
//! connects again.

use std::fmt::Write as _;
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;

use crate::Shared;

/// Counts are told this long after they changed, at most.
const COUNTS_EVERY: Duration = Duration::from_millis(50);
/// Time between two reports of the figures where no deployment's replicas follow them.
const SHOWN_EVERY: Duration = Duration::from_secs(1);

/// Serves one controller after the other; a new one takes the place of the one before.
pub(crate) async fn listen(shared: Rc<Shared>, listener: UnixListener, stop: Rc<Notify>) {
    let mut before: Option<tokio::task::AbortHandle> = None;
    while let Ok((stream, _)) = listener.accept().await {
        if let Some(before) = before.take() {
            before.abort();
        }
        let task = tokio::task::spawn_local(converse(Rc::clone(&shared), stream, Rc::clone(&stop)));
        before = Some(task.abort_handle());
    }
}

async fn converse(shared: Rc<Shared>, stream: UnixStream, stop: Rc<Notify>) {
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    let mut tick = tokio::time::interval(COUNTS_EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut told = Value::Null;
    let (mut is_counted, mut is_scaled) = (false, false);
    loop {
        let say = tokio::select! {
            line = lines.next_line() => {
                let Ok(Some(line)) = line else { return };
                let Ok(said) = serde_json::from_str::<Value>(&line) else { return };
                if said["stop"] == true {
                    // A controller that reads no more gets no spans.
                    let _ = writer.write_all(spans(&shared).as_bytes()).await;
                    stop.notify_one();
                    return;
                }
                shared.update(&said);
                (is_counted, is_scaled) = shared.table.wants_counts();
                format!("{}\n", json!({"acked": said["version"]}))
            }
            _ = tick.tick(), if is_counted => {
                // Nobody decides by these: they are for people who look.
                if !is_scaled {
                    tick.reset_after(SHOWN_EVERY);
                }
                let counts = shared.table.counts().into_iter();
                let counts: serde_json::Map<String, Value> =
                    counts.map(|(key, ongoing, queued)| (key, json!([ongoing, queued]))).collect();
                let counts = json!({ "counts": counts });
                let mut say = spans(&shared);
                if counts != told {
                    let _ = writeln!(say, "{counts}");
                    told = counts;
                }
                say
            }
        };
        if writer.write_all(say.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The spans that are over, as a line, if there are any.
fn spans(shared: &Shared) -> String {
    let spans = shared.spans.take();
    if spans.is_empty() { String::new() } else { format!("{}\n", json!({ "spans": spans })) }
}
