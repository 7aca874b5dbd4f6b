//! Floods of connections of other machines.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use threadline::app::App;
use threadline_core::{Clock, Limits};
use threadline_engine::Ports;
use threadline_http::listener::Listener;
use threadline_store::memory::MemoryStore;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::oneshot,
};

use crate::harness::{raw::Raw, soon};

/// A port for which every address of this machine, 127.0.0.N, is another machine, 192.0.2.N.
struct Foreign(TcpListener);

impl Listener for Foreign {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<TcpStream> {
        Listener::accept(&self.0).await
    }

    fn peer(stream: &TcpStream) -> Option<IpAddr> {
        let IpAddr::V4(address) = stream.peer_addr().ok()?.ip() else { return None };
        Some(Ipv4Addr::new(192, 0, 2, address.octets()[3]).into())
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// Runs a test against a server with these limits.
async fn with_limits(change: impl FnOnce(&mut Limits), test: impl AsyncFnOnce(SocketAddr)) {
    let mut limits = Limits::default();
    change(&mut limits);
    let clock = Clock::system();
    let ports = Ports { limits, ..Ports::alone(Arc::new(MemoryStore::new(clock.clone())), clock) };
    let listener = Foreign(TcpListener::bind("127.0.0.1:0").await.expect("a port"));
    let app = App::over(listener, ports, Some("secret"), Vec::new()).expect("an app");
    let addr = app.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(app.run(async {
        let _ = stopped.await;
    }));
    test(addr).await;
    drop(stop);
    assert!(served.await.expect("no panic"));
}

/// A connection of the machine with this number.
async fn from(machine: u8, addr: SocketAddr) -> Raw {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from(([127, 0, 0, machine], 0))).expect("an address of this machine");
    Raw(soon(socket.connect(addr)).await.expect("a connection"))
}

async fn ask(raw: &mut Raw, path: &str) -> crate::harness::Answer {
    raw.write(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n\r\n")).await;
    raw.answer().await
}

#[tokio::test]
async fn an_address_has_its_share_of_the_connections() {
    with_limits(
        |limits| limits.connections_per_address = 2,
        async |addr| {
            let mut open = vec![from(2, addr).await, from(2, addr).await];
            for raw in &mut open {
                ask(raw, "/livez").await.ok(200);
            }
            let refused = ask(&mut from(2, addr).await, "/livez").await;
            let problem = refused.problem(503, "too-many-connections");
            assert!(problem["detail"].as_str().expect("a detail").contains("this address"), "{problem}");
            ask(&mut from(3, addr).await, "/livez").await.ok(200);
        },
    )
    .await;
}

#[tokio::test]
async fn half_sent_heads_of_strangers_cut_each_other_and_no_client() {
    with_limits(
        |limits| limits.connections = 8,
        async |addr| {
            let mut client = from(2, addr).await;
            ask(&mut client, "/v1/agents").await.ok(200);
            let mut flood = Vec::new();
            for machine in 10..50 {
                let mut raw = from(machine, addr).await;
                raw.write("GET /v1/agents HTTP/1.1\r\nHost").await;
                flood.push(raw);
            }
            // The oldest are closed, without waiting for the timeout of a head.
            for raw in &mut flood[..30] {
                assert_eq!(raw.rest().await, b"");
            }
            ask(&mut client, "/v1/agents").await.ok(200);
            let mut late = from(3, addr).await;
            ask(&mut late, "/v1/agents").await.ok(200);
            // An authenticated client stays, however many connections come.
            for machine in 50..90 {
                flood.push(from(machine, addr).await);
            }
            for known in [&mut client, &mut late] {
                ask(known, "/v1/agents").await.ok(200);
            }
        },
    )
    .await;
}
