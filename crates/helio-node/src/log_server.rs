//! The node's log files, for whoever is in the cluster: each question is answered from the session's folder, on a
//! thread that may wait for the disk.

use std::path::PathBuf;
use std::sync::Arc;

use helio_observer::log_files;
use helio_proto::logs::LogRequest;
use helio_rpc::service::{Reader, Writer};

/// Answers until the peer hangs up.
pub(crate) async fn serve(mut reader: Reader, writer: Writer, folder: Arc<PathBuf>) {
    while let Ok(Some(request)) = reader.next::<LogRequest>().await {
        let folder = Arc::clone(&folder);
        let answer = tokio::task::spawn_blocking(move || log_files::answer(&folder, &request));
        let Ok(answer) = answer.await else { return };
        if writer.send(&answer).is_err() {
            return;
        }
    }
}
