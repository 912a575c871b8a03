//! Asking replicas: wait for one that is free, send it the request, take the head of its answer.
//!
//! A request whose replica dies before it answers is sent to another one if asking twice does no harm: its
//! method says so (`GET`, `HEAD`, `OPTIONS`) and its body is at hand. It is sent [`TRIES`] times in all, so
//! that a request that kills replicas cannot kill them all. A replica that is ending refuses what it has not
//! begun; that may be sent on whatever the method.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use helio_proto::serve::{self, read_head};
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode, Version};
use tokio::time::{Instant, sleep_until};

use crate::Shared;
use crate::answer::{Answer, Ongoing};
use crate::body::{Given, pump};
use crate::fault::Fault;
use crate::headers::header_map;
use crate::link::Event;
use crate::table::{Place, Route};

/// Number of times that a request is sent at most, when it loses its replicas.
const TRIES: usize = 2;
/// Number of times that a request may be refused by replicas that are ending.
pub(crate) const REFUSALS_MAX: usize = 100;

/// The two ends of a client's connection.
#[derive(Debug, Clone)]
pub(crate) struct Ends {
    /// Whether the connection is encrypted.
    pub(crate) is_secure: bool,
    pub(crate) client: (String, u16),
    pub(crate) server: (String, u16),
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
    /// The time at which an answer has to be whole.
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
            // A body of which a part has gone cannot be sent again: the rest was not kept.
            Event::Refused if is_whole && refusals < REFUSALS_MAX => refusals += 1,
            // The replica may have begun the request, so only a harmless one is asked again.
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
