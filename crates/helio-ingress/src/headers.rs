//! Headers: of answers of replicas those that may be sent, and the id of a request.

use helio_proto::serve;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Headers that are not forwarded, because they are about the connection and not the answer.
const HOP_BY_HOP: [HeaderName; 4] =
    [header::CONNECTION, header::TRANSFER_ENCODING, header::UPGRADE, header::TE];

pub(crate) fn new_id() -> HeaderValue {
    let mut bytes = [0; 16];
    // Without randomness ids repeat; they only tell requests apart in logs.
    let _ = getrandom::fill(&mut bytes);
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let id =
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]);
    HeaderValue::from_str(&id).unwrap_or(HeaderValue::from_static(""))
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
