//! HTTP as etcd's gateway speaks it: a request with a body of JSON, an answer with one, on one connection after another.

use std::io::{self, BufReader, Write as _};
use std::time::Duration;

use helio_tls::ClientFiles;
use serde_json::Value;

use crate::outside::stream::{self, Limited};

const HEADERS_MAX: usize = 100;
const BODY_MAX: usize = 1 << 30;

/// An open connection. After an error it is of no use any more.
#[derive(Debug)]
pub(super) struct Connection {
    stream: BufReader<Limited>,
    host: String,
}

impl Connection {
    pub(super) fn open(
        host: &str,
        port: u16,
        encryption: Option<&ClientFiles>,
        patience: Duration,
    ) -> io::Result<Self> {
        let stream = BufReader::new(Limited::connect(host, port, encryption, patience)?);
        Ok(Self { stream, host: host.to_owned() })
    }

    /// The status and the body of the answer. `authorization` is empty where nobody has logged in.
    pub(super) fn post(
        &mut self,
        path: &str,
        authorization: &str,
        body: &Value,
        patience: Duration,
    ) -> io::Result<(u16, Value)> {
        let body = body.to_string();
        let login = match authorization {
            "" => String::new(),
            token => format!("Authorization: {token}\r\n"),
        };
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{login}\r\n{body}",
            self.host,
            body.len(),
        );
        let limited = self.stream.get_mut();
        limited.limit(patience);
        limited.write_all(request.as_bytes())?;
        limited.flush()?;
        let (status, body) = self.answer()?;
        let value = serde_json::from_slice(&body);
        Ok((status, value.unwrap_or_else(|_| String::from_utf8_lossy(&body).into_owned().into())))
    }

    fn answer(&mut self) -> io::Result<(u16, Vec<u8>)> {
        let line = self.line()?;
        let status = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        let status = status.ok_or_else(|| odd(&line))?;
        let (mut length, mut is_chunked) = (None, false);
        for _ in 0..HEADERS_MAX {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else {
                let body = match (line.as_str(), length, is_chunked) {
                    ("", _, true) => self.chunks(),
                    ("", Some(length), _) => self.bytes(length),
                    _ => Err(odd(&line)),
                };
                return Ok((status, body?));
            };
            if name.eq_ignore_ascii_case("content-length") {
                length = Some(value.trim().parse().map_err(|_| odd(&line))?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                is_chunked = value.trim().eq_ignore_ascii_case("chunked");
            }
        }
        Err(odd("too many headers"))
    }

    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let length = usize::from_str_radix(size, 16).map_err(|_| odd(&line))?;
            if body.len().saturating_add(length) > BODY_MAX {
                return Err(odd("an answer that is too long"));
            }
            if length == 0 {
                // Trailers may follow, which say nothing that is needed.
                for _ in 0..HEADERS_MAX {
                    if self.line()?.is_empty() {
                        return Ok(body);
                    }
                }
                return Err(odd("too many trailers"));
            }
            body.extend(self.bytes(length)?);
            if !self.line()?.is_empty() {
                return Err(odd("a chunk that does not end"));
            }
        }
    }

    fn bytes(&mut self, length: usize) -> io::Result<Vec<u8>> {
        if length > BODY_MAX {
            return Err(odd("an answer that is too long"));
        }
        stream::bytes(&mut self.stream, length)
    }

    fn line(&mut self) -> io::Result<String> {
        stream::line(&mut self.stream)?.ok_or_else(|| odd("a line that does not end"))
    }
}

fn odd(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("this is not etcd: {what:?}"))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;

    use serde_json::json;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// Returns the answer as it is read from a server that sends `said`.
    fn heard(said: &'static [u8]) -> io::Result<(u16, Value)> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 512];
            let length = stream.read(&mut asked).unwrap();
            stream.write_all(said).unwrap();
            String::from_utf8(asked[..length].to_vec()).unwrap()
        });
        let mut connection = Connection::open("127.0.0.1", port, None, PATIENCE).unwrap();
        let answer = connection.post("/v3/kv/range", "token", &json!({"key": "a"}), PATIENCE);
        let asked = server.join().unwrap();
        assert!(asked.starts_with("POST /v3/kv/range HTTP/1.1\r\n"), "{asked}");
        assert!(asked.contains("Authorization: token\r\n") && asked.ends_with("{\"key\":\"a\"}"));
        answer
    }

    #[test]
    fn bodies_of_both_kinds_are_read() {
        let plain = heard(b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n{\"a\":1}").unwrap();
        assert_eq!(plain, (200, json!({"a": 1})));
        let said = b"HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n4;x\r\n\":2}\r\n0\r\nGrpc-Trailer: 1\r\n\r\n";
        assert_eq!(heard(said).unwrap(), (503, json!({"a": 2})));
        let text = heard(b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone").unwrap();
        assert_eq!(text, (404, json!("none")));
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for said in [
            &b""[..],
            b"-ERR unknown command\r\n",
            b"HTTP/1.1 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        ] {
            assert!(heard(said).is_err(), "{said:?}");
        }
    }
}
