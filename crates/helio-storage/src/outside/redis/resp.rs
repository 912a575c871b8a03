//! Redis's protocol, as much of it as scripts and passwords need: a command is a list of byte strings, an answer is a line
//! with a letter in front, or a byte string, or a list of answers.

use std::io::{self, BufReader, Write as _};
use std::time::Duration;

use helio_tls::ClientFiles;

use crate::outside::stream::{self, Limited};

/// No answer is longer, has more parts, or nests deeper.
const BYTES_MAX: usize = 1 << 30;
const PARTS_MAX: usize = 1 << 28;
const DEPTH_MAX: usize = 4;

/// The answer to a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Reply {
    Text(String),
    Error(String),
    Number(i64),
    Bytes(Vec<u8>),
    Nothing,
    List(Vec<Reply>),
}

impl Reply {
    /// The answer as text, if it is text.
    pub(super) fn text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text),
            Self::Number(number) => Some(number.to_string()),
            Self::Bytes(bytes) => String::from_utf8(bytes).ok(),
            Self::Error(_) | Self::Nothing | Self::List(_) => None,
        }
    }
}

/// An open connection. After an error it is of no use any more.
pub(super) struct Connection {
    stream: BufReader<Limited>,
}

impl Connection {
    pub(super) fn open(
        host: &str,
        port: u16,
        encryption: Option<&ClientFiles>,
        patience: Duration,
    ) -> io::Result<Self> {
        let stream = Limited::connect(host, port, encryption, patience)?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    pub(super) fn call(&mut self, parts: &[&[u8]], patience: Duration) -> io::Result<Reply> {
        let limited = self.stream.get_mut();
        limited.limit(patience);
        limited.write_all(&encoded(parts))?;
        limited.flush()?;
        self.reply(0)
    }

    fn reply(&mut self, depth: usize) -> io::Result<Reply> {
        let line = self.line()?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| odd("an empty line"))?;
        let length = || rest.parse::<i64>().map_err(|_| odd(&line));
        Ok(match kind {
            "+" => Reply::Text(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Number(length()?),
            "$" => match usize::try_from(length()?) {
                Err(_) => Reply::Nothing,
                Ok(length) => Reply::Bytes(self.bytes(length)?),
            },
            "*" => match usize::try_from(length()?) {
                Err(_) => Reply::Nothing,
                Ok(length) if length <= PARTS_MAX && depth < DEPTH_MAX => {
                    // No room ahead for what was only announced.
                    let mut all = Vec::new();
                    for _ in 0..length {
                        all.push(self.reply(depth + 1)?);
                    }
                    Reply::List(all)
                }
                Ok(_) => return Err(odd(&line)),
            },
            _ => return Err(odd(&line)),
        })
    }

    fn line(&mut self) -> io::Result<String> {
        stream::line(&mut self.stream)?.ok_or_else(|| odd("a line that does not end"))
    }

    fn bytes(&mut self, length: usize) -> io::Result<Vec<u8>> {
        if length > BYTES_MAX {
            return Err(odd("a value that is too long"));
        }
        let mut bytes = stream::bytes(&mut self.stream, length + 2)?;
        bytes.truncate(length);
        Ok(bytes)
    }
}

fn encoded(parts: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", parts.len()).into_bytes();
    for part in parts {
        out.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
    out
}

fn odd(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("this is not Redis: {what:?}"))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;

    use super::*;

    /// Returns the reply as it is read from a server that sends `said`.
    fn heard(said: &'static [u8]) -> io::Result<Reply> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 64];
            let length = stream.read(&mut asked).unwrap();
            stream.write_all(said).unwrap();
            asked[..length].to_vec()
        });
        let mut connection =
            Connection::open("127.0.0.1", port, None, Duration::from_secs(20)).unwrap();
        let reply = connection.call(&[b"GET", b"a\r\nb", b""], Duration::from_secs(20));
        assert_eq!(server.join().unwrap(), b"*3\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n$0\r\n\r\n");
        reply
    }

    #[test]
    fn answers_of_all_kinds_are_read() {
        let said = b"*5\r\n$4\r\n\x00\xff\r\n\r\n:-7\r\n+OK\r\n$-1\r\n*1\r\n-ERR no\r\n";
        let all = vec![
            Reply::Bytes(b"\x00\xff\r\n".to_vec()),
            Reply::Number(-7),
            Reply::Text("OK".to_owned()),
            Reply::Nothing,
            Reply::List(vec![Reply::Error("ERR no".to_owned())]),
        ];
        assert_eq!(heard(said).unwrap(), Reply::List(all));
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for said in [
            &b""[..],
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            b"$10\r\nshort\r\n",
            b"*99999999999999\r\n",
            b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
            b"$many\r\n",
            b"+no end",
        ] {
            assert!(heard(said).is_err(), "{said:?}");
        }
    }
}
