//! gRPC's server reflection: which services there are and of what messages, for tools such as grpcurl.
//!
//! Source: `grpc/reflection/v1/reflection.proto`; version v1alpha has the same messages. The controller says which files
//! of descriptors there are: those of the services that the user named, and what they import.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use hyper::body::Incoming;
use prost::Message as _;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::body::{next_frame, size};
use crate::client::Patience;

/// The service's methods, of either version.
pub(crate) const PATHS: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];
const SERVICES: [&str; 2] =
    ["grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"];

const NOT_FOUND: i32 = 5;
const UNIMPLEMENTED: i32 = 12;
/// A request is a name.
const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Kind and length in front of a message.
const PREFIX: usize = 5;

/// The description of the services.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    services: BTreeSet<String>,
    /// The file of each message, service and method.
    of_symbol: HashMap<String, String>,
    files: HashMap<String, File>,
}

#[derive(Debug)]
struct File {
    /// A `FileDescriptorProto`.
    bytes: Bytes,
    /// The files that it imports, and those that they import.
    imports: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Request {
    #[prost(string, tag = "1")]
    host: String,
    #[prost(oneof = "Wanted", tags = "3, 4, 5, 6, 7")]
    wanted: Option<Wanted>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Wanted {
    #[prost(string, tag = "3")]
    File(String),
    #[prost(string, tag = "4")]
    Symbol(String),
    #[prost(bytes = "vec", tag = "5")]
    Extension(Vec<u8>),
    #[prost(string, tag = "6")]
    Extensions(String),
    #[prost(string, tag = "7")]
    Services(String),
}

#[derive(Clone, PartialEq, prost::Message)]
struct Response {
    #[prost(string, tag = "1")]
    host: String,
    #[prost(message, optional, tag = "2")]
    request: Option<Request>,
    #[prost(oneof = "Found", tags = "4, 6, 7")]
    found: Option<Found>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Found {
    #[prost(message, tag = "4")]
    Files(Files),
    #[prost(message, tag = "6")]
    Services(Services),
    #[prost(message, tag = "7")]
    Nothing(Nothing),
}

#[derive(Clone, PartialEq, prost::Message)]
struct Files {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    files: Vec<Bytes>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Services {
    #[prost(message, repeated, tag = "1")]
    services: Vec<Service>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Service {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Nothing {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    say: String,
}

impl Descriptors {
    /// `{"services": […], "symbols": {symbol: file}, "files": {file: {"hex": …, "imports": […]}}}`; `None`: there is no
    /// reflection.
    pub(crate) fn read(said: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let files = said["files"].as_object()?.iter().filter_map(|(name, row)| {
            let imports = row["imports"].as_array()?.iter().filter_map(text).collect();
            Some((name.clone(), File { bytes: from_hex(row["hex"].as_str()?)?, imports }))
        });
        let symbols = said["symbols"].as_object()?.iter();
        let mut services: BTreeSet<String> =
            said["services"].as_array()?.iter().filter_map(text).collect();
        services.extend(SERVICES.map(str::to_owned));
        Some(Self {
            services,
            of_symbol: symbols
                .filter_map(|(symbol, file)| Some((symbol.clone(), text(file)?)))
                .collect(),
            files: files.collect(),
        })
    }

    fn file(&self, name: &str) -> Option<Found> {
        let first = self.files.get(name)?;
        let imported = first.imports.iter().filter_map(|one| self.files.get(one));
        let files = std::iter::once(first).chain(imported).map(|file| file.bytes.clone());
        Some(Found::Files(Files { files: files.collect() }))
    }

    fn find(&self, wanted: Option<&Wanted>) -> Found {
        let nothing = |code, say: String| Found::Nothing(Nothing { code, say });
        match wanted {
            Some(Wanted::Services(_)) => {
                let rows = self.services.iter().map(|name| Service { name: name.clone() });
                Found::Services(Services { services: rows.collect() })
            }
            Some(Wanted::File(name)) => self
                .file(name)
                .unwrap_or_else(|| nothing(NOT_FOUND, format!("There is no file {name:?}."))),
            Some(Wanted::Symbol(symbol)) => self
                .of_symbol
                .get(symbol)
                .and_then(|file| self.file(file))
                .unwrap_or_else(|| nothing(NOT_FOUND, format!("There is no {symbol:?}."))),
            Some(Wanted::Extension(_) | Wanted::Extensions(_)) => {
                nothing(NOT_FOUND, "Extensions are not told of.".to_owned())
            }
            None => nothing(UNIMPLEMENTED, "This request is not understood.".to_owned()),
        }
    }

    fn answer(&self, request: Request) -> Bytes {
        let found = Some(self.find(request.wanted.as_ref()));
        let response = Response { host: request.host.clone(), request: Some(request), found };
        framed(&response.encode_to_vec())
    }

    /// Answers a client's requests, one by one, until it has no more or sends something else.
    pub(crate) async fn converse(
        &self,
        mut body: Incoming,
        answers: mpsc::Sender<Bytes>,
        silence: Duration,
    ) {
        let mut patience = Patience::new(silence, false);
        let mut read = BytesMut::new();
        while let Some(Some(Ok(frame))) = patience.wait(next_frame(&mut body), size).await {
            let Ok(data) = frame.into_data() else { continue };
            read.extend_from_slice(&data);
            while let Some(message) = taken(&mut read) {
                let Ok(request) = Request::decode(message) else { return };
                if answers.send(self.answer(request)).await.is_err() {
                    return;
                }
            }
            // **LIMIT-1** What is left is one message that is not whole yet.
            if read.len() > REQUEST_BYTES_MAX {
                return;
            }
        }
    }
}

/// A message of gRPC, uncompressed.
pub(crate) fn framed(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(PREFIX + message.len());
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.extend_from_slice(message);
    framed.freeze()
}

/// The first message, once it is whole.
fn taken(read: &mut BytesMut) -> Option<Bytes> {
    let length = u32::from_be_bytes(*read.get(1..PREFIX)?.first_chunk()?) as usize;
    if read.len() < PREFIX + length {
        return None;
    }
    read.advance(PREFIX);
    Some(read.split_to(length).freeze())
}

fn from_hex(text: &str) -> Option<Bytes> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    digits?.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair.get(1)?).ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn descriptors() -> Descriptors {
        Descriptors::read(&json!({
            "services": ["a.B"],
            "symbols": {"a.B": "b.proto", "a.B.C": "b.proto"},
            "files": {
                "b.proto": {"hex": "0102", "imports": ["c.proto"]},
                "c.proto": {"hex": "ff", "imports": []},
            },
        }))
        .unwrap()
    }

    fn asked(wanted: Option<Wanted>) -> Found {
        descriptors().find(wanted.as_ref())
    }

    #[test]
    fn services_files_and_symbols_are_told() {
        let Found::Services(found) = asked(Some(Wanted::Services(String::new()))) else { panic!() };
        let names: Vec<_> = found.services.into_iter().map(|one| one.name).collect();
        assert_eq!(names, ["a.B", SERVICES[0], SERVICES[1]]);
        let both =
            Files { files: vec![Bytes::from_static(b"\x01\x02"), Bytes::from_static(b"\xff")] };
        assert_eq!(asked(Some(Wanted::Symbol("a.B.C".to_owned()))), Found::Files(both.clone()));
        assert_eq!(asked(Some(Wanted::File("b.proto".to_owned()))), Found::Files(both));
    }

    #[test]
    fn what_is_not_there_is_said() {
        for wanted in [
            Some(Wanted::File("x".to_owned())),
            Some(Wanted::Symbol("x".to_owned())),
            Some(Wanted::Extensions("a.B".to_owned())),
            None,
        ] {
            assert!(matches!(asked(wanted), Found::Nothing(_)));
        }
        assert!(Descriptors::read(&Value::Null).is_none());
    }

    #[test]
    fn messages_are_taken_once_they_are_whole() {
        let mut read = BytesMut::new();
        let mut found = Vec::new();
        for byte in [&framed(b"ab")[..], &framed(b"")].concat() {
            read.put_u8(byte);
            found.extend(taken(&mut read));
        }
        assert_eq!(found, [&b"ab"[..], b""]);
    }

    #[test]
    fn an_answer_repeats_its_request() {
        let request = Request { host: "h".to_owned(), wanted: Some(Wanted::File("x".to_owned())) };
        let answer = descriptors().answer(request.clone());
        let response = Response::decode(&answer[PREFIX..]).unwrap();
        assert_eq!((response.host.as_str(), response.request), ("h", Some(request)));
    }

    #[test]
    fn hexadecimal_digits_are_bytes() {
        assert_eq!(from_hex("00fF"), Some(Bytes::from_static(b"\x00\xff")));
        assert_eq!((from_hex("0"), from_hex("0g")), (None, None));
    }
}
