//! Spans of requests, where somebody traces: whose trace a request is of, and what is told of it.
//!
//! The head of a request names its trace (`traceparent` of the W3C's Trace Context), and whether that is recorded. Where
//! it names none, one begins here, of which the controller has said how many are recorded. The replica gets this
//! span as the one above its own. Spans that are over go to the controller, which has Python, and exports them.
//!
//! **LIMIT-1** [`KEPT_MAX`] spans wait for the controller; further ones are lost.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::rc::Rc;

use helio_env::clock::unix_us;
use helio_env::random;
use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use crate::table::Route;

const KEPT_MAX: usize = 4096;
const PARENT: HeaderName = HeaderName::from_static("traceparent");
const STATE: HeaderName = HeaderName::from_static("tracestate");
/// Characters of a `traceparent`: version, trace, span and flags, with hyphens between them.
const PARENT_LENGTH: usize = 55;

#[derive(Debug, Default)]
pub(crate) struct Spans {
    /// The part of the traces that begin here which is recorded; `None`: nobody traces.
    ratio: Cell<Option<f64>>,
    over: Rc<RefCell<Vec<Value>>>,
}

impl Spans {
    pub(crate) fn update(&self, said: &Value) {
        self.ratio.set(said.as_f64());
    }

    /// Begins the span of a request, and has its headers name it. `None`: it is not recorded.
    pub(crate) fn begin(
        &self,
        headers: &mut HeaderMap,
        route: &Route,
        what: impl FnOnce(&str) -> (String, Value),
    ) -> Option<Span> {
        let ratio = self.ratio.get()?;
        let (trace, parent, is_recorded) = match parent_of(headers) {
            // The client's decision holds.
            Some((_, _, false)) => return None,
            Some((trace, parent, true)) => (trace, Some(parent), true),
            None => {
                // A state without a parent is of some other trace.
                headers.remove(&STATE);
                let id = random::bytes::<16>();
                (hex(&id), None, is_drawn(&id, ratio))
            }
        };
        let id = hex(&random::bytes::<8>());
        let named = format!("00-{trace}-{id}-0{}", u8::from(is_recorded));
        if let Ok(named) = HeaderValue::from_str(&named) {
            headers.insert(PARENT, named);
        }
        if !is_recorded {
            return None;
        }
        let deployment = route.deployment.split_once('#').map_or("", |(_, name)| name);
        let (name, attributes) = what(deployment);
        let mut row = Map::new();
        row.insert("name".to_owned(), name.into());
        row.insert("trace".to_owned(), trace.into());
        row.insert("span".to_owned(), id.into());
        row.insert("parent".to_owned(), json!(parent));
        row.insert("began_us".to_owned(), unix_us().into());
        let mut span = Span {
            row,
            attributes: attributes.as_object().cloned().unwrap_or_default(),
            over: Rc::clone(&self.over),
        };
        span.say("deployment", deployment);
        span.say("app", route.app.as_str());
        Some(span)
    }

    /// Takes the spans that are over and were not taken before.
    pub(crate) fn take(&self) -> Vec<Value> {
        std::mem::take(&mut self.over.borrow_mut())
    }
}

/// A span that is written when this is dropped.
#[derive(Debug)]
pub(crate) struct Span {
    row: Map<String, Value>,
    attributes: Map<String, Value>,
    over: Rc<RefCell<Vec<Value>>>,
}

impl Span {
    fn say(&mut self, name: &str, value: impl Into<Value>) {
        self.attributes.insert(name.to_owned(), value.into());
    }

    /// Notes the status of the answer to a request of HTTP.
    pub(crate) fn of_http(&mut self, status: StatusCode) {
        self.say("http.status_code", status.as_u16());
        self.row.insert("is_error".to_owned(), status.is_server_error().into());
    }

    /// Notes the end of a call of gRPC, once its headers say so.
    pub(crate) fn of_rpc(&mut self, headers: &HeaderMap) {
        let code = headers.get("grpc-status").and_then(|code| code.to_str().ok()?.parse().ok());
        if let Some(code) = code {
            let code: u16 = code;
            self.say("rpc.grpc.status_code", code);
            self.row.insert("is_error".to_owned(), (code != 0).into());
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let mut over = self.over.borrow_mut();
        if over.len() < KEPT_MAX {
            let mut row = std::mem::take(&mut self.row);
            row.insert("ended_us".to_owned(), unix_us().into());
            row.insert("attributes".to_owned(), std::mem::take(&mut self.attributes).into());
            over.push(row.into());
        }
    }
}

/// The trace and the span that a request belongs to, and whether they are recorded.
fn parent_of(headers: &HeaderMap) -> Option<(String, String, bool)> {
    let mut all = headers.get_all(&PARENT).iter();
    let (given, None) = (all.next()?, all.next()) else { return None };
    read(given.to_str().ok()?)
}

fn read(text: &str) -> Option<(String, String, bool)> {
    // A later version may say more behind what this one knows.
    let (known, more) = text.split_at_checked(PARENT_LENGTH)?;
    let mut parts = known.split('-');
    let mut part = |length: usize| {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        parts.next().filter(|part| part.len() == length && part.bytes().all(is_digit))
    };
    let (version, trace, span, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
    let is_nothing = |id: &str| id.bytes().all(|byte| byte == b'0');
    let is_longer =
        if version == "00" { more.is_empty() } else { more.is_empty() || more.starts_with('-') };
    if version == "ff" || !is_longer || is_nothing(trace) || is_nothing(span) {
        return None;
    }
    let flags = u8::from_str_radix(flags, 16).ok()?;
    Some((trace.to_owned(), span.to_owned(), flags & 1 == 1))
}

/// Whether a trace is of the part that is recorded; by its id, as others decide it.
fn is_drawn(id: &[u8; 16], ratio: f64) -> bool {
    let number = u32::from_be_bytes([id[8], id[9], id[10], id[11]]);
    f64::from(number) < ratio * (f64::from(u32::MAX) + 1.0)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    fn route() -> Route {
        Route { prefix: "/".to_owned(), app: "a".to_owned(), deployment: "a#D".to_owned() }
    }

    fn begin(spans: &Spans, given: Option<&str>) -> (Option<Span>, String) {
        let mut headers = HeaderMap::new();
        if let Some(given) = given {
            headers.insert(PARENT, given.parse().unwrap());
        }
        let span = spans.begin(&mut headers, &route(), |name| (name.to_owned(), json!({})));
        let said = headers.get(PARENT).map(|said| said.to_str().unwrap().to_owned());
        (span, said.unwrap_or_default())
    }

    #[test]
    fn what_is_no_parent_is_none() {
        let good = format!("00-{TRACE}-{SPAN}-01");
        assert_eq!(read(&good), Some((TRACE.to_owned(), SPAN.to_owned(), true)));
        assert!(!read(&format!("00-{TRACE}-{SPAN}-02")).unwrap().2);
        assert!(read(&format!("cc-{TRACE}-{SPAN}-01-what-comes-later")).is_some());
        let nothing = "0".repeat(32);
        for wrong in [
            String::new(),
            "nonsense".to_owned(),
            good.to_uppercase(),
            format!("{good}-more"),
            format!("cc-{TRACE}-{SPAN}-01.more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{nothing}-{SPAN}-01"),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-{TRACE}-{SPAN}x01"),
            format!("00-{TRACE}\u{fc}{}", &good[36..]),
        ] {
            assert_eq!(read(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_trace_goes_on_or_begins() {
        let spans = Spans::default();
        assert_eq!(begin(&spans, None).1, "", "nobody traces");
        spans.update(&json!(1.0));
        let (span, said) = begin(&spans, Some(&format!("00-{TRACE}-{SPAN}-01")));
        let (trace, own, is_recorded) = read(&said).unwrap();
        assert_eq!((trace.as_str(), is_recorded), (TRACE, true));
        let mut span = span.unwrap();
        span.of_http(StatusCode::BAD_GATEWAY);
        assert!(spans.take().is_empty());
        drop(span);
        let rows = spans.take();
        assert_eq!(rows.len(), 1);
        let row = &rows[0];
        assert_eq!(row["parent"], SPAN);
        assert_eq!(row["span"], own);
        assert_eq!(row["is_error"], true);
        assert_eq!(
            row["attributes"],
            json!({"deployment": "D", "app": "a", "http.status_code": 502})
        );
        // A trace that the client does not record is not recorded, and passes through as it was.
        let not = format!("00-{TRACE}-{SPAN}-00");
        let (span, said) = begin(&spans, Some(&not));
        assert!(span.is_none());
        assert_eq!(said, not);
        // A trace of its own; who comes after it need not draw again.
        assert!(begin(&spans, Some("nonsense")).0.is_some());
        spans.update(&json!(0.0));
        let (span, said) = begin(&spans, None);
        assert!(span.is_none());
        assert!(!read(&said).unwrap().2);
    }

    #[test]
    fn so_many_are_recorded() {
        let spans = Spans::default();
        spans.update(&json!(0.25));
        let count = (0..4000).filter(|_| begin(&spans, None).0.is_some()).count();
        assert!((800..1200).contains(&count), "{count}");
    }

    #[test]
    fn spans_that_nobody_takes_are_bounded() {
        let spans = Spans::default();
        spans.update(&json!(1.0));
        for _ in 0..KEPT_MAX + 10 {
            drop(begin(&spans, None));
        }
        assert_eq!(spans.take().len(), KEPT_MAX);
    }
}
