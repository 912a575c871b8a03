//! Calls of gRPC: HTTP/2 here, messages of the user's own kind in the replica.
//!
//! The controller says which methods there are and which of them get a stream ([`Methods`]). The metadata `application`
//! picks the application; where there is one only, that is it. Messages pass through as they are; the replica
//! ends its answer with the status. What is wrong before that is said here, by the codes of gRPC.
//!
//! Two services answer without a replica: `ray.serve.RayServeAPIService`, and the `Check` of `grpc.health.v1.Health`, which
//! load balancers ask.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use helio_proto::serve;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode, Version};
use prost::Message as _;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::answer::Answer;
use crate::ask::{Call, Ends, ask, reply, within};
use crate::body::{Given, read_up_to_small};
use crate::fault::{Fault, text};
use crate::forward::health;
use crate::grpc_status::{
    DEADLINE_EXCEEDED, INTERNAL, NOT_FOUND, RESOURCE_EXHAUSTED, UNAVAILABLE, UNIMPLEMENTED, status,
};
use crate::headers::{REQUEST_ID, new_id};
use crate::reflection::{self, Descriptors, framed};
use crate::spans::Span;
use crate::table::Route;
use crate::{Shared, seconds};

const KIND: HeaderValue = HeaderValue::from_static("application/grpc");
/// Answers of reflection that wait for their client.
const ANSWERS_AHEAD: usize = 8;
const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
const APPLICATION: HeaderName = HeaderName::from_static("application");
/// The id of a call in metadata, by Ray's name; headers of HTTP have a name of their own for it.
const CALL_ID: HeaderName = HeaderName::from_static("request_id");

const SERVING: i32 = 1;
const NOT_SERVING: i32 = 2;

/// `HealthzResponse` and `ListApplicationsResponse` of Ray's service: one text has the form of many.
#[derive(Clone, PartialEq, prost::Message)]
struct Texts {
    #[prost(string, repeated, tag = "1")]
    texts: Vec<String>,
}

/// `grpc.health.v1.HealthCheckResponse`.
#[derive(Clone, PartialEq, prost::Message)]
struct Health {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// The methods of the servicers that the user named, and for how long a call may last.
#[derive(Debug, Default)]
pub(crate) struct Methods {
    /// Whether the client sends a stream, by path: `/package.Service/Method`.
    streams: HashMap<String, bool>,
    timeout: Option<Duration>,
    /// The description of the services for tools.
    descriptors: Option<Rc<Descriptors>>,
}

impl Methods {
    pub(crate) fn read(said: &Value) -> Self {
        let rows = said["methods"].as_object().into_iter().flatten();
        Self {
            streams: rows.map(|(path, row)| (path.clone(), row == true)).collect(),
            timeout: seconds(&said["request_timeout_s"]),
            descriptors: Descriptors::read(&said["described"]).map(Rc::new),
        }
    }
}

/// Whether a request is a call of gRPC.
pub(crate) fn is_wanted(request: &Request<Incoming>) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let rest = kind.and_then(|kind| kind.strip_prefix(KIND.as_bytes()));
    request.version() == Version::HTTP_2
        && request.method() == Method::POST
        && rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

/// Returns the refusal of requests to the gRPC port that are not gRPC.
pub(crate) fn refuse() -> Response<Answer> {
    let say = "This port is for gRPC: its requests are a POST over HTTP/2 with the content-type application/grpc.";
    text(StatusCode::UNSUPPORTED_MEDIA_TYPE, say.to_owned())
}

pub(crate) async fn answer(
    shared: &Shared,
    ends: &Ends,
    mut request: Request<Incoming>,
) -> Response<Answer> {
    if let Some(response) = own_service(shared, request.uri().path()) {
        return response;
    }
    let methods = shared.methods.borrow().clone();
    if reflection::PATHS.contains(&request.uri().path())
        && let Some(descriptors) = &methods.descriptors
    {
        let (answers, coming) = mpsc::channel(ANSWERS_AHEAD);
        let (descriptors, silence) = (Rc::clone(descriptors), shared.silence);
        tokio::task::spawn_local(async move {
            descriptors.converse(request.into_body(), answers, silence).await;
        });
        return messages(coming);
    }
    let Some(&is_stream) = methods.streams.get(request.uri().path()) else {
        let say = format!(
            "No servicer of grpc_servicer_functions has the method {}.",
            request.uri().path()
        );
        return ended(UNIMPLEMENTED, &say);
    };
    let routes = shared.table.routes();
    let route = match route(shared, &routes, request.headers()) {
        Ok(route) => route,
        Err((code, say)) => return ended(code, &say),
    };
    let headers = request.headers_mut();
    let id = headers.get(&CALL_ID).cloned().unwrap_or_else(new_id);
    headers.insert(REQUEST_ID, id);
    let wanted = headers.get(&TIMEOUT).and_then(|value| timeout_of(value.to_str().ok()?));
    let most = [methods.timeout, wanted].into_iter().flatten().min();
    let (mut parts, body) = request.into_parts();
    let span = begin_span(shared, route, &mut parts);
    let answered = within(most, async |until| {
        // A stream may wait for its first answer before it sends anything.
        let given = if is_stream {
            Given { kind: None, first: Bytes::new(), rest: Some(body) }
        } else {
            read_up_to_small(body, false, shared.silence).await?
        };
        let mut given = Given { kind: Some(serve::GRPC), ..given };
        let call = Call { route, ends, parts: &parts, until };
        // Never tried again: of a method it is not known whether it does harm.
        let (head, ongoing) = ask(shared, &call, &mut given, false).await?;
        reply(&head, ongoing)
    });
    let mut response =
        answered.await.unwrap_or_else(|fault| ended(code_of(&fault), &fault.sentence()));
    if let Some(mut span) = span {
        span.of_rpc(response.headers());
        if let Answer::Pieces { ongoing, .. } = response.body_mut() {
            ongoing.span = Some(span);
        }
    }
    response
}

fn begin_span(shared: &Shared, route: &Route, parts: &mut Parts) -> Option<Span> {
    let (path, id) = (parts.uri.path(), parts.headers.get(&REQUEST_ID).cloned());
    shared.spans.begin(&mut parts.headers, route, |deployment| {
        let (service, method) = path.trim_start_matches('/').rsplit_once('/').unwrap_or_default();
        let attributes = json!({
            "request_id": id.map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned()),
            "request_type": "grpc",
            "rpc.system": "grpc",
            "rpc.service": service,
            "rpc.method": method,
        });
        (format!("proxy_grpc_request {deployment} {path}"), attributes)
    })
}

fn code_of(fault: &Fault) -> u8 {
    match fault {
        Fault::Late | Fault::TimedOut(_) => DEADLINE_EXCEEDED,
        Fault::Full { .. } => RESOURCE_EXHAUSTED,
        Fault::Unavailable(_) | Fault::Refused { .. } | Fault::Died { .. } => UNAVAILABLE,
        Fault::Cut(_) | Fault::Malformed | Fault::Garbled => INTERNAL,
    }
}

fn route<'a>(
    shared: &Shared,
    routes: &'a [Route],
    headers: &HeaderMap,
) -> Result<&'a Route, (u8, String)> {
    let name = headers.get(&APPLICATION).map(|name| String::from_utf8_lossy(name.as_bytes()));
    let found = match &name {
        Some(name) => routes.iter().find(|route| route.app == **name),
        None if routes.len() == 1 => routes.first(),
        None => None,
    };
    if !shared.is_told.get() {
        return Err((UNAVAILABLE, "Serve has just started here: ask again.".to_owned()));
    }
    found.ok_or_else(|| {
        let say = match name {
            None => "Application metadata not set.".to_owned(),
            Some(name) => format!("Application '{name}' not found."),
        };
        let hint =
            "Ping /ray.serve.RayServeAPIService/ListApplications for available applications.";
        (NOT_FOUND, format!("{say} {hint}"))
    })
}

fn own_service(shared: &Shared, path: &str) -> Option<Response<Answer>> {
    let is_ready = shared.had_routes.get();
    let message = match path {
        "/ray.serve.RayServeAPIService/Healthz"
        | "/ray.serve.RayServeAPIService/ListApplications"
            if !is_ready =>
        {
            return Some(ended(UNAVAILABLE, "No application has been deployed yet."));
        }
        "/ray.serve.RayServeAPIService/Healthz" => {
            Texts { texts: vec![health(shared)] }.encode_to_vec()
        }
        "/ray.serve.RayServeAPIService/ListApplications" => {
            let texts = shared.table.routes().iter().map(|route| route.app.clone()).collect();
            Texts { texts }.encode_to_vec()
        }
        "/grpc.health.v1.Health/Check" => {
            Health { status: if is_ready { SERVING } else { NOT_SERVING } }.encode_to_vec()
        }
        _ => return None,
    };
    let (answer, coming) = mpsc::channel(1);
    let _ = answer.try_send(framed(&message)); // there is room for one
    Some(messages(coming))
}

fn messages(coming: mpsc::Receiver<Bytes>) -> Response<Answer> {
    let mut response = Response::new(Answer::Messages { coming, is_over: false });
    response.headers_mut().insert(header::CONTENT_TYPE, KIND);
    response
}

/// An answer that is a status and nothing else.
fn ended(code: u8, say: &str) -> Response<Answer> {
    let mut response = Response::new(Answer::Whole(Bytes::new()));
    *response.headers_mut() = status(code, say);
    response.headers_mut().insert(header::CONTENT_TYPE, KIND);
    response
}

/// `1S`, `20m`: at most eight digits and a unit.
fn timeout_of(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(count * 3600)),
        "M" => Some(Duration::from_secs(count * 60)),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_grpc_are_read() {
        assert_eq!(timeout_of("2S"), Some(Duration::from_secs(2)));
        assert_eq!(timeout_of("1H"), Some(Duration::from_secs(3600)));
        assert_eq!(timeout_of("99999999u"), Some(Duration::from_micros(99_999_999)));
        for wrong in ["", "S", "5", "123456789S", "1.5S", "-1S", "1\u{fc}"] {
            assert_eq!(timeout_of(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn texts_are_as_protocol_buffers_have_them() {
        let message = |text: &str| Texts { texts: vec![text.to_owned()] }.encode_to_vec();
        assert_eq!(message("ab"), b"\x0a\x02ab");
        assert_eq!(message(&"x".repeat(300))[..3], b"\x0a\xac\x02"[..]);
    }

    #[test]
    fn methods_and_their_streams_come_from_the_controller() {
        let said = serde_json::json!({
            "methods": {"/a.B/C": false, "/a.B/D": true}, "request_timeout_s": 1.5,
        });
        let methods = Methods::read(&said);
        assert_eq!((methods.streams["/a.B/C"], methods.streams["/a.B/D"]), (false, true));
        assert_eq!(methods.timeout, Some(Duration::from_millis(1500)));
        assert!(Methods::read(&Value::Null).streams.is_empty());
    }
}
