//! `/api/v0/datasets`, `/api/v0/tuning`, `/api/v0/serving`: what drivers and Serve's controller tell of what they
//! run (`heliostat.util.row_writer`), while it goes on and for as long as it is kept.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;

use crate::access::Verdict;
use crate::answers::told::Runs;
use crate::reply::{self, Refusal, Reply};
use crate::train_routes::{latest_first, rows};
use crate::{App, job_routes};

/// The namespace in which drivers tell of executions of datasets.
pub(crate) const DATASETS: &str = "_data_runs";
/// The namespace in which drivers tell of searches.
pub(crate) const TUNING: &str = "_tune_runs";
/// The namespace in which the controller tells of applications.
pub(crate) const SERVING: &str = "_serve_runs";

/// `GET /api/v0/datasets`: executions of datasets, the latest first.
pub(crate) async fn datasets(app: State<Arc<App>>, verdict: Extension<Verdict>) -> Answer {
    told(app, verdict, DATASETS).await
}

/// `GET /api/v0/tuning`: searches, the latest first.
pub(crate) async fn tuning(app: State<Arc<App>>, verdict: Extension<Verdict>) -> Answer {
    told(app, verdict, TUNING).await
}

/// `GET /api/v0/serving`: applications with their replicas and what they did lately.
pub(crate) async fn serving(app: State<Arc<App>>, verdict: Extension<Verdict>) -> Answer {
    told(app, verdict, SERVING).await
}

type Answer = Result<Reply, Refusal>;

async fn told(
    State(app): State<Arc<App>>,
    Extension(verdict): Extension<Verdict>,
    namespace: &str,
) -> Answer {
    let jobs = job_routes::details(&app, verdict).await?;
    Ok(reply::json(&Runs { runs: latest_first(rows(&app, namespace).await?, &jobs) }))
}
