//! `/login`: a form for the token, and links that log in once.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{RawQuery, State};
use axum::http::{HeaderValue, Response, StatusCode, header};
use helio_env::clock::unix_ms;
use helio_proto::hello::is_right;

use crate::login::{COOKIE_MS_MAX, cookie};
use crate::reply::{self, Reply};
use crate::{App, login};

/// Maximum size of the form, in bytes.
const FORM_MAX: usize = 8 << 10;
/// Time that it may take to arrive.
const FORM_TIME_MAX: Duration = Duration::from_secs(10);

/// `GET /login`: the form, or with `?key=` a link's door.
pub(crate) async fn show(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Reply {
    let query = query.unwrap_or_default();
    let key = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "key");
    let Some((_, key)) = key else { return page(StatusCode::OK, "") };
    let mut used = app.used_links.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if used.take(&key, &app.door.token, unix_ms()) {
        enter(&app)
    } else {
        page(StatusCode::FORBIDDEN, "The link was used, or is older than ten minutes.")
    }
}

/// `POST /login`: the form.
pub(crate) async fn take(State(app): State<Arc<App>>, body: Body) -> Reply {
    let read = tokio::time::timeout(FORM_TIME_MAX, to_bytes(body, FORM_MAX)).await;
    let Ok(Ok(form)) = read else {
        return page(StatusCode::BAD_REQUEST, "The form did not arrive.");
    };
    let token = form_urlencoded::parse(&form).find(|(name, _)| name == "token");
    match token {
        Some((_, token)) if is_right(token.trim().as_bytes(), &app.door.token) => enter(&app),
        _ => page(StatusCode::FORBIDDEN, "That is not this cluster's token."),
    }
}

fn enter(app: &App) -> Reply {
    let cookie = format!(
        "{}={}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict",
        app.door.cookie,
        cookie(&app.door.token, unix_ms()),
        COOKIE_MS_MAX / 1000
    );
    let mut reply = Response::new(Body::empty());
    *reply.status_mut() = StatusCode::SEE_OTHER;
    reply.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/"));
    // Hex digits, dots and the port: always a value.
    if let Ok(value) = HeaderValue::from_str(&cookie) {
        reply.headers_mut().insert(header::SET_COOKIE, value);
    }
    reply
}

fn page(status: StatusCode, problem: &str) -> Reply {
    let problem =
        if problem.is_empty() { String::new() } else { format!("<p role=alert>{problem}</p>") };
    let minutes = login::LINK_MS_MAX / 60_000;
    reply::html(
        status,
        format!(
            "<!doctype html><html lang=en><meta charset=utf-8><title>Heliostat: log in</title>\
             <meta name=viewport content=\"width=device-width\">\
             <style>:root{{color-scheme:light dark}}body{{font:16px system-ui;max-width:34em;margin:15vh auto;\
             padding:0 1em}}input,button{{font:inherit;padding:.5em}}input{{width:100%;box-sizing:border-box;\
             margin:.3em 0 1em}}[role=alert]{{color:#c33}}</style>\
             <h1>Heliostat</h1>{problem}<form method=post action=/login><label>The cluster's token\
             <input name=token type=password autofocus required autocomplete=current-password></label>\
             <button>Log in</button></form>\
             <p>On a machine of the cluster, <code>heliostat get-auth-token</code> prints it. \
             <code>heliostat start</code> prints a link that logs in once, within {minutes} minutes.</p>"
        ),
    )
}
