//! One task of an attack: its requests, sent once or until the attack ends.

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
    time::Duration,
};

use futures_util::{SinkExt, StreamExt};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpSocket, TcpStream, tcp::OwnedReadHalf},
    time::timeout,
};
use tokio_tungstenite::{
    connect_async,
    tungstenite::{self, Message},
};

use super::{
    attacks::{Counts, PAUSE},
    pace,
    world::Caller,
};

/// Bytes of half a message: a message of a user may have 1 MiB.
const HALF: usize = 1_000_000;
/// Bytes of it that are sent at once, and the time between two parts.
const PART: usize = 64 * 1_024;
const PART_PAUSE: Duration = Duration::from_millis(10);
/// Pings written at once.
const PINGS: u64 = 64;
/// Connections of a task that sends half heads. Four tasks have more than one address may.
const HEADS: usize = 80;
/// A ping, and a frame `{"ping":{}}`, both masked with zeros.
const PING: &[u8] = b"\x89\x80\0\0\0\0";
const PING_FRAME: &[u8] = b"\x81\x8b\0\0\0\0{\"ping\":{}}";

/// An attacker, with what the attack is directed at.
pub struct Foe {
    pub caller: Caller,
    pub name: String,
    /// Newest event of the long thread.
    pub tail: u64,
}

impl Foe {
    pub async fn get(&self, path: &str, counts: &Counts) {
        counts.answer(self.caller.ask(Method::GET, path, String::new()).await.0);
    }

    /// Joins the long thread as a page that has seen an event of this id, and leaves.
    pub async fn scan(&self, id: &str, counts: &Counts) {
        let (body, path) = (json!({ "userId": self.name }).to_string(), format!("/api/threads/{}/connect", self.name));
        let (status, connected) = self.caller.ask(Method::POST, &path, body).await;
        if status != 200 {
            return counts.answer(status);
        }
        let token = connected["joinToken"].as_str().expect("a token");
        let url = self.caller.url.replacen("http", "ws", 1);
        let opened = connect_async(format!("{url}/client/websocket?join_token={token}&vsn=2.0.0")).await;
        let mut socket = match opened {
            Ok((socket, _)) => socket,
            Err(tungstenite::Error::Http(response)) => return counts.answer(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        };
        let params = json!({ "stream_mode": "connect", "last_seen_event_id": id });
        let join = json!(["1", "1", format!("thread:{}", self.name), "phx_join", params]);
        socket.send(Message::text(join.to_string())).await.expect("sent");
        while let Some(Ok(message)) = socket.next().await {
            if let Message::Text(reply) = message {
                let reply: Value = serde_json::from_str(reply.as_str()).expect("JSON");
                assert_eq!(reply[3], "phx_reply", "{reply}");
                return counts.answer(if reply[4]["status"] == "ok" { 200 } else { 429 });
            }
        }
        counts.answer(503);
    }

    /// Sends pings for as long as the server reads them. Every second socket sends them as frames.
    pub async fn ping(&self, task: usize, counts: &Counts) {
        let stream = self.socket().await.expect("a user has as many sockets");
        let (reader, mut writer) = stream.into_split();
        let mut reader = BufReader::new(reader);
        let pings = if task.is_multiple_of(2) { PING } else { PING_FRAME }.repeat(PINGS as usize);
        let mut pace = pace(Duration::from_millis(10));
        let write = async {
            loop {
                pace.tick().await;
                writer.write_all(&pings).await.expect("the socket stays open");
                counts.sent(PINGS);
            }
        };
        tokio::select! {
            () = write => {}
            ended = pongs(&mut reader, counts) => ended.expect("the socket stays open"),
        }
    }

    /// Sends all of a message but its end, with pings after it, and gives it up for the next one.
    pub async fn half_message(&self, counts: &Counts) {
        let mut stream = match self.socket().await {
            Ok(stream) => stream,
            Err(status) => return counts.answer(status),
        };
        // The first frame of a text that continues, masked with zeros.
        let mut half = vec![0x01, 0xff];
        half.extend((HALF as u64).to_be_bytes());
        half.extend([0; 4]);
        half.resize(half.len() + HALF, b' ');
        // In parts, as over a network. The server reads no further if it has no memory for it.
        let write = async {
            let mut pace = pace(PART_PAUSE);
            for part in half.chunks(PART) {
                pace.tick().await;
                stream.write_all(part).await.expect("the socket stays open");
            }
        };
        if timeout(Duration::from_secs(1), write).await.is_ok() {
            counts.served();
            let mut pace = pace(PAUSE);
            for _ in 0..10 {
                pace.tick().await;
                stream.write_all(PING).await.expect("the socket stays open");
            }
        }
    }

    /// Has some connections open, each with half a head, and replaces the oldest.
    pub async fn half_heads(&self, counts: &Counts) {
        let (_, port) = self.caller.url.rsplit_once(':').expect("a port");
        let address = SocketAddr::new(own_address(), port.parse().expect("a number"));
        let head = format!("GET /v1/threads HTTP/1.1\r\nhost: localhost\r\nx-pad: {}", "x".repeat(8_000));
        let (mut open, mut pace) = (VecDeque::new(), pace(Duration::from_millis(5)));
        loop {
            pace.tick().await;
            if open.len() >= HEADS {
                open.pop_front();
            }
            counts.sent(1);
            let mut stream = connect(address).await.expect("a connection");
            // The server may have closed it already.
            match stream.write_all(head.as_bytes()).await {
                Ok(()) => counts.served(),
                Err(_) => counts.answer(503),
            }
            open.push_back(stream);
        }
    }

    /// An open socket, or the status of the refusal.
    async fn socket(&self) -> Result<TcpStream, u16> {
        let address = self.caller.url.trim_start_matches("http://").parse().expect("an address");
        let mut stream = connect(address).await.expect("a connection");
        let head = format!(
            "GET /v1/socket HTTP/1.1\r\nhost: {address}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nauthorization: Bearer {}\r\n\r\n",
            self.caller.credential
        );
        stream.write_all(head.as_bytes()).await.expect("sent");
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(stream.read_u8().await.expect("an answer"));
        }
        match String::from_utf8_lossy(&answer).split(' ').nth(1) {
            Some("101") => Ok(stream),
            status => Err(status.and_then(|status| status.parse().ok()).expect("a status")),
        }
    }
}

async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    let stream = socket.connect(address).await?;
    // Small frames go out at once, as a client would send them.
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Counts the answers to pings; ends with the connection.
async fn pongs(from: &mut BufReader<OwnedReadHalf>, counts: &Counts) -> io::Result<()> {
    loop {
        let (kind, length) = (from.read_u8().await?, from.read_u8().await?);
        let length = if length == 126 { from.read_u16().await? } else { length.into() };
        let mut text = vec![0; length.into()];
        from.read_exact(&mut text).await?;
        match kind {
            0x8a => counts.served(),
            0x81 if text.windows(6).any(|word| word == b"\"pong\"") => counts.served(),
            0x88 => panic!("the socket was closed: {}", String::from_utf8_lossy(&text)),
            _ => {}
        }
    }
}

/// An address of this machine that is no loopback.
fn own_address() -> IpAddr {
    // Connecting a UDP socket sends nothing: the system only chooses the address to send from.
    let address = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("203.0.113.1:9")?;
        Ok(socket.local_addr()?.ip())
    });
    let address = address.ok().filter(|address| !address.is_loopback());
    address.expect("half-sent heads need a machine with another IPv4 address than loopback, and a default route")
}
