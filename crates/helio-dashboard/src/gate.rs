//! The layer that every request passes: the judgement of [`crate::access`], and the headers of every answer.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::IntoResponse as _;
use helio_env::clock::unix_ms;

use crate::App;
use crate::access::{Head, Verdict};
use crate::parameters;
use crate::reply::{Refusal, Reply, enveloped_refusal};

/// Scripts and styles come from here alone, nobody shows the page in a frame, and answers, which are
/// somebody's data, stay in no cache.
const HEADERS: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

/// Paths that a history cannot answer: they need processes, or files of machines.
const NOT_OF_PAST: [&str; 6] = [
    "/api/v0/changes",
    "/api/v0/logs",
    "/api/v0/stacks",
    "/api/serve",
    "/api/autoscaler",
    "/api/prometheus",
];
/// Ray's clients of these routes read why they are refused from JSON.
const STATE: &str = "/api/v0/";

const GONE: &str = "This cluster has ended. Its history has rows and figures, but no logs and no stacks, and cannot be changed.";

/// Whether a cluster that is gone can answer it.
fn is_of_past(request: &Request) -> bool {
    let path = request.uri().path();
    let is_of_jobs_log = path.starts_with("/api/jobs/") && path.contains("/logs");
    path == "/login"
        || (matches!(*request.method(), Method::GET | Method::HEAD)
            && !is_of_jobs_log
            && !NOT_OF_PAST.iter().any(|prefix| path.starts_with(prefix)))
}

/// Lets a request through that may be answered.
pub(crate) async fn keep(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Reply {
    let verdict = app.door.judge(&head(&request), unix_ms());
    let path = request.uri().path();
    let is_gone = app.asker.past().is_some();
    let refusal = match verdict {
        Verdict::Public | Verdict::Program | Verdict::Browser => None,
        // A person comes by the first page, a program does not.
        Verdict::Missing | Verdict::Wrong if path == "/" => return with_headers(to_login()),
        Verdict::Missing => Some((
            StatusCode::UNAUTHORIZED,
            "Unauthorized: the cluster's token is needed. Send `Authorization: Bearer` and what `heliostat \
             get-auth-token` prints, or log in at /login.",
        )),
        Verdict::Wrong => Some((
            StatusCode::FORBIDDEN,
            "Forbidden: the token is not this cluster's, or the login has run out. `heliostat get-auth-token` prints \
             the token.",
        )),
        Verdict::Misdirected => Some((
            StatusCode::MISDIRECTED_REQUEST,
            "This server is not known by that name. Ask it by an address or as localhost, or list the name in \
             HELIOSTAT_DASHBOARD_NAMES on the head.",
        )),
        Verdict::CrossSite => Some((
            StatusCode::FORBIDDEN,
            "Forbidden: the request comes from a page of another server.",
        )),
    };
    if let Some((status, text)) = refusal {
        let mut reply = Refusal::new(status, text).into_response();
        if status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer");
            reply.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
        }
        return with_headers(reply);
    }
    if is_gone && !is_of_past(&request) {
        return with_headers(Refusal::missing(GONE).into_response());
    }
    if let Some(refusal) = parameters::refusal(&request) {
        return with_headers(match request.uri().path().starts_with(STATE) {
            true => enveloped_refusal(&refusal),
            false => refusal.into_response(),
        });
    }
    request.extensions_mut().insert(verdict);
    // The query is left out: the login's holds a key.
    let asked = tracing::enabled!(tracing::Level::DEBUG)
        .then(|| format!("{} {}", request.method(), request.uri().path()));
    let reply = with_headers(next.run(request).await);
    tracing::debug!(status = reply.status().as_u16(), asked, "request answered");
    reply
}

fn head(request: &Request) -> Head<'_> {
    let headers = request.headers();
    let is_reading = matches!(*request.method(), Method::GET | Method::HEAD);
    Head {
        path: request.uri().path(),
        is_change: !is_reading || headers.contains_key(header::UPGRADE),
        host: text(headers, &header::HOST).unwrap_or_default(),
        origin: text(headers, &header::ORIGIN),
        authorization: text(headers, &header::AUTHORIZATION),
        ray_authorization: text(headers, &HeaderName::from_static("x-ray-authorization")),
        cookies: text(headers, &header::COOKIE).unwrap_or_default(),
        agent: text(headers, &header::USER_AGENT).unwrap_or_default(),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    // A header that is not text counts as present and matches nothing.
    headers.get(name).map(|value| value.to_str().unwrap_or("\u{fffd}"))
}

fn to_login() -> Reply {
    (StatusCode::SEE_OTHER, [(header::LOCATION, "/login")]).into_response()
}

fn with_headers(mut reply: Reply) -> Reply {
    for (name, value) in HEADERS {
        reply.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    reply
}

pub(crate) async fn nothing_here(uri: Uri) -> Refusal {
    Refusal::missing(format!("There is nothing at {}.", uri.path()))
}

pub(crate) async fn wrong_method(method: Method, uri: Uri) -> Refusal {
    let text = format!("{} does not take {method}.", uri.path());
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, text)
}
