//! The admin listener: the routes for monitoring, on an OS thread and a runtime of its own. So they are answered even
//! if the main listener has reached its limit of connections, or the main runtime is blocked.

use std::{
    io,
    net::{self, SocketAddr},
    thread::{self, JoinHandle},
};

use axum::Router;
use threadline_core::limits::{ADMIN_CONNECTIONS, WAITING_DRAIN};
use threadline_http::listener::{self, ConnectionBounds, Serving, Timeouts};
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

use super::waiting;

/// Listener of its own for monitoring. Ends when it is dropped.
pub(super) struct AdminListener {
    address: SocketAddr,
    /// Routes of the server, once its store is open.
    routes: watch::Sender<Option<Router>>,
    ending: DropGuard,
    thread: JoinHandle<()>,
}

impl AdminListener {
    /// Binds the address and answers from now on. Must be called inside the main runtime, whose liveness it reports.
    pub fn start(address: SocketAddr, timeouts: Timeouts) -> io::Result<Self> {
        let listener = net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (main, (routes, later), ending) = (Handle::current(), watch::channel(None), CancellationToken::new());
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let ended = ending.clone();
        let serve = move || match runtime.block_on(serve(listener, main, later, ended, timeouts)) {
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
        self.routes.send_replace(Some(routes));
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

/// Answers that the server is starting until there are routes, then with these.
async fn serve(
    listener: net::TcpListener,
    main: Handle,
    mut routes: watch::Receiver<Option<Router>>,
    ending: CancellationToken,
    timeouts: Timeouts,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let serving = |router, draining| Serving {
        router,
        connections: TaskTracker::new(),
        draining,
        bounds: ConnectionBounds::new(ADMIN_CONNECTIONS).of_strangers(0, Vec::new()),
        timeouts: Timeouts { drain: WAITING_DRAIN, ..timeouts },
        metrics: None,
    };
    let opened = ending.child_token();
    let starting = listener::serve(&listener, serving(waiting::router(main), opened.clone()));
    let opening = async {
        // An error means that the server did not start.
        let router = routes.wait_for(Option::is_some).await.ok().and_then(|router| router.clone());
        opened.cancel();
        router
    };
    if let (Some(router), ()) = tokio::join!(opening, starting) {
        listener::serve(listener, serving(router, ending)).await;
    }
    Ok(())
}
