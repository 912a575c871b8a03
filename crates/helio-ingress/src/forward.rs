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
use crate::fault::{Fault, text};
use crate::link::{Event, Exchange};
use crate::spans::Span;
use crate::table::{self, Place, Route};
use crate::websocket;

/// Bodies of a known length up to this are read before a replica is asked.
const SMALL_BODY: u64 = 64 << 10;
/// How often a request may lose its replica.
const TRIES: usize = 2;
/// How often a request may be refused by replicas that are ending.
pub(crate) const REFUSALS_MAX: usize = 100;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Not forwarded: they are about the connection, not the answer.
const HOP_BY_HOP: [HeaderName; 4] =
    [header::CONNECTION, header::TRANSFER_ENCODING, header::UPGRADE, header::TE];

/// The two ends of a client's connection.
#[derive(Debug, Clone)]
pub(crate) struct Ends {
    /// Whether the connection is encrypted.
    pub(crate) is_secure: bool,
    pub(crate) client: (String, u16),
    pub(crate) server: (String, u16),
}

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

/// Why a request is not forwarded: servers may understand it differently.
fn refusal(request: &Request<Incoming>, heads: &Heads) -> Option<Refused> {
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

/// Why a request has not one host.
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

pub(crate) fn new_id() -> HeaderValue {
    let mut bytes = [0; 16];
    // Without randomness ids repeat; they only tell requests apart in logs.
    let _ = getrandom::fill(&mut bytes);
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let id =
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]);
    HeaderValue::from_str(&id).unwrap_or(HeaderValue::from_static(""))
}

/// The part of the request's body that has come before a replica is asked.
pub(crate) struct Given {
    /// The protocol inside the bodies, if it is not HTTP's own: [`serve::WEBSOCKET`], [`serve::GRPC`].
    pub(crate) kind: Option<u8>,
    /// The bytes that have come.
    pub(crate) first: Bytes,
    /// The part that is still to come.
    pub(crate) rest: Option<Incoming>,
}

impl Given {
    pub(crate) fn whole(first: Bytes) -> Self {
        Self { kind: None, first, rest: None }
    }
}

async fn read_small(body: Incoming, silence: Duration) -> Result<Given, Fault> {
    match body.size_hint().exact() {
        _ if body.is_end_stream() => Ok(Given::whole(Bytes::new())),
        Some(length) if length <= SMALL_BODY => read_up_to_small(body, true, silence).await,
        _ => Ok(Given { kind: None, first: Bytes::new(), rest: Some(body) }),
    }
}

/// Reads on until the body is over, or is not small.
pub(crate) async fn read_up_to_small(
    mut body: Incoming,
    is_length_known: bool,
    silence: Duration,
) -> Result<Given, Fault> {
    let mut read = bytes::BytesMut::new();
    let mut patience = Patience::new(silence, is_length_known);
    while let Some(frame) = patience.wait(next_frame(&mut body), size).await.ok_or(Fault::Late)? {
        let frame = frame.map_err(|error| Fault::Cut(error.to_string()))?;
        if let Ok(data) = frame.into_data() {
            if read.is_empty() && body.is_end_stream() {
                return Ok(Given::whole(data));
            }
            read.extend_from_slice(&data);
        }
        if read.len() as u64 > SMALL_BODY {
            return Ok(Given { kind: None, first: read.freeze(), rest: Some(body) });
        }
    }
    Ok(Given::whole(read.freeze()))
}

pub(crate) type Part = Option<Result<hyper::body::Frame<Bytes>, hyper::Error>>;

pub(crate) fn size(part: &Part) -> usize {
    let data = part.as_ref().and_then(|part| part.as_ref().ok()?.data_ref());
    data.map_or(0, Bytes::len)
}

pub(crate) async fn next_frame(body: &mut Incoming) -> Part {
    poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await
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

/// Returns the answer of `asked`, if it comes within that time.
pub(crate) async fn within<T>(
    most: Option<Duration>,
    asked: impl AsyncFnOnce(Option<Instant>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let Some(most) = most else { return asked(None).await };
    let until = Instant::now() + most;
    let answer = tokio::time::timeout_at(until, asked(Some(until))).await;
    answer.unwrap_or(Err(Fault::TimedOut(most)))
}

/// A request as replicas are asked it.
pub(crate) struct Call<'a> {
    pub(crate) route: &'a Route,
    pub(crate) ends: &'a Ends,
    pub(crate) parts: &'a hyper::http::request::Parts,
    /// When an answer has to be whole.
    pub(crate) until: Option<Instant>,
}

/// The head of a replica's answer. Who `is_harmless` may be asked twice.
pub(crate) async fn ask(
    shared: &Shared,
    call: &Call<'_>,
    given: &mut Given,
    is_harmless: bool,
) -> Result<(Bytes, Ongoing), Fault> {
    let (mut losses, mut refusals) = (0, 0);
    loop {
        let place = place(shared, call.route).await?;
        let replica = place.replica.id.clone();
        let (ongoing, is_whole) = begin(shared, place, call, given);
        match ongoing.exchange.next().await {
            Event::Head(head) => return Ok((head, ongoing)),
            Event::Refused if is_whole && refusals < REFUSALS_MAX => refusals += 1,
            Event::Lost if is_whole && is_harmless && losses + 1 < TRIES => losses += 1,
            Event::Late => return Err(Fault::Late),
            Event::Malformed => return Err(Fault::Malformed),
            Event::Refused => return Err(Fault::Refused { replica }),
            _ => return Err(Fault::Died { replica }),
        }
        // Yields once, so that the dead or refusing replica leaves the table before the next attempt.
        tokio::task::yield_now().await;
    }
}

/// A replica that is free, once there is one.
pub(crate) async fn place(shared: &Shared, route: &Route) -> Result<Place, Fault> {
    let Some(deployment) = shared.table.deployment(&route.deployment) else {
        return Err(Fault::Unavailable("The application is going.".to_owned()));
    };
    Ok(deployment.acquire().await?)
}

/// Sends the request's head and what is there of its body; whether that was all.
pub(crate) fn begin(
    shared: &Shared,
    place: Place,
    call: &Call<'_>,
    given: &mut Given,
) -> (Ongoing, bool) {
    let Call { route, ends, parts, until } = *call;
    let (body, coming) = (given.first.clone(), given.rest.take());
    let is_whole = coming.is_none() && given.kind != Some(serve::WEBSOCKET);
    let head = serve::Request {
        is_whole,
        is_secure: ends.is_secure,
        version: given.kind.unwrap_or(match parts.version {
            Version::HTTP_2 => 20,
            Version::HTTP_10 => 10,
            _ => 11,
        }),
        method: parts.method.as_str().as_bytes(),
        path: parts.uri.path().as_bytes(),
        query: parts.uri.query().unwrap_or_default().as_bytes(),
        root: route.prefix.trim_end_matches('/').as_bytes(),
        client: (ends.client.0.as_bytes(), ends.client.1),
        server: (ends.server.0.as_bytes(), ends.server.1),
    };
    let cookies = joined_cookies(parts);
    let mut headers: Vec<serve::Header<'_>> = parts
        .headers
        .iter()
        .filter(|(name, _)| cookies.is_none() || *name != header::COOKIE)
        .map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
        .collect();
    if let Some(cookies) = &cookies {
        headers.push((header::COOKIE.as_str().as_bytes(), cookies));
    }
    // HTTP/2 has the host in another place; applications look for it here.
    if let Some(host) = parts.uri.authority()
        && !parts.headers.contains_key(header::HOST)
    {
        headers.push((header::HOST.as_str().as_bytes(), host.as_str().as_bytes()));
    }
    let exchange = Rc::new(place.replica.link.begin(is_whole, |out, id| {
        serve::request(out, id, &head, &headers, &body);
    }));
    let pump = coming
        .map(|body| pump(body, Rc::clone(&exchange), shared.silence))
        .map(|pump| tokio::task::spawn_local(pump).abort_handle());
    let deadline = until.map(|until| Box::pin(sleep_until(until)));
    let is_grpc = given.kind == Some(serve::GRPC);
    (Ongoing { exchange, _place: place, pump, deadline, is_grpc, span: None }, is_whole)
}

/// HTTP/2 may send each cookie in a header of its own; applications expect one header.
fn joined_cookies(parts: &hyper::http::request::Parts) -> Option<Vec<u8>> {
    let all = parts.headers.get_all(header::COOKIE);
    if parts.version != Version::HTTP_2 || all.iter().count() < 2 {
        return None;
    }
    let each: Vec<&[u8]> = all.iter().map(HeaderValue::as_bytes).collect();
    Some(each.join(&b"; "[..]))
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

pub(crate) fn reply(head: &Bytes, ongoing: Ongoing) -> Result<Response<Answer>, Fault> {
    let Ok((is_whole, status, headers, body)) = read_head(head) else {
        return Err(Fault::Garbled);
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
    *response.headers_mut() = header_map(headers);
    Ok(response)
}

/// Returns the headers that can be sent; pairs that are not valid headers are left out.
pub(crate) fn header_map(headers: serve::Headers<'_>) -> HeaderMap {
    let pairs = headers.iter().filter_map(|(name, value)| {
        Some((HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?))
    });
    let mut map = HeaderMap::new();
    for (name, value) in pairs.filter(|(name, _)| !HOP_BY_HOP.contains(name)) {
        map.append(name, value);
    }
    map
}
