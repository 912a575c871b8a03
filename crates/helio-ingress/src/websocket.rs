//! WebSockets: the protocol with the client is here, the application in the replica.
//!
//! A handshake goes to a replica as any request whose body is still to come. A replica that accepts answers with
//! status 101; any other answer goes to the client as it is. From then on messages travel within the bodies of
//! request and answer, each as `u8` kind ([`TEXT`], [`BINARY`], [`CLOSE`]), `u32` length and payload. The
//! payload of a [`CLOSE`] is a `u16` code and the reason.
//!
//! **LIMIT-1** A message has at most [`MESSAGE_MAX`] bytes, in either direction; a client that breaks the protocol
//! or does not answer to a ping is closed.

use std::rc::Rc;
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use helio_proto::serve::{self, read_head};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::Shared;
use crate::answer::{Answer, Ongoing};
use crate::ask::{Call, Ends, REFUSALS_MAX, begin, place, reply};
use crate::body::Given;
use crate::fault::{Fault, text};
use crate::headers::header_map;
use crate::link::{Event, Exchange};
use crate::table::Route;

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 3;
/// Kind and length.
const PREFIX: usize = 5;
const MESSAGE_MAX: usize = 16 << 20;
/// A client that says nothing for so long is asked whether it is there; it has as long to answer.
const PING_EVERY: Duration = Duration::from_secs(20);
/// Time that a client has to answer to a close.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(10);
/// No close came: the connection has ended.
const ABNORMAL: u16 = 1006;
const VERSION: &str = "13";

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Whether a request asks for a WebSocket.
pub(crate) fn is_wanted(request: &Request<Incoming>) -> bool {
    let has = |name: HeaderName, word: &str| {
        request
            .headers()
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .any(|value| value.split(',').any(|one| one.trim().eq_ignore_ascii_case(word)))
    };
    request.method() == Method::GET
        && has(header::UPGRADE, "websocket")
        && has(header::CONNECTION, "upgrade")
}

/// Asks a replica; where it accepts, the conversation goes on after the answer.
pub(crate) async fn open(
    shared: &Shared,
    route: &Route,
    ends: &Ends,
    mut request: Request<Incoming>,
) -> Response<Answer> {
    let key = request.headers().get(header::SEC_WEBSOCKET_KEY).cloned();
    let version = request.headers().get(header::SEC_WEBSOCKET_VERSION);
    if version.is_none_or(|version| version != VERSION) {
        let mut response =
            text(StatusCode::UPGRADE_REQUIRED, "The version of WebSocket is 13.".to_owned());
        let version = HeaderValue::from_static(VERSION);
        response.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, version);
        return response;
    }
    let Some(key) = key else {
        return text(StatusCode::BAD_REQUEST, "The Sec-WebSocket-Key is missing.".to_owned());
    };
    let upgrade = hyper::upgrade::on(&mut request);
    let (parts, _) = request.into_parts();
    let call = Call { route, ends, parts: &parts, until: None };
    let mut refusals = 0;
    loop {
        let place = match place(shared, route).await {
            Ok(place) => place,
            Err(fault) => return fault.http(),
        };
        let mut messages = Given { kind: Some(serve::WEBSOCKET), first: Bytes::new(), rest: None };
        let (ongoing, _) = begin(shared, place, &call, &mut messages);
        match ongoing.exchange.next().await {
            Event::Head(head) => {
                return answer(&head, ongoing, upgrade, &key).unwrap_or_else(|fault| fault.http());
            }
            // The handshake has no body and has not begun, so another replica may have it.
            Event::Refused if refusals < REFUSALS_MAX => refusals += 1,
            _ => {
                let say = "The replica died while it had the handshake.".to_owned();
                return text(StatusCode::INTERNAL_SERVER_ERROR, say);
            }
        }
        tokio::task::yield_now().await;
    }
}

fn answer(
    head: &Bytes,
    ongoing: Ongoing,
    upgrade: OnUpgrade,
    key: &HeaderValue,
) -> Result<Response<Answer>, Fault> {
    let status = read_head(head).map(|(_, status, _, _)| status);
    if status != Ok(StatusCode::SWITCHING_PROTOCOLS.as_u16()) {
        return reply(head, ongoing);
    }
    let mut response = Response::new(Answer::Whole(Bytes::new()));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let map: &mut HeaderMap = response.headers_mut();
    if let Ok((_, _, headers, _)) = read_head(head) {
        *map = header_map(headers);
    }
    // After the replica's own headers, which cannot change what the protocol needs.
    map.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    map.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::from_str(&derive_accept_key(key.as_bytes())) {
        map.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    tokio::task::spawn_local(converse(upgrade, ongoing));
    Ok(response)
}

async fn converse(upgrade: OnUpgrade, ongoing: Ongoing) {
    // A client that has gone away meanwhile: the replica hears of it when `ongoing` goes.
    let Ok(upgraded) = upgrade.await else { return };
    let config = WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_MAX))
        .max_frame_size(Some(MESSAGE_MAX));
    let socket = Socket::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await;
    let (sink, mut stream) = socket.split();
    let sink = Mutex::new(sink);
    let exchange = &ongoing.exchange;
    let is_closed_here = tokio::select! {
        () = listen(&mut stream, &sink, exchange) => false,
        () = speak(&sink, exchange) => true,
    };
    if is_closed_here {
        let answered = async { while let Some(Ok(_)) = stream.next().await {} };
        let _ = timeout(CLOSE_TIME_MAX, answered).await;
    } else {
        // The answer to the client's close.
        let _ = timeout(CLOSE_TIME_MAX, async { sink.lock().await.flush().await }).await;
        // The application hears of the end and finishes what it does; nobody hears what it says.
        exchange.end_body();
        while let Event::Piece { is_last: false, data } = exchange.next().await {
            exchange.take(data.len());
        }
    }
}

/// Passes the client's messages to the application, until the client closes.
async fn listen(
    stream: &mut SplitStream<Socket>,
    sink: &Mutex<SplitSink<Socket, Message>>,
    exchange: &Rc<Exchange>,
) {
    let mut is_asked = false;
    let (code, reason) = loop {
        let Ok(said) = timeout(PING_EVERY, stream.next()).await else {
            if is_asked {
                break (ABNORMAL, String::new());
            }
            is_asked = true;
            // Where the sink is in use, what is being sent asks as well.
            if let Ok(mut sink) = sink.try_lock() {
                let _ = timeout(PING_EVERY, sink.send(Message::Ping(Bytes::new()))).await;
            }
            continue;
        };
        is_asked = false;
        match said {
            Some(Ok(Message::Text(text))) => tell(exchange, TEXT, text.as_str().as_bytes()).await,
            Some(Ok(Message::Binary(data))) => tell(exchange, BINARY, &data).await,
            Some(Ok(Message::Close(Some(frame)))) => {
                break (frame.code.into(), frame.reason.as_str().to_owned());
            }
            Some(Ok(Message::Close(None))) => break (1005, String::new()),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
            Some(Err(error)) => {
                let code = match error {
                    Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => {
                        break (ABNORMAL, String::new());
                    }
                    Error::Capacity(_) => CloseCode::Size,
                    Error::Utf8(_) => CloseCode::Invalid,
                    Error::Protocol(_) => CloseCode::Protocol,
                    _ => break (ABNORMAL, String::new()),
                };
                // The client is told the reason; whether it hears it is not waited for.
                if let Ok(mut sink) = sink.try_lock() {
                    let frame = CloseFrame { code, reason: error.to_string().into() };
                    let _ = timeout(CLOSE_TIME_MAX, sink.send(Message::Close(Some(frame)))).await;
                }
                break (code.into(), error.to_string());
            }
            None => break (ABNORMAL, String::new()),
        }
    };
    let mut payload = code.to_le_bytes().to_vec();
    payload.extend_from_slice(reason.as_bytes());
    tell(exchange, CLOSE, &payload).await;
}

async fn tell(exchange: &Exchange, kind: u8, payload: &[u8]) {
    let mut said = BytesMut::with_capacity(PREFIX + payload.len());
    said.put_u8(kind);
    said.put_u32_le(u32::try_from(payload.len()).unwrap_or(u32::MAX));
    said.put_slice(payload);
    exchange.send_body(said.freeze()).await;
}

/// Passes the application's messages to the client, until one of them has gone.
async fn speak(sink: &Mutex<SplitSink<Socket, Message>>, exchange: &Rc<Exchange>) {
    let mut buffer = BytesMut::new();
    let last = loop {
        match exchange.next().await {
            Event::Piece { is_last, data } => {
                buffer.extend_from_slice(&data);
                loop {
                    match message(&mut buffer) {
                        Ok(Some(Message::Close(frame))) => {
                            let _ = sink.lock().await.send(Message::Close(frame)).await;
                            return;
                        }
                        Ok(Some(said)) => {
                            if sink.lock().await.send(said).await.is_err() {
                                // The client has gone: `listen` notices it and says so.
                                return std::future::pending().await;
                            }
                        }
                        Ok(None) => break,
                        Err(()) => {
                            return close(sink, CloseCode::Error, "a message is too long").await;
                        }
                    }
                }
                // After the client has taken it: so a slow client holds back its replica.
                exchange.take(data.len());
                if is_last {
                    break (CloseCode::Normal, "");
                }
            }
            Event::Lost => break (CloseCode::Restart, "the replica has ended"),
            _ => break (CloseCode::Error, "the application failed"),
        }
    };
    close(sink, last.0, last.1).await;
}

async fn close(sink: &Mutex<SplitSink<Socket, Message>>, code: CloseCode, reason: &'static str) {
    let frame = CloseFrame { code, reason: reason.into() };
    let _ = sink.lock().await.send(Message::Close(Some(frame))).await;
}

/// The first message of what has come, once it is whole.
fn message(buffer: &mut BytesMut) -> Result<Option<Message>, ()> {
    let Some(prefix) = buffer.first_chunk::<PREFIX>() else { return Ok(None) };
    let length = u32::from_le_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
    let kind = prefix[0];
    if length > MESSAGE_MAX {
        return Err(());
    }
    if buffer.len() < PREFIX + length {
        return Ok(None);
    }
    buffer.advance(PREFIX);
    let payload = buffer.split_to(length).freeze();
    Ok(Some(match kind {
        TEXT => Message::Text(payload.try_into().map_err(|_| ())?),
        BINARY => Message::Binary(payload),
        _ => Message::Close(payload.first_chunk::<2>().map(|code| CloseFrame {
            code: CloseCode::from(u16::from_le_bytes(*code)),
            reason: String::from_utf8_lossy(&payload[2..]).into_owned().into(),
        })),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(kind: u8, payload: &[u8]) -> BytesMut {
        let mut out = BytesMut::new();
        out.put_u8(kind);
        out.put_u32_le(u32::try_from(payload.len()).unwrap());
        out.put_slice(payload);
        out
    }

    #[test]
    fn messages_come_back_in_any_pieces() {
        let mut all = said(TEXT, "é".as_bytes());
        all.extend_from_slice(&said(BINARY, b"\xff"));
        all.extend_from_slice(&said(CLOSE, b"\xe8\x03bye"));
        let (mut buffer, mut seen) = (BytesMut::new(), Vec::new());
        for byte in all {
            buffer.put_u8(byte);
            while let Some(one) = message(&mut buffer).unwrap() {
                seen.push(one);
            }
        }
        let close = CloseFrame { code: CloseCode::Normal, reason: "bye".into() };
        assert_eq!(
            seen,
            [Message::text("é"), Message::Binary(b"\xff"[..].into()), Message::Close(Some(close))]
        );
    }

    #[test]
    fn what_cannot_be_sent_is_an_error() {
        assert!(message(&mut said(TEXT, b"\xff")).is_err());
        let mut long = said(BINARY, b"");
        long[1..5].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(message(&mut long).is_err());
    }
}
