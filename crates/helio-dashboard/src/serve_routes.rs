//! Serve's applications: `/api/serve/applications/`, as Ray's command line and KubeRay speak it, and how many
//! replicas a deployment is to have, which a scaler outside of the cluster says.
//!
//! Applications and their controller are Python: a driver ([`crate::drivers`]) answers each request.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::App;
use crate::access::Verdict;
use crate::job_routes::{BODY_MAX, read};
use crate::reply::{self, Refusal, Reply};

/// `GET`, `PUT` and `DELETE /api/serve/applications/`.
pub(crate) async fn applications(
    State(app): State<Arc<App>>,
    Extension(verdict): Extension<Verdict>,
    RawQuery(query): RawQuery,
    method: Method,
    body: Body,
) -> Result<Reply, Refusal> {
    let body = read(body, BODY_MAX).await?;
    let query: Vec<(String, String)> =
        form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned().collect();
    let named = query.iter().find(|(name, _)| name == "api_type").map(|(_, value)| value);
    let request = json!({
        "method": method.as_str(),
        "api_type": named,
        // Others may see the screen of a browser.
        "hides_variables": verdict == Verdict::Browser,
    });
    ask(&app, &request, &body).await
}

/// `POST /api/v1/applications/{application}/deployments/{deployment}/scale`.
pub(crate) async fn scale(
    State(app): State<Arc<App>>,
    Path((application, deployment)): Path<(String, String)>,
    body: Body,
) -> Result<Reply, Refusal> {
    let body = read(body, BODY_MAX).await?;
    let request = json!({ "method": "POST", "app": application, "deployment": deployment });
    ask(&app, &request, &body).await
}

async fn ask(app: &App, request: &Value, body: &[u8]) -> Result<Reply, Refusal> {
    let said = app
        .drivers
        .ask("heliostat.serve.rest", request, body)
        .await
        .map_err(Refusal::unavailable)?;
    let status = said["status"].as_u64().and_then(|code| u16::try_from(code).ok());
    let status = status.and_then(|code| StatusCode::from_u16(code).ok());
    match status {
        Some(StatusCode::OK) if said["json"].is_null() => Ok(reply::text(StatusCode::OK, "")),
        Some(code) if !said["json"].is_null() => Ok(reply::json_with(code, &said["json"])),
        Some(code) => Ok(reply::text(code, said["text"].as_str().unwrap_or_default())),
        None => Err(Refusal::unavailable("the driver for the request gave an unexpected answer")),
    }
}
