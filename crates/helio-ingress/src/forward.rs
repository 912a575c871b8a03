//! The path of a request of HTTP: refuse what servers may understand differently, find its deployment,
//! forward it.

use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Version};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use crate::Shared;
use crate::answer::Answer;
use crate::ask::{Call, Ends, ask, reply, within};
use crate::body::read_small;
use crate::client::Heads;
use crate::fault::text;
use crate::headers::{REQUEST_ID, new_id};
use crate::spans::Span;
use crate::table::{self, Route};
use crate::websocket;

/// Answers a request over HTTP/1.
pub(crate) async fn answer(
    shared: Rc<Shared>,
    ends: Rc<Ends>,
    heads: Arc<Mutex<Heads>>,
    request: Request<Incoming>,
) -> Result<Response<Answer>, Infallible> {
    let is_last = request.headers().contains_key(header::TRANSFER_ENCODING);
    // The connection reads on while the request is answered, and needs the lock for that.
    let refused = refusal(&request, &heads.lock());
    let mut response = match refused {
        Some((status, why)) => text(status, why.to_owned()),
        None => {
            let response = route(&shared, &ends, request).await;
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                heads.lock().end();
            }
            response
        }
    };
    // A proxy in front may see another end of the chunked body: what it sends as its rest is no request.
    if is_last || refused.is_some() || heads.lock().is_half_closed() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

type Refused = (StatusCode, &'static str);

/// Returns the refusal of a request that servers may understand differently.
fn refusal(request: &Request<Incoming>, heads: &Heads) -> Option<Refused> {
    let headers = request.headers();
    // Two servers that read the end of a request differently let one request hide in another.
    if headers.contains_key(header::TRANSFER_ENCODING) {
        if heads.is_ambiguous() || headers.contains_key(header::CONTENT_LENGTH) {
            let why = "A request has Content-Length or Transfer-Encoding, not both.";
            return Some((StatusCode::BAD_REQUEST, why));
        }
        let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
        let is_chunked =
            |value: &HeaderValue| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
        if !codings.next().is_some_and(is_chunked) || codings.next().is_some() {
            let why = "The only Transfer-Encoding that is understood is chunked.";
            return Some((StatusCode::NOT_IMPLEMENTED, why));
        }
    }
    let hosts = headers.get_all(header::HOST).iter().count();
    if hosts > 1 || hosts == 0 && request.version() == Version::HTTP_11 {
        return Some((StatusCode::BAD_REQUEST, "A request of HTTP/1.1 has one Host."));
    }
    of_method(request)
}

/// Answers a request over HTTP/2, where a body has one end.
pub(crate) async fn answer_stream(
    shared: &Shared,
    ends: &Ends,
    request: Request<Incoming>,
) -> Response<Answer> {
    match of_authority(&request).or_else(|| of_method(&request)) {
        Some((status, why)) => text(status, why.to_owned()),
        None => route(shared, ends, request).await,
    }
}

/// Returns the refusal of a request that has not exactly one host.
fn of_authority(request: &Request<Incoming>) -> Option<Refused> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (host, another) = (hosts.next(), hosts.next());
    let authority = request.uri().authority().map(|one| one.as_str().as_bytes());
    let why = match (authority, host.map(HeaderValue::as_bytes), another) {
        (None, None, _) => "A request of HTTP/2 has an :authority or a Host.",
        (_, _, Some(_)) => "A request has one Host.",
        (Some(one), Some(other), None) if !one.eq_ignore_ascii_case(other) => {
            "The :authority and the Host of a request are the same."
        }
        _ => return None,
    };
    Some((StatusCode::BAD_REQUEST, why))
}

fn of_method(request: &Request<Incoming>) -> Option<Refused> {
    (request.method() == Method::CONNECT).then_some((
        StatusCode::METHOD_NOT_ALLOWED,
        "This server is not a proxy: CONNECT leads nowhere.",
    ))
}

async fn route(shared: &Shared, ends: &Ends, mut request: Request<Incoming>) -> Response<Answer> {
    let path = request.uri().path();
    if let Some(own) = path.strip_prefix("/-/") {
        return own_route(shared, own).unwrap_or_else(|| not_found(path));
    }
    let id = request.headers().get(&REQUEST_ID).cloned().unwrap_or_else(new_id);
    request.headers_mut().insert(REQUEST_ID, id.clone());
    let routes = shared.table.routes();
    let Some(route) = table::find(&routes, request.uri().path()) else {
        let mut response = unknown(shared, request.uri().path());
        response.headers_mut().insert(REQUEST_ID, id);
        return response;
    };
    let span = begin_span(shared, route, &mut request, &id);
    let mut response = if websocket::is_wanted(&request) {
        websocket::open(shared, route, ends, request).await
    } else {
        forward(shared, route, ends, request).await
    };
    if let Some(mut span) = span {
        span.of_http(response.status());
        // The span of an answer in pieces ends with the last of them.
        if let Answer::Pieces { ongoing, .. } = response.body_mut() {
            ongoing.span = Some(span);
        }
    }
    response.headers_mut().entry(REQUEST_ID).or_insert(id);
    response
}

fn begin_span(
    shared: &Shared,
    route: &Route,
    request: &mut Request<Incoming>,
    id: &HeaderValue,
) -> Option<Span> {
    let method = request.method().clone();
    shared.spans.begin(request.headers_mut(), route, |deployment| {
        let attributes = json!({
            "request_id": String::from_utf8_lossy(id.as_bytes()),
            "request_type": "http",
            "request_method": method.as_str(),
            "request_route_path": route.prefix,
            "http.method": method.as_str(),
            "http.route": route.prefix,
        });
        (format!("proxy_http_request {deployment} {method} {}", route.prefix), attributes)
    })
}

fn own_route(shared: &Shared, name: &str) -> Option<Response<Answer>> {
    match name {
        "healthz" | "routes" if !shared.had_routes.get() => {
            let say = "No application has been deployed yet: this server has no routes.";
            Some(text(StatusCode::SERVICE_UNAVAILABLE, say.to_owned()))
        }
        "healthz" => Some(text(StatusCode::OK, health(shared))),
        "routes" => {
            let routes = shared.table.routes();
            let routes = routes.iter().map(|route| (route.prefix.clone(), json!(route.app)));
            let body = serde_json::Value::Object(routes.collect()).to_string();
            let mut response = Response::new(Answer::Whole(body.into()));
            let json = HeaderValue::from_static("application/json");
            response.headers_mut().insert(header::CONTENT_TYPE, json);
            Some(response)
        }
        _ => None,
    }
}

/// `success`, as probes expect it; more where the cluster does not answer.
pub(crate) fn health(shared: &Shared) -> String {
    let Some(since) = shared.daemon_gone.get() else { return "success".to_owned() };
    format!(
        "success\nThe daemon of this node has ended {} s ago. Until it is started again, requests go to the replicas \
         that are still there, and nothing is deployed or scaled.",
        since.elapsed().as_secs()
    )
}

/// An ingress that has just started knows of no route yet: that does not say whether there is one.
fn unknown(shared: &Shared, path: &str) -> Response<Answer> {
    if shared.is_told.get() {
        return not_found(path);
    }
    let say = "Serve has just started here and does not know its applications yet: ask again.";
    let mut response = text(StatusCode::SERVICE_UNAVAILABLE, say.to_owned());
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn not_found(path: &str) -> Response<Answer> {
    let say =
        format!("No application answers at {path:?}. GET /-/routes lists those that there are.");
    text(StatusCode::NOT_FOUND, say)
}

async fn forward(
    shared: &Shared,
    route: &Route,
    ends: &Ends,
    request: Request<Incoming>,
) -> Response<Answer> {
    let (parts, body) = request.into_parts();
    let most = shared.request_timeout.get();
    let asked = async |until: Option<Instant>| {
        let mut given = read_small(body, shared.silence).await?;
        let call = Call { route, ends, parts: &parts, until };
        let is_harmless = matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS);
        let (head, ongoing) = ask(shared, &call, &mut given, is_harmless).await?;
        reply(&head, ongoing)
    };
    within(most, asked).await.unwrap_or_else(|fault| fault.http())
}
