//! Answers: JSON, text, and sentences for what went wrong.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde::Serialize;

use crate::answers::{Envelope, Inner};

pub(crate) type Reply = Response<Body>;

/// A refused request: a status and a sentence for whoever sent it.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) text: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    /// The request makes no sense.
    pub(crate) fn bad(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    /// The request names a thing that does not exist (404).
    pub(crate) fn missing(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, text)
    }

    /// The cluster does not answer.
    pub(crate) fn unavailable(text: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }
}

impl axum::response::IntoResponse for Refusal {
    fn into_response(self) -> Reply {
        text(self.status, self.text)
    }
}

pub(crate) fn text(status: StatusCode, text: impl Into<String>) -> Reply {
    typed(status, "text/plain; charset=utf-8", text.into())
}

pub(crate) fn json(answer: &impl Serialize) -> Reply {
    json_with(StatusCode::OK, answer)
}

pub(crate) fn json_with(status: StatusCode, answer: &impl Serialize) -> Reply {
    match serde_json::to_string(answer) {
        Ok(body) => typed(status, "application/json", body),
        // A map whose keys are no text: there is none.
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

pub(crate) fn html(status: StatusCode, text: String) -> Reply {
    typed(status, "text/html; charset=utf-8", text)
}

/// The envelope of Ray's routes for state.
pub(crate) fn enveloped(result: impl Serialize) -> Reply {
    json(&Envelope::of(Inner { result }))
}

/// The envelope around a result that is JSON already.
pub(crate) fn enveloped_text(result: &str) -> Reply {
    let body = format!("{{\"result\":true,\"msg\":\"\",\"data\":{{\"result\":{result}}}}}");
    typed(StatusCode::OK, "application/json", body)
}

/// The envelope around a refusal.
pub(crate) fn enveloped_refusal(refusal: &Refusal) -> Reply {
    let data = Inner { result: None::<()> };
    json_with(refusal.status, &Envelope { result: false, msg: refusal.text.clone(), data })
}

fn typed(status: StatusCode, kind: &'static str, body: String) -> Reply {
    let mut reply = Response::new(Body::from(body));
    *reply.status_mut() = status;
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}
