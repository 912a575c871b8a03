//! Whether the head is well (what probes of Kubernetes ask), and which release it is.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;

use crate::App;
use crate::answers::cluster::{AuthenticationMode, Version};
use crate::reply::{self, Refusal, Reply};

/// The version of the jobs API: with `submission_id`, `entrypoint_*` and `DELETE`.
const JOBS_API: &str = "4";

/// `GET /api/version`.
pub(crate) async fn version(State(app): State<Arc<App>>) -> Reply {
    reply::json(&Version {
        version: JOBS_API,
        ray_version: helio_config::ray_version!(),
        ray_commit: format!("heliostat-{}", env!("CARGO_PKG_VERSION")),
        session_name: app.session_name.clone(),
    })
}

/// `GET /api/authentication_mode`: what a client has to send.
pub(crate) async fn authentication_mode(State(app): State<Arc<App>>) -> Reply {
    let authentication_mode = if app.door.is_open() { "disabled" } else { "token" };
    reply::json(&AuthenticationMode { authentication_mode })
}

/// `GET /api/gcs_healthz`: the control service answers.
pub(crate) async fn control(State(app): State<Arc<App>>) -> Result<Reply, Refusal> {
    check(&app).await?;
    Ok(reply::text(StatusCode::OK, "success"))
}

/// `GET /api/local_raylet_healthz`: the node's daemon answers. It is asked for something that only the
/// control service knows, so this also fails while the two have lost each other.
pub(crate) async fn node(State(app): State<Arc<App>>) -> Result<Reply, Refusal> {
    control(State(app)).await
}

/// `GET /api/healthz`: both.
pub(crate) async fn both(State(app): State<Arc<App>>) -> Result<Reply, Refusal> {
    let outcome = check(&app).await.map_or_else(|refusal| refusal.text, |()| "success".to_owned());
    let text = format!("raylet: {outcome}\ngcs: {outcome}");
    match outcome.as_str() {
        "success" => Ok(reply::text(StatusCode::OK, text)),
        _ => Err(Refusal::unavailable(text)),
    }
}

async fn check(app: &App) -> Result<(), Refusal> {
    // Anybody may ask for this: it tells neither why nor where something is.
    let asked = app.answers.nodes(app).await;
    asked.map(drop).map_err(|_| Refusal::unavailable("the head does not answer"))
}
