//! The admin listener: the routes for monitoring, on an OS thread and a runtime of its own. So they are answered even
//! if the main listener has reached its limit of connections, or the main runtime is blocked.

use std::{
    io,
    net::{self, SocketAddr},
    thread::{self, JoinHandle},
};

use axum::{Router, extract::Request};
use threadline_core::limits::{ADMIN_CONNECTIONS, WAITING_DRAIN};
use threadline_http::listener::{self, ConnectionBounds, Listener, Serving, Timeouts};
use tokio::{
    net::TcpListener,
    runtime::{self, Handle},
    sync::watch,
    task,
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};
use tower::ServiceExt as _;

use super::waiting;

/// Listener of its own for monitoring. Ends when it is dropped.
pub(super) struct AdminListener {
    address: SocketAddr,
    /// Routes that are served: those of a server that starts, until its store is open.
    routes: watch::Sender<Router>,
    ending: DropGuard,
    thread: JoinHandle<()>,
}

impl AdminListener {
    /// Binds the address and answers from now on. Must be called inside the main runtime, whose liveness it reports.
    pub fn start(address: SocketAddr, timeouts: Timeouts) -> io::Result<Self> {
        let listener = net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let ((routes, served), ending) = (watch::channel(waiting::router(Handle::current())), CancellationToken::new());
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let ended = ending.clone();
        let serve = async move {
            let listener = TcpListener::from_std(listener)?;
            answer(&listener, served, ended, timeouts).await;
            Ok::<_, io::Error>(())
        };
        let serve = move || match runtime.block_on(serve) {
            Ok(()) => {}
            Err(error) => tracing::error!(%error, "the admin listener cannot serve"),
        };
        let thread = thread::Builder::new().name("threadline-admin".to_owned()).spawn(serve)?;
        Ok(Self { address, routes, ending: ending.drop_guard(), thread })
    }

    /// Address and port that are bound.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Answers with these routes from now on.
    pub fn serve(&self, routes: Router) {
        drop(self.routes.send_replace(routes));
    }

    /// Completes the active requests, then ends the thread.
    pub async fn stop(self) {
        drop(self.ending);
        let thread = self.thread;
        if !matches!(task::spawn_blocking(move || thread.join()).await, Ok(Ok(()))) {
            tracing::error!("the admin listener failed");
        }
    }
}

/// Serves the current routes. They change on open connections, so a probe that is kept open over the start is answered. Connections from
/// other machines leave places for those from this machine, which operators use.
async fn answer(
    listener: &(impl Listener + Sync),
    routes: watch::Receiver<Router>,
    ending: CancellationToken,
    timeouts: Timeouts,
) {
    let current = move |request: Request| {
        let router = routes.borrow().clone();
        router.oneshot(request)
    };
    let serving = Serving {
        router: Router::new().fallback(current),
        connections: TaskTracker::new(),
        draining: ending,
        bounds: ConnectionBounds::new(ADMIN_CONNECTIONS).of_strangers(0, Vec::new()),
        timeouts: Timeouts { drain: WAITING_DRAIN, ..timeouts },
        metrics: None,
    };
    listener::serve(listener, serving).await;
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpSocket, TcpStream},
    };

    use super::*;

    /// A port for which each address 127.0.0.N of this machine is the machine 192.0.2.N, apart from 127.0.0.1.
    struct Foreign(TcpListener);

    impl Listener for Foreign {
        type Stream = TcpStream;

        async fn accept(&self) -> io::Result<TcpStream> {
            Listener::accept(&self.0).await
        }

        fn peer(stream: &TcpStream) -> Option<IpAddr> {
            let IpAddr::V4(address) = stream.peer_addr().ok()?.ip() else { return None };
            let [.., machine] = address.octets();
            Some(if machine == 1 { address } else { Ipv4Addr::new(192, 0, 2, machine) }.into())
        }

        fn local_addr(&self) -> io::Result<SocketAddr> {
            self.0.local_addr()
        }
    }

    /// A connection of a machine.
    async fn from(machine: u8, address: SocketAddr) -> TcpStream {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::from(([127, 0, 0, machine], 0))).expect("an address of this machine");
        socket.connect(address).await.expect("a connection")
    }

    #[tokio::test]
    async fn other_machines_leave_places_of_the_admin_listener_to_this_one() {
        let listener = Foreign(TcpListener::bind("127.0.0.1:0").await.expect("a port"));
        let address = listener.local_addr().expect("an address");
        let ending = CancellationToken::new();
        let (_routes, served) = watch::channel(waiting::router(Handle::current()));
        let serving = answer(&listener, served, ending.clone(), Timeouts::default());
        let test = async {
            let mut flood = Vec::new();
            for machine in 2..2 + ADMIN_CONNECTIONS as u8 {
                let mut stranger = from(machine, address).await;
                stranger.write_all(b"GET /livez HTTP/1.1\r\nHost").await.expect("sent");
                flood.push(stranger);
            }
            let mut answer = String::new();
            let mut operator = from(1, address).await;
            operator.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.expect("sent");
            operator.read_to_string(&mut answer).await.expect("an answer");
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            // Strangers have half of the places: those that have waited longest for a head were closed.
            for stranger in &mut flood[..ADMIN_CONNECTIONS / 2] {
                assert_eq!(stranger.read(&mut [0]).await.expect("closed"), 0);
            }
            drop(flood);
            ending.cancel();
        };
        tokio::join!(serving, test);
    }
}
