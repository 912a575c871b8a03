//! The status of a call of gRPC: its codes, and the trailers that tell it.

use std::fmt::Write as _;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};

pub(crate) const DEADLINE_EXCEEDED: u8 = 4;
pub(crate) const NOT_FOUND: u8 = 5;
pub(crate) const RESOURCE_EXHAUSTED: u8 = 8;
pub(crate) const UNIMPLEMENTED: u8 = 12;
pub(crate) const INTERNAL: u8 = 13;
pub(crate) const UNAVAILABLE: u8 = 14;

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// The trailers that end a call.
pub(crate) fn status(code: u8, say: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(STATUS, HeaderValue::from(u16::from(code)));
    if let Ok(say) = HeaderValue::from_str(&percent_encoded(say))
        && code != 0
    {
        headers.insert(MESSAGE, say);
    }
    headers
}

/// The message of a status, encoded as gRPC has it in a header.
fn percent_encoded(say: &str) -> String {
    let mut encoded = String::with_capacity(say.len());
    for byte in say.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(char::from(byte)),
            _ => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_a_status_is_a_header() {
        assert_eq!(percent_encoded("50 % of \u{fc}\n"), "50 %25 of %C3%BC%0A");
        assert_eq!(status(0, "x").len(), 1);
        assert_eq!(status(5, "a\nb")[MESSAGE], "a%0Ab");
    }
}
