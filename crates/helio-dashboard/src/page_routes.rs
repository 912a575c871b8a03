//! The page: built from `page/` by `npm run build`, whose output is committed, so that a build of the daemon
//! needs no npm. A test says when the output is older than its sources.

use std::io::Write as _;
use std::sync::OnceLock;

use axum::body::Body;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::reply::{Refusal, Reply};

/// A file of the page; compressed when somebody asks for it first.
struct File {
    name: &'static str,
    kind: &'static str,
    text: &'static str,
    packed: OnceLock<Bytes>,
}

impl File {
    const fn new(name: &'static str, kind: &'static str, text: &'static str) -> Self {
        Self { name, kind, text, packed: OnceLock::new() }
    }
}

static INDEX: File =
    File::new("index.html", "text/html; charset=utf-8", include_str!("../page/dist/index.html"));

static FILES: [File; 2] = [
    File::new("page.js", "text/javascript; charset=utf-8", include_str!("../page/dist/page.js")),
    File::new("page.css", "text/css; charset=utf-8", include_str!("../page/dist/page.css")),
];

/// `GET /`.
pub(crate) async fn index(headers: HeaderMap) -> Reply {
    serve(&INDEX, &headers)
}

/// `GET /static/{name}`.
pub(crate) async fn part(Path(name): Path<String>, headers: HeaderMap) -> Result<Reply, Refusal> {
    let file = FILES.iter().find(|file| file.name == name);
    let missing = || Refusal::missing(format!("The page has no file {name:?}."));
    Ok(serve(file.ok_or_else(missing)?, &headers))
}

fn serve(file: &'static File, headers: &HeaderMap) -> Reply {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    let takes_gzip =
        accepted.unwrap_or_default().split(',').any(|one| one.trim().starts_with("gzip"));
    let mut reply = Response::new(if takes_gzip {
        Body::from(file.packed.get_or_init(|| pack(file.text)).clone())
    } else {
        Body::from(file.text)
    });
    *reply.status_mut() = StatusCode::OK;
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(file.kind));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if takes_gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    reply
}

fn pack(text: &str) -> Bytes {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    // A vector takes what it is given.
    let _ = packer.write_all(text.as_bytes());
    packer.finish().unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_whole() {
        let size: usize = FILES.iter().chain([&INDEX]).map(|file| pack(file.text).len()).sum();
        assert!(size < 200_000, "{size} bytes");
        for file in &FILES {
            assert!(INDEX.text.contains(&format!("/static/{}", file.name)), "{}", file.name);
        }
        assert!(!INDEX.text.contains("://"), "nothing is fetched from elsewhere");
    }
}
