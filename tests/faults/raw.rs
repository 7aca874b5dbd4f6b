//! Connections by hand, so that they can stay open and read nothing.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::Value;
use socket2::{Domain, Socket, Type};

/// Lets this process, and what it starts, have many files open.
pub fn many_files(wanted: u64) {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    if soft < wanted {
        assert!(hard >= wanted, "this test needs {wanted} open files: raise `ulimit -Hn`, which is {hard}");
        setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).expect("raised");
    }
}

/// Connects with a receive buffer of a few KiB.
pub fn connect(url: &str) -> TcpStream {
    let address: SocketAddr = url.trim_start_matches("http://").parse().expect("an address");
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4_096).expect("set");
    socket.connect_timeout(&address.into(), Duration::from_secs(20)).expect("connects");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    stream
}

/// Asks for SSE of a thread; the answer is not read.
pub fn sse(url: &str, thread: &str) -> TcpStream {
    let mut stream = connect(url);
    let path = format!("/v1/threads/{thread}/events");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n").expect("sent");
    stream
}

/// A WebSocket that has subscribed to a thread; nothing but the head of the answer is read.
pub fn socket(url: &str, thread: &str) -> TcpStream {
    let mut stream = connect(url);
    write!(
        stream,
        "GET /v1/socket HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
         sec-websocket-protocol: threadline.v1\r\n\r\n"
    )
    .expect("sent");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an answer");
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    let text = format!(r#"{{"subscribe":{{"threadId":"{thread}","after":0}}}}"#);
    // Final text frame, masked with zeros.
    let mut frame = vec![0x81, 0x80 | u8::try_from(text.len()).expect("short"), 0, 0, 0, 0];
    frame.extend_from_slice(text.as_bytes());
    stream.write_all(&frame).expect("sent");
    stream
}

/// Reads frames until one of this name has come.
pub fn read_until(stream: &mut TcpStream, name: &str) {
    loop {
        let mut head = [0; 2];
        stream.read_exact(&mut head).expect("a frame");
        let length = match head[1] {
            126 => {
                let mut length = [0; 2];
                stream.read_exact(&mut length).expect("a length");
                usize::from(u16::from_be_bytes(length))
            }
            short @ 0..126 => usize::from(short),
            _ => panic!("a frame longer than was expected"),
        };
        let mut text = vec![0; length];
        stream.read_exact(&mut text).expect("a whole frame");
        if head[0] == 0x81 && serde_json::from_slice::<Value>(&text).is_ok_and(|frame| frame.get(name).is_some()) {
            return;
        }
    }
}
