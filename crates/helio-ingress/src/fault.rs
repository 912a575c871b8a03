//! Faults: the reasons why a request has no answer of a replica, and their form over HTTP. [`crate::grpc`] says the
//! same in its way.

use std::time::Duration;

use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};

use crate::answer::Answer;
use crate::table::{NoPlace, Refusal};

#[derive(Debug)]
pub(crate) enum Fault {
    /// The request's body came too slowly.
    Late,
    /// The request's body ended early.
    Cut(String),
    /// The request's body is no HTTP.
    Malformed,
    /// The line of waiting requests is full.
    Full { waiting: usize, most: usize, refusal: Refusal },
    /// No replica exists, and none will.
    Unavailable(String),
    /// Replicas that are ending did not begin it.
    Refused { replica: String },
    /// The replica died while it had the request.
    Died { replica: String },
    /// The replica's answer is not understood.
    Garbled,
    /// The time for the request is over.
    TimedOut(Duration),
}

impl From<NoPlace> for Fault {
    fn from(why: NoPlace) -> Self {
        match why {
            NoPlace::Full { waiting, most, refusal } => Self::Full { waiting, most, refusal },
            NoPlace::Unavailable(why) => Self::Unavailable(why),
        }
    }
}

impl Fault {
    /// Returns the sentence for people.
    pub(crate) fn sentence(&self) -> String {
        match self {
            Self::Late => "The request's body came too slowly, or not to its end.".to_owned(),
            Self::Cut(error) => format!("The body ends early: {error}"),
            Self::Malformed => "The request's body is not chunked as HTTP has it.".to_owned(),
            Self::Full { waiting, most, .. } => format!(
                "{waiting} requests wait for the deployment already, and max_queued_requests is {most}."
            ),
            Self::Unavailable(why) => why.clone(),
            Self::Refused { replica } => {
                format!("Replica {replica} was ending and did not begin the request.")
            }
            Self::Died { replica } => format!("Replica {replica} died while it had the request."),
            Self::Garbled => "The replica's answer is malformed.".to_owned(),
            Self::TimedOut(most) => format!(
                "The request was not answered within request_timeout_s = {} s.",
                most.as_secs_f64()
            ),
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::Late | Self::TimedOut(_) => StatusCode::REQUEST_TIMEOUT,
            Self::Cut(_) | Self::Malformed => StatusCode::BAD_REQUEST,
            Self::Full { refusal, .. } => {
                StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE)
            }
            Self::Unavailable(_) | Self::Refused { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::Died { .. } | Self::Garbled => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Returns the answer for a client of HTTP.
    pub(crate) fn http(&self) -> Response<Answer> {
        let mut response = text(self.status(), self.sentence());
        if let Self::Full { refusal: Refusal { retry_after: Some(seconds), .. }, .. } = self {
            response.headers_mut().insert(header::RETRY_AFTER, (*seconds).into());
        }
        response
    }
}

pub(crate) fn text(status: StatusCode, say: String) -> Response<Answer> {
    let mut response = Response::new(Answer::Whole(say.into()));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}
