//! One request: find its deployment, wait for a replica, forward, answer.
//!
//! A request whose replica dies before it answers is sent to another one if asking twice does no harm: its
//! method says so (`GET`, `HEAD`, `OPTIONS`) and its body is at hand. It is sent [`TRIES`] times in all, so
//! that a request that kills replicas cannot kill them all. A replica that is ending refuses what it has not
//! begun; that may be sent on whatever the method.

use std::convert::Infallible;
use std::error::Error as _;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use helio_proto::serve::{self, read_head};
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Version};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use crate::Shared;
use crate::answer::{Answer, Ongoing};
use crate::client::{Heads, Patience};
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
    heads: Arc<Mutex<Heads>>,
    request: Request<Incoming>,
) -> Result<Response<Answer>, Infallible> {
    let is_last = request.headers().contains_key(header::TRANSFER_ENCODING);
    // The connection reads on while the request is answered, and needs the lock for that.
    let refused = refusal(&request, &heads.lock());
    let mut response = match refused {
        Some((status, why)) => text(status, why.to_owned()),
        None => route(&shared, &ends, &heads, request).await,
    };
    // A proxy in front may see another end of the chunked body: what it sends as its rest is no request.
    if is_last || refused.is_some() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

/// Why a request is not forwarded: servers may understand it differently.
fn refusal(request: &Request<Incoming>, heads: &Heads) -> Option<(StatusCode, &'static str)> {
    let headers = request.headers();
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
    (request.method() == Method::CONNECT).then_some((
        StatusCode::METHOD_NOT_ALLOWED,
        "This server is no proxy: CONNECT leads nowhere.",
    ))
}

async fn route(
    shared: &Shared,
    ends: &Ends,
    heads: &Mutex<Heads>,
    mut request: Request<Incoming>,
) -> Response<Answer> {
    let path = request.uri().path();
    if let Some(own) = path.strip_prefix("/-/") {
        return own_route(shared, own).unwrap_or_else(|| not_found(path));
    }
    let id = request.headers().get(&REQUEST_ID).cloned().unwrap_or_else(new_id);
    request.headers_mut().insert(REQUEST_ID, id.clone());
    let path = request.uri().path();
    let routes = shared.table.routes();
    let mut response = match table::find(&routes, path) {
        Some(route) if websocket::is_wanted(&request) => {
            let response = websocket::open(shared, route, ends, request).await;
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                heads.lock().end();
            }
            response
        }
        Some(route) => forward(shared, route, ends, request).await,
        None => unknown(shared, path),
    };
    response.headers_mut().entry(REQUEST_ID).or_insert(id);
    response
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
fn health(shared: &Shared) -> String {
    let Some(since) = shared.daemon_gone.get() else { return "success".to_owned() };
    format!(
        "success\nThe daemon of this node has ended {} s ago. Until it is started again, requests go to the replicas \
         that are still there, and nothing is deployed or scaled.",
        since.elapsed().as_secs()
    )
}

/// An ingress that has just started knows of no route yet: that is no word on whether there is one.
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

/// Why a request's body is not there.
enum Missing {
    Broken(hyper::Error),
    Late,
}

async fn read_small(body: Incoming, silence: Duration) -> Result<Given, Missing> {
    if body.is_end_stream() {
        return Ok(Given::Whole(Bytes::new()));
    }
    match body.size_hint().exact() {
        Some(length) if length <= SMALL_BODY => {}
        _ => return Ok(Given::Coming(body)),
    }
    let mut body = body;
    let mut read = bytes::BytesMut::new();
    let mut patience = Patience::new(silence, true);
    while let Some(frame) = patience.wait(next_frame(&mut body), size).await.ok_or(Missing::Late)? {
        if let Ok(data) = frame.map_err(Missing::Broken)?.into_data() {
            if read.is_empty() && body.is_end_stream() {
                return Ok(Given::Whole(data));
            }
            read.extend_from_slice(&data);
        }
    }
    Ok(Given::Whole(read.freeze()))
}

type Part = Option<Result<hyper::body::Frame<Bytes>, hyper::Error>>;

fn size(part: &Part) -> usize {
    let data = part.as_ref().and_then(|part| part.as_ref().ok()?.data_ref());
    data.map_or(0, Bytes::len)
}

async fn next_frame(body: &mut Incoming) -> Part {
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

fn too_slow() -> Response<Answer> {
    let say = "The request's body came too slowly, or not to its end.";
    text(StatusCode::REQUEST_TIMEOUT, say.to_owned())
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
    let mut given = match read_small(body, shared.silence).await {
        Ok(given) => given,
        Err(Missing::Late) => return too_slow(),
        Err(Missing::Broken(error)) => {
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
        let (ongoing, is_whole) = begin(shared, place, route, ends, &parts, &mut given, until);
        match ongoing.exchange.next().await {
            Event::Head(head) => return reply(&head, ongoing),
            Event::Refused if is_whole && refusals < REFUSALS_MAX => refusals += 1,
            Event::Lost if is_whole && is_harmless && losses + 1 < TRIES => losses += 1,
            Event::Late => return too_slow(),
            Event::Malformed => {
                let say = "The request's body is not chunked as HTTP has it.";
                return text(StatusCode::BAD_REQUEST, say.to_owned());
            }
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
        NoPlace::Full { waiting, most, refusal } => {
            let say = format!(
                "{waiting} requests wait for the deployment already, and max_queued_requests is {most}."
            );
            let mut response = unavailable(say);
            *response.status_mut() = StatusCode::from_u16(refusal.status)
                .unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
            if let Some(seconds) = refusal.retry_after {
                response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
            }
            response
        }
        NoPlace::Unavailable(why) => unavailable(why),
    })
}

/// Sends the request's head and what is there of its body; whether that was all.
pub(crate) fn begin(
    shared: &Shared,
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
        .map(|body| pump(body, Rc::clone(&exchange), shared.silence))
        .map(|pump| tokio::task::spawn_local(pump).abort_handle());
    let deadline = until.map(|until| Box::pin(sleep_until(until)));
    (Ongoing { exchange, _place: place, pump, deadline }, is_whole)
}

/// Whether a body that broke was wrong, or ended.
fn why_broken(error: &hyper::Error) -> Event {
    let kind =
        error.source().and_then(|source| source.downcast_ref::<io::Error>()).map(io::Error::kind);
    match kind {
        Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) => Event::Malformed,
        _ => Event::Late,
    }
}

/// Sends the request's body as it comes and as the replica takes it.
async fn pump(mut body: Incoming, exchange: Rc<Exchange>, silence: Duration) {
    let mut patience = Patience::new(silence, body.size_hint().exact().is_some());
    loop {
        let Some(part) = patience.wait(next_frame(&mut body), size).await else {
            return exchange.give_up(Event::Late);
        };
        let Some(frame) = part else { break };
        // A client that has gone away whole is noticed by hyper, which drops the request; one that has only
        // stopped sending might still listen.
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => return exchange.give_up(why_broken(&error)),
        };
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
