//! The collector of events and measurements, and the request that takes them there.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Time that one request may take.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// The most that is read of an answer: its first line is enough.
const ANSWER_BYTES_MAX: usize = 4096;

/// An `http://` address.
#[derive(Debug, PartialEq, Eq)]
pub struct Address {
    /// `host:port`.
    host: String,
    path: String,
}

/// The reason why events or measurements have not arrived.
#[derive(Debug)]
pub enum Failure {
    /// The collector does not want these.
    Refused(String),
    /// The collector may want the events later.
    Unanswered(String),
}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// A sentence for the user: it is none.
    pub fn parse(url: &str) -> Result<Self, String> {
        let rest = url.strip_prefix("http://").ok_or_else(|| {
            format!(
                "a collector is at `http://HOST:PORT/PATH`, not at {url:?}. One beside the head needs no encryption; \
                 for one elsewhere, let a proxy there encrypt."
            )
        })?;
        let (host, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let is_wrong = |byte: u8| byte.is_ascii_whitespace() || byte.is_ascii_control();
        if host.is_empty() || host.contains('@') || rest.bytes().any(is_wrong) {
            return Err(format!("{url:?} is not an address of the form `http://HOST:PORT/PATH`."));
        }
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let host = if has_port { host.to_owned() } else { format!("{host}:80") };
        Ok(Self { host, path: path.to_owned() })
    }

    /// The whole of it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}{}", self.host, self.path)
    }

    /// The address with that path, if it has none.
    #[must_use]
    pub fn or_at(self, path: &str) -> Self {
        match self.path.as_str() {
            "/" => Self { path: path.to_owned(), ..self },
            _ => self,
        }
    }

    /// Sends JSON there.
    ///
    /// # Errors
    /// The collector did not take it.
    pub async fn post(&self, body: &[u8]) -> Result<(), Failure> {
        let answer = tokio::time::timeout(ANSWER_MAX, self.ask(body)).await;
        let answer =
            answer.map_err(|_| Failure::Unanswered("it does not answer in time".to_owned()))?;
        let answer = answer.map_err(|error| Failure::Unanswered(error.to_string()))?;
        outcome(&answer)
    }

    async fn ask(&self, body: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(&self.host).await?;
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.path,
            self.host,
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body).await?;
        let mut answer = Vec::new();
        while !answer.contains(&b'\n') && answer.len() < ANSWER_BYTES_MAX {
            if stream.read_buf(&mut answer).await? == 0 {
                break;
            }
        }
        Ok(answer)
    }
}

/// Judges the first line of an answer.
fn outcome(answer: &[u8]) -> Result<(), Failure> {
    let line = answer.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line).trim().to_owned();
    let status = line.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse::<u16>().ok());
    match status {
        Some(200..300) => Ok(()),
        // Too many requests, or too slow a one: later it may be taken.
        Some(408 | 429) | None => Err(Failure::Unanswered(format!("it says {line:?}"))),
        Some(400..500) => Err(Failure::Refused(line)),
        Some(_) => Err(Failure::Unanswered(format!("it says {line:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_a_port_and_a_path() {
        let address =
            |host: &str, path: &str| Ok(Address { host: host.to_owned(), path: path.to_owned() });
        assert_eq!(
            Address::parse("http://localhost:8084/v1/events"),
            address("localhost:8084", "/v1/events")
        );
        assert_eq!(Address::parse("http://[::1]:1/"), address("[::1]:1", "/"));
        assert_eq!(Address::parse("http://collector"), address("collector:80", "/"));
        assert!(Address::parse("https://a/").unwrap_err().contains("encrypt"));
        for wrong in [
            "localhost:8084",
            "http://",
            "http:///v1",
            "http://a b/",
            "http://a/\r\nX: y",
            "http://u@h/",
        ] {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_refused_is_not_tried_again() {
        assert!(outcome(b"HTTP/1.1 200 OK\r\n").is_ok());
        assert!(matches!(outcome(b"HTTP/1.1 400 Bad Request\r\n"), Err(Failure::Refused(_))));
        for later in
            ["HTTP/1.1 503 Busy\r\n", "HTTP/1.1 429 Slow\r\n", "HTTP/1.0 302 Go\r\n", "", "garbage"]
        {
            assert!(matches!(outcome(later.as_bytes()), Err(Failure::Unanswered(_))), "{later}");
        }
    }
}
