//! Bytes over TCP, for what an HTTP client would not send.

use std::net::SocketAddr;

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{Answer, soon};

/// A connection.
pub struct Raw(pub TcpStream);

impl Raw {
    pub async fn connect(addr: SocketAddr) -> Self {
        Self(soon(TcpStream::connect(addr)).await.expect("a connection"))
    }

    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        soon(self.0.write_all(bytes.as_ref())).await.expect("written");
    }

    /// Everything until the server closes (or cuts) the connection.
    pub async fn rest(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        // A cut is an end as well; what came before it is kept.
        let _ = soon(self.0.read_to_end(&mut all)).await;
        all
    }

    /// The first bytes of an answer.
    pub async fn beginning(&mut self) -> String {
        let mut bytes = Vec::new();
        soon(self.0.read_buf(&mut bytes)).await.expect("an answer");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// One answer with a Content-Length.
    pub async fn answer(&mut self) -> Answer {
        soon(async {
            let mut all = Vec::new();
            loop {
                if let Some(answer) = parse(&all) {
                    return answer;
                }
                let read = self.0.read_buf(&mut all).await.expect("more");
                assert!(read > 0, "dropped after {:?}", String::from_utf8_lossy(&all));
            }
        })
        .await
    }
}

/// Sends a request as it stands; what it lacks is only the Host, and the end of its head.
pub async fn exchange(addr: SocketAddr, line: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let mut request = format!("{line} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    let mut bytes = format!("{request}\r\n").into_bytes();
    bytes.extend_from_slice(body);
    let mut raw = Raw::connect(addr).await;
    raw.write(&bytes).await;
    raw.answer().await
}

fn parse(bytes: &[u8]) -> Option<Answer> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).expect("a head is text");
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().expect("a status");
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(':').expect("a header");
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        headers.append(name, HeaderValue::from_str(value.trim()).expect("a value"));
    }
    let length = headers.get("content-length").map_or(0, |n| n.to_str().expect("text").parse().expect("a length"));
    let body = bytes.get(end + 4..end + 4 + length)?;
    Some(Answer { status, headers, body: Bytes::copy_from_slice(body) })
}
