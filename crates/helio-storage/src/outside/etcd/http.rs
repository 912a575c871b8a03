//! HTTP as etcd's gateway speaks it: a request with a body of JSON, an answer with one, on one connection after another;
//! and an answer that does not end, of which each line is one of JSON.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::time::Duration;

use helio_tls::ClientFiles;
use serde_json::Value;

use crate::outside::stream::{self, Limited};

const HEADERS_MAX: usize = 100;
const BODY_MAX: usize = 1 << 30;
const SIZE_MAX: usize = 1 << 10;

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
        self.ask(path, authorization, body, patience)?;
        let (status, body) = self.answer()?;
        Ok((status, value(&body)))
    }

    /// Asks for an answer that does not end; returns the status and the body where it does end.
    pub(super) fn follow(
        mut self,
        path: &str,
        authorization: &str,
        body: &Value,
        patience: Duration,
    ) -> io::Result<Result<Lines, (u16, Value)>> {
        self.ask(path, authorization, body, patience)?;
        let begin = self.begin()?;
        if begin.status == 200 && begin.is_chunked {
            return Ok(Ok(Lines {
                stream: self.stream,
                chunks: Chunks::default(),
                text: Vec::new(),
                looked: 0,
            }));
        }
        let body = self.body(&begin)?;
        Ok(Err((begin.status, value(&body))))
    }

    fn ask(
        &mut self,
        path: &str,
        authorization: &str,
        body: &Value,
        patience: Duration,
    ) -> io::Result<()> {
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
        limited.flush()
    }

    fn answer(&mut self) -> io::Result<(u16, Vec<u8>)> {
        let begin = self.begin()?;
        Ok((begin.status, self.body(&begin)?))
    }

    fn begin(&mut self) -> io::Result<Begin> {
        let line = self.line()?;
        let status = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        let status = status.ok_or_else(|| odd(&line))?;
        let mut begin = Begin { status, length: None, is_chunked: false };
        for _ in 0..HEADERS_MAX {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(begin);
            }
            let (name, value) = line.split_once(':').ok_or_else(|| odd(&line))?;
            if name.eq_ignore_ascii_case("content-length") {
                begin.length = Some(value.trim().parse().map_err(|_| odd(&line))?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                begin.is_chunked = value.trim().eq_ignore_ascii_case("chunked");
            }
        }
        Err(odd("too many headers"))
    }

    fn body(&mut self, begin: &Begin) -> io::Result<Vec<u8>> {
        match begin.length {
            _ if begin.is_chunked => self.chunks(),
            Some(length) => self.bytes(length),
            None => Err(odd("an answer without a length")),
        }
    }

    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let length = usize::from_str_radix(size, 16).map_err(|_| odd(&line))?;
            // **LIMIT-1** Before the room is taken, for the length is the other end's word.
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

/// The status and the headers of an answer that matter.
struct Begin {
    status: u16,
    length: Option<usize>,
    is_chunked: bool,
}

fn value(body: &[u8]) -> Value {
    let value = serde_json::from_slice(body);
    value.unwrap_or_else(|_| String::from_utf8_lossy(body).into_owned().into())
}

/// An answer that does not end. After an error it is of no use any more.
#[derive(Debug)]
pub(super) struct Lines {
    stream: BufReader<Limited>,
    chunks: Chunks,
    /// The bytes of lines that were not taken yet; up to `looked` there is no end of a line.
    text: Vec<u8>,
    looked: usize,
}

impl Lines {
    /// The next line; `None`: none has come whole within that time.
    pub(super) fn next(&mut self, patience: Duration) -> io::Result<Option<Value>> {
        self.stream.get_mut().limit(patience);
        loop {
            if let Some(at) = self.text[self.looked..].iter().position(|byte| *byte == b'\n') {
                let rest = self.text.split_off(self.looked + at + 1);
                let line = std::mem::replace(&mut self.text, rest);
                self.looked = 0;
                return Ok(Some(value(&line)));
            }
            // A long line comes in many pieces: what was looked through is not looked through again.
            self.looked = self.text.len();
            if matches!(self.chunks, Chunks::Over) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let some = match self.stream.fill_buf() {
                Ok([]) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(some) => some,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(None),
                Err(error) => return Err(error),
            };
            let length = some.len();
            self.chunks.take(some, &mut self.text)?;
            if self.text.len() > BODY_MAX {
                return Err(odd("a line that is too long"));
            }
            self.stream.consume(length);
        }
    }
}

/// The state of reading a body in chunks, which goes on wherever a read ended.
#[derive(Debug)]
enum Chunks {
    /// The line with a chunk's size, as far as it has come.
    Size(Vec<u8>),
    /// A chunk is being read, of which that number of bytes is to come.
    Data(usize),
    /// The end of its line.
    End,
    /// The body is over.
    Over,
}

impl Default for Chunks {
    fn default() -> Self {
        Self::Size(Vec::new())
    }
}

impl Chunks {
    /// Appends the text of the chunks.
    fn take(&mut self, mut bytes: &[u8], text: &mut Vec<u8>) -> io::Result<()> {
        while let Some((first, rest)) = bytes.split_first() {
            match self {
                Self::Data(left) => {
                    let count = bytes.len().min(*left);
                    text.extend_from_slice(&bytes[..count]);
                    bytes = &bytes[count..];
                    *left -= count;
                    if *left == 0 {
                        *self = Self::End;
                    }
                    continue;
                }
                Self::End if *first == b'\n' => *self = Self::default(),
                Self::End if *first == b'\r' => {}
                Self::End => return Err(odd("a chunk that does not end")),
                Self::Over => return Ok(()),
                Self::Size(line) if *first == b'\n' => {
                    let line = String::from_utf8_lossy(line);
                    let size = line.split(';').next().unwrap_or_default().trim();
                    match usize::from_str_radix(size, 16) {
                        Ok(0) => *self = Self::Over,
                        Ok(size) if size <= BODY_MAX => *self = Self::Data(size),
                        _ => return Err(odd(&line)),
                    }
                }
                Self::Size(line) if line.len() < SIZE_MAX => line.push(*first),
                Self::Size(_) => return Err(odd("a line that does not end")),
            }
            bytes = rest;
        }
        Ok(())
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

    /// No line is lost or torn, however the network cuts the answer, and with pauses.
    #[test]
    fn lines_of_an_answer_that_does_not_end_come_one_by_one() {
        let said = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{\"a\":1}\n\r\n4;x\r\n{\"b\"\r\n0c\r\n:2}\n{\"c\":3}\n\r\n0\r\n\r\n";
        for step in [1, 3, 7, said.len()] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            let server = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                stream.set_nodelay(true).unwrap();
                let _ = stream.read(&mut [0; 512]).unwrap();
                for part in said.chunks(step) {
                    stream.write_all(part).unwrap();
                    std::thread::yield_now();
                }
            });
            let connection = Connection::open("127.0.0.1", port, None, PATIENCE).unwrap();
            let lines = connection.follow("/v3/watch", "", &json!({}), PATIENCE).unwrap();
            let mut lines = lines.unwrap();
            let mut next = || loop {
                match lines.next(Duration::from_micros(50)) {
                    Ok(None) => {}
                    Ok(Some(line)) => break Some(line),
                    Err(error) => {
                        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
                        break None;
                    }
                }
            };
            for line in [json!({"a": 1}), json!({"b": 2}), json!({"c": 3})] {
                assert_eq!(next(), Some(line), "in parts of {step}");
            }
            assert_eq!(next(), None);
            server.join().unwrap();
        }
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
