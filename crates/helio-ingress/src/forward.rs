//! One request: find its deployment, wait for a replica, forward, answer.
//!
//! A request whose replica dies before it answers is sent to another one if asking twice does no harm: its
//! method says so (`GET`, `HEAD`, `OPTIONS`) and its body is at hand. It is sent [`TRIES`] times in all, so
//! that a request that kills replicas cannot kill them all. A replica that is ending refuses what it has not
//! begun; that may be sent on whatever the method.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use helio_proto::serve::{self, read_head};
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Version};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use crate::Shared;
use crate::answer::{Answer, Ongoing};
use crate::link::{Event, Exchange};
use crate::table::{self, NoPlace, Place, Route};
use crate::websocket;

/// Bodies of a known length up to this are read before a replica is asked.
const SMALL_BODY: u64 = 64 << 10;
/// How often a request may lose its replica.
const TRIES: usize = 2;
/// How often a request may be refused by replicas that are ending.
pub(crate) const REFUSALS_MAX: usize = 100;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Not forwarded: they are about the connection, not the answer.
const HOP_BY_HOP: [HeaderName; 4] =
    [header::CONNECTION, header::TRANSFER_ENCODING, header::UPGRADE, header::TE];

/// Who asked, and where.
#[derive(Debug, Clone)]
pub(crate) struct Ends {
    pub(crate) client: (String, u16),
    pub(crate) server: (String, u16),
}

pub(crate) async fn answer(
    shared: Rc<Shared>,
    ends: Rc<Ends>,
    mut request: Request<Incoming>,
) -> Result<Response<Answer>, Infallible> {
    let path = request.uri().path();
    if let Some(own) = path.strip_prefix("/-/") {
        return Ok(own_route(&shared, own).unwrap_or_else(|| not_found(path)));
    }
    let id = request.headers().get(&REQUEST_ID).cloned().unwrap_or_else(new_id);
    request.headers_mut().insert(REQUEST_ID, id.clone());
    let path = request.uri().path();
    let routes = shared.table.routes();
    let mut response = match table::find(&routes, path) {
        Some(route) if websocket::is_wanted(&request) => {
            websocket::open(&shared, route, &ends, request).await
        }
        Some(route) => forward(&shared, route, &ends, request).await,
        None => not_found(path),
    };
    response.headers_mut().entry(REQUEST_ID).or_insert(id);
    Ok(response)
}

fn own_route(shared: &Shared, name: &str) -> Option<Response<Answer>> {
    match name {
        "healthz" => Some(text(StatusCode::OK, "success".to_owned())),
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

fn not_found(path: &str) -> Response<Answer> {
    let say =
        format!("No application answers at {path:?}. GET /-/routes lists those that there are.");
    text(StatusCode::NOT_FOUND, say)
}

pub(crate) fn text(status: StatusCode, say: String) -> Response<Answer> {
    let mut response = Response::new(Answer::Whole(say.into()));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

fn new_id() -> HeaderValue {
    let mut bytes = [0; 16];
    // Without randomness ids repeat; they only tell requests apart in logs.
    let _ = getrandom::fill(&mut bytes);
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let id =
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]);
    HeaderValue::from_str(&id).unwrap_or(HeaderValue::from_static(""))
}

/// What is known of the request's body before a replica is asked.
pub(crate) enum Given {
    Whole(Bytes),
    Coming(Incoming),
    /// Messages, which [`websocket`] sends.
    Socket,
}

async fn read_small(body: Incoming) -> Result<Given, hyper::Error> {
    if body.is_end_stream() {
        return Ok(Given::Whole(Bytes::new()));
    }
    match body.size_hint().exact() {
        Some(length) if length <= SMALL_BODY => {}
        _ => return Ok(Given::Coming(body)),
    }
    let mut body = body;
    let mut read = bytes::BytesMut::new();
    while let Some(frame) = next_frame(&mut body).await {
        if let Ok(data) = frame?.into_data() {
            if read.is_empty() && body.is_end_stream() {
                return Ok(Given::Whole(data));
            }
            read.extend_from_slice(&data);
        }
    }
    Ok(Given::Whole(read.freeze()))
}

async fn next_frame(
    body: &mut Incoming,
) -> Option<Result<hyper::body::Frame<Bytes>, hyper::Error>> {
    poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await
}

async fn forward(
    shared: &Shared,
    route: &Route,
    ends: &Ends,
    request: Request<Incoming>,
) -> Response<Answer> {
    let deadline = shared.request_timeout.get().map(|most| (Instant::now() + most, most));
    let Some((until, most)) = deadline else {
        return attempt(shared, route, ends, request, None).await;
    };
    match tokio::time::timeout_at(until, attempt(shared, route, ends, request, Some(until))).await {
        Ok(response) => response,
        Err(_) => text(StatusCode::REQUEST_TIMEOUT, timed_out(most)),
    }
}

fn timed_out(most: Duration) -> String {
    format!("The request was not answered within request_timeout_s = {} s.", most.as_secs_f64())
}

async fn attempt(
    shared: &Shared,
    route: &Route,
    ends: &Ends,
    request: Request<Incoming>,
    until: Option<Instant>,
) -> Response<Answer> {
    let (parts, body) = request.into_parts();
    let mut given = match read_small(body).await {
        Ok(given) => given,
        Err(error) => {
            return text(StatusCode::BAD_REQUEST, format!("The body ends early: {error}"));
        }
    };
    let is_harmless = matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS);
    let (mut losses, mut refusals) = (0, 0);
    loop {
        let place = match place(shared, route).await {
            Ok(place) => place,
            Err(response) => return response,
        };
        let replica = place.replica.id.clone();
        let (ongoing, is_whole) = begin(place, route, ends, &parts, &mut given, until);
        match ongoing.exchange.next().await {
            Event::Head(head) => return reply(&head, ongoing),
            Event::Refused if is_whole && refusals < REFUSALS_MAX => refusals += 1,
            Event::Lost if is_whole && is_harmless && losses + 1 < TRIES => losses += 1,
            Event::Refused => {
                let say = format!("Replica {replica} was ending and did not begin the request.");
                return text(StatusCode::SERVICE_UNAVAILABLE, say);
            }
            _ => {
                let say = format!("Replica {replica} died while it had the request.");
                return text(StatusCode::INTERNAL_SERVER_ERROR, say);
            }
        }
        // It is on its way out of the table; nobody is to be asked twice within one breath.
        tokio::task::yield_now().await;
    }
}

/// A replica that is free, once there is one, or what the client is told.
pub(crate) async fn place(shared: &Shared, route: &Route) -> Result<Place, Response<Answer>> {
    let unavailable = |say| text(StatusCode::SERVICE_UNAVAILABLE, say);
    let Some(deployment) = shared.table.deployment(&route.deployment) else {
        return Err(unavailable("The application is going.".to_owned()));
    };
    deployment.acquire().await.map_err(|why| match why {
        NoPlace::Full { waiting, most } => unavailable(format!(
            "{waiting} requests wait for the deployment already, and max_queued_requests is {most}."
        )),
        NoPlace::Unavailable(why) => unavailable(why),
    })
}

/// Sends the request's head and what is there of its body; whether that was all.
pub(crate) fn begin(
    place: Place,
    route: &Route,
    ends: &Ends,
    parts: &hyper::http::request::Parts,
    given: &mut Given,
    until: Option<Instant>,
) -> (Ongoing, bool) {
    let (body, coming) = match given {
        Given::Whole(body) => (body.clone(), None),
        Given::Coming(_) => match std::mem::replace(given, Given::Whole(Bytes::new())) {
            Given::Coming(incoming) => (Bytes::new(), Some(incoming)),
            Given::Whole(body) => (body, None),
            Given::Socket => (Bytes::new(), None),
        },
        Given::Socket => (Bytes::new(), None),
    };
    let is_socket = matches!(given, Given::Socket);
    let is_whole = coming.is_none() && !is_socket;
    let head = serve::Request {
        is_whole,
        version: match parts.version {
            _ if is_socket => serve::WEBSOCKET,
            Version::HTTP_2 => 20,
            Version::HTTP_10 => 10,
            _ => 11,
        },
        method: parts.method.as_str().as_bytes(),
        path: parts.uri.path().as_bytes(),
        query: parts.uri.query().unwrap_or_default().as_bytes(),
        root: route.prefix.trim_end_matches('/').as_bytes(),
        client: (ends.client.0.as_bytes(), ends.client.1),
        server: (ends.server.0.as_bytes(), ends.server.1),
    };
    let headers: Vec<serve::Header<'_>> = parts
        .headers
        .iter()
        .map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
        .collect();
    let exchange = Rc::new(place.replica.link.begin(is_whole, |out, id| {
        serve::request(out, id, &head, &headers, &body);
    }));
    let pump = coming
        .map(|body| tokio::task::spawn_local(pump(body, Rc::clone(&exchange))).abort_handle());
    let deadline = until.map(|until| Box::pin(sleep_until(until)));
    (Ongoing { exchange, _place: place, pump, deadline }, is_whole)
}

/// Sends the request's body as it comes and as the replica takes it.
async fn pump(mut body: Incoming, exchange: Rc<Exchange>) {
    while let Some(frame) = next_frame(&mut body).await {
        // A client that breaks off has gone away: hyper drops the request, which tells the replica.
        let Ok(frame) = frame else { return };
        if let Ok(data) = frame.into_data() {
            exchange.send_body(data).await;
        }
    }
    exchange.end_body();
}

pub(crate) fn reply(head: &Bytes, ongoing: Ongoing) -> Response<Answer> {
    let Ok((is_whole, status, headers, body)) = read_head(head) else {
        return text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "The replica's answer is malformed.".to_owned(),
        );
    };
    let body = head.slice_ref(body);
    let answer = if is_whole {
        ongoing.exchange.answered();
        Answer::Whole(body)
    } else {
        Answer::Pieces { first: body, ongoing, is_over: false }
    };
    let mut response = Response::new(answer);
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let map: &mut HeaderMap = response.headers_mut();
    for (name, value) in headers.iter() {
        let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
        else {
            continue; // what is no header cannot be sent as one
        };
        if !HOP_BY_HOP.contains(&name) {
            map.append(name, value);
        }
    }
    response
}
