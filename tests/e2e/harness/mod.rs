//! A server in this process, and what it takes to talk to it.

pub mod agent;
pub mod http;
pub mod intercept;
pub mod raw;
pub mod socket;
pub mod sse;

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use serde_json::Value;
use threadline::{app::App, config::DrainTimes, titles::TitleSettings};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle, time};
use tokio_util::sync::CancellationToken;

use intercept::{Intercept, Pane};
use threadline_core::{
    AllowedOrigins, Clock, Limit, Limits, RunId, Timestamp,
    agent::Agent,
    limits::{HEADER_TIMEOUT, MAX_AGENT_RUNS},
};
use threadline_engine::{
    Ports, Service,
    cluster::{bus, lock::redis::RedisLock, redis_connection::RedisConnection, redis_servers::RedisServers},
    limits::SpaceProbe,
};
use threadline_http::{
    egress::{EgressClient, EgressPolicy, Lookup, Network},
    listener::Timeouts,
};
use threadline_store::{DynStore, memory::MemoryStore, postgres::PgStore, sqlite::SqliteStore};

use crate::backing::{Postgres, Redis, migrated_directory};

pub use http::{Answer, Client};
pub use socket::Socket;

/// How long anything may take before a test fails.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// What a server stands on.
#[derive(Clone, Copy)]
pub enum Backend {
    Memory,
    Sqlite,
    /// Postgres, with the lock and the bus in Redis.
    Production,
}

/// How a server is started.
pub struct Options {
    pub backend: Backend,
    pub clock: Clock,
    pub key: Option<&'static str>,
    pub patience: Timeouts,
    pub limits: Limits,
    /// Pages that may call from browsers.
    pub origins: Vec<&'static str>,
    /// The agents of the configuration.
    pub agents: Vec<Agent>,
    /// Networks that agents made over the API may be in.
    pub agent_networks: Vec<Network>,
    /// How their names become addresses, if not as usual.
    pub lookup: Option<Lookup>,
    /// How many runs of agents there may be at once.
    pub agent_runs: usize,
    /// Whether the store is accessed through an [`Intercept`].
    pub intercept: bool,
    /// How threads without a name are named, if they are.
    pub naming: Option<TitleSettings>,
    /// The steps of a shutdown after [`Server::leave`].
    pub drain: DrainTimes,
    /// Probe of the file system with the data.
    pub space: Option<SpaceProbe>,
}

impl Options {
    pub fn new(backend: Backend) -> Self {
        // Requests under way end fast here, so nothing is gained by waiting for those that do not.
        let patience = Timeouts { drain: Duration::from_secs(5), ..Timeouts::default() };
        let (limits, origins) = (Limits::default(), Vec::new());
        Self {
            backend,
            clock: Clock::system(),
            key: None,
            patience,
            limits,
            origins,
            agents: Vec::new(),
            agent_networks: Vec::new(),
            lookup: None,
            agent_runs: MAX_AGENT_RUNS,
            intercept: false,
            naming: Some(TitleSettings::default()),
            drain: DrainTimes::default(),
            space: None,
        }
    }

    pub fn memory() -> Self {
        Self::new(Backend::Memory)
    }

    /// A clock near the present that only moves when it is advanced.
    pub fn with_manual_clock(self) -> Self {
        Self { clock: Clock::manual(Timestamp(1_795_255_875_120)), ..self }
    }

    pub fn with_key(self, key: &'static str) -> Self {
        Self { key: Some(key), ..self }
    }

    pub fn with_agents(self, agents: Vec<Agent>) -> Self {
        Self { agents, ..self }
    }

    pub fn with_agent_networks(self, agent_networks: Vec<Network>) -> Self {
        Self { agent_networks, ..self }
    }

    pub fn with_agent_runs(self, agent_runs: usize) -> Self {
        Self { agent_runs, ..self }
    }

    pub fn with_lookup(self, lookup: Lookup) -> Self {
        Self { lookup: Some(lookup), ..self }
    }

    pub fn with_glass(self) -> Self {
        // A test that counts calls of the store needs the store for itself: no naming of threads.
        Self { intercept: true, ..self.without_naming() }
    }

    pub fn with_naming(self, naming: TitleSettings) -> Self {
        Self { naming: Some(naming), ..self }
    }

    /// Threads have the names that people give them, and no others.
    pub fn without_naming(self) -> Self {
        Self { naming: None, ..self }
    }

    pub fn with_limits(self, change: impl FnOnce(&mut Limits)) -> Self {
        let mut limits = self.limits;
        change(&mut limits);
        Self { limits, ..self }
    }

    pub fn with_origins(self, origins: &[&'static str]) -> Self {
        Self { origins: origins.to_vec(), ..self }
    }

    pub fn with_timeouts(self, change: impl FnOnce(&mut Timeouts)) -> Self {
        let mut patience = self.patience;
        change(&mut patience);
        Self { patience, ..self }
    }
}

/// A server that runs until it is stopped (or dropped).
pub struct Server {
    pub addr: SocketAddr,
    pub clock: Clock,
    pub store: DynStore,
    service: Service,
    key: Option<&'static str>,
    http: reqwest::Client,
    leave: CancellationToken,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<bool>,
    /// The store that this server shuts down.
    closing: Option<DynStore>,
    intercept: Option<Arc<Intercept>>,
    _directory: Option<tempfile::TempDir>,
}

impl Server {
    pub async fn start(options: Options) -> Self {
        match options.backend {
            Backend::Memory => Self::over(Arc::new(MemoryStore::new(options.clock.clone())), options).await,
            Backend::Sqlite => {
                let migrate = async |at: &Path| {
                    SqliteStore::open(at, Clock::system()).await.expect("the store opens").close().await
                };
                let directory = migrated_directory(migrate).await;
                let mut server = Self::in_directory(directory.path(), options).await;
                server._directory = Some(directory);
                server
            }
            Backend::Production => {
                let migrate = async |url: &str| {
                    PgStore::migrate(url).await.expect("migrates");
                };
                Self::in_database(&Postgres::shared().migrated_database(migrate).await, options).await
            }
        }
    }

    /// Over a Postgres database that outlives the server.
    pub async fn in_database(url: &str, options: Options) -> Self {
        let store = PgStore::open(url, options.clock.clone()).await.expect("the store opens");
        Self::owning(Arc::new(store), options).await
    }

    /// Over a SQLite directory that outlives the server.
    pub async fn in_directory(directory: &Path, options: Options) -> Self {
        let store = SqliteStore::open(directory, options.clock.clone()).await.expect("the store opens");
        Self::owning(Arc::new(store), options).await
    }

    async fn owning(store: DynStore, options: Options) -> Self {
        let mut server = Self::over(store.clone(), options).await;
        server.closing = Some(store);
        server
    }

    pub async fn over(store: DynStore, options: Options) -> Self {
        let Options { clock, key, patience, limits, origins, agents, agent_networks, lookup, agent_runs, .. } = options;
        let (naming, drain, space) = (options.naming, options.drain, options.space);
        let intercept = options.intercept.then(|| Arc::new(Intercept::new(store.clone(), Pane::default())));
        let store = intercept.clone().map_or(store, |intercept| intercept as DynStore);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let mut ports = Ports { limits, space, ..Ports::alone(store.clone(), clock.clone()) };
        if let Backend::Production = options.backend {
            // Keys and channels of its own.
            let (redis, name) =
                (RedisServers::parse(&Redis::shared().url()).expect("an address"), format!("{}:", RunId::generate()));
            ports.lock = Arc::new(RedisLock::new(RedisConnection::new(redis.clone()), &name));
            ports.bus = bus::redis::join(redis, &name);
        }
        let app = App::over(listener, ports, key, agents);
        let app = app.expect("an app").with_agent_networks(agent_networks.clone());
        let app = match lookup {
            Some(lookup) => app.with_outbound(EgressClient::with_lookup(EgressPolicy::Public(agent_networks), lookup)),
            None => app,
        };
        let origins = AllowedOrigins::parse(origins).expect("origins");
        let app = app.with_agent_runs(agent_runs).with_timeouts(patience).with_origins(origins);
        let app = match naming {
            Some(naming) => app.with_names(naming),
            None => app,
        };
        let addr = app.local_addr().expect("an address");
        let service = app.service().clone();
        let (stop, stopped) = oneshot::channel();
        let leave = CancellationToken::new();
        let stopped = async {
            // A dropped sender stops it as well.
            let _ = stopped.await;
        };
        let task = tokio::spawn(app.run_until(leave.clone().cancelled_owned(), stopped, drain));
        // A connection is not used any more shortly before the server closes it for its silence.
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).pool_idle_timeout(HEADER_TIMEOUT / 2);
        let http = http.build().expect("a client");
        let stop = Some(stop);
        Self { addr, clock, store, service, key, http, leave, stop, task, closing: None, intercept, _directory: None }
    }

    /// As the development user, or with the server's key as the user `dev`.
    pub fn client(&self) -> Client {
        self.user("dev")
    }

    /// As this user.
    pub fn user(&self, user: &str) -> Client {
        Client { user: Some(user.to_owned()), ..self.project() }
    }

    /// As the whole project: with the key, without a user.
    pub fn project(&self) -> Client {
        Client { http: self.http.clone(), addr: self.addr, key: self.key.map(str::to_owned), user: None }
    }

    /// A socket of this user.
    pub async fn socket(&self, user: &str) -> Socket {
        Socket::open(&self.user(user)).await
    }

    /// The intercept of the store.
    pub fn intercept(&self) -> &Intercept {
        self.intercept.as_ref().expect("started with a intercept")
    }

    /// How often each limit was reached.
    pub fn limited(&self) -> Vec<(Limit, u64)> {
        self.service.quota.limited().filter(|(_, count)| *count > 0).collect()
    }

    /// How many readers follow threads.
    pub fn followers(&self) -> usize {
        self.service.hub().followers()
    }

    /// Has retention do its work now.
    pub async fn retain(&self) {
        self.service.retain().await.expect("retention");
    }

    /// Has the node write now what it has stored for whom.
    pub async fn write_sums(&self) {
        self.service.stored.flush().await.expect("the sums");
    }

    /// Has the node remove old sign-outs and old entries of the audit log now.
    pub async fn sweep_credentials(&self) {
        self.service.sweep_credentials().await.expect("the sweep");
    }

    /// Has the node write now what it has noted about credentials.
    pub async fn sum_trail(&self) {
        self.service.trail().sum().await.expect("the sums");
        self.service.trail().note_uses().await.expect("the uses");
    }

    /// Begins to shut down in steps, as at SIGTERM.
    pub fn leave(&self) {
        self.leave.cancel();
    }

    /// Begins to shut down, without waiting for the end.
    pub fn drain(&mut self) {
        drop(self.stop.take());
    }

    /// Waits until it has begun.
    pub async fn draining(&self) {
        soon(self.service.draining().cancelled_owned()).await;
    }

    /// Shuts down; panics if that takes too long.
    pub async fn stop(mut self) {
        self.drain();
        time::timeout(DEADLINE, &mut self.task).await.expect("the server ends").expect("the server did not panic");
        if let Some(store) = &self.closing {
            store.shut_down().await;
        }
    }

    /// Lets the clock run on, in steps as the reaper sees them.
    pub fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Runs a test against a server, then shuts it down.
pub async fn run(options: Options, test: impl AsyncFnOnce(&Server)) {
    let server = Server::start(options).await;
    test(&server).await;
    server.stop().await;
}

/// A future that must complete soon.
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    time::timeout(DEADLINE, future).await.expect("took too long")
}

/// Asks again until the answer is as wanted.
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let wait = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            time::sleep(Duration::from_millis(10)).await;
        }
    };
    time::timeout(DEADLINE, wait).await.unwrap_or_else(|_| panic!("never came: {what}"))
}

/// Query of what follows in the feed after a list, or after a page of the feed.
pub fn after(seen: &Value) -> String {
    let of =
        |cursor: &str, epoch: &str| Some(format!("after={}&epoch={}", seen[cursor].as_u64()?, seen[epoch].as_str()?));
    of("feedCursor", "feedEpoch").or_else(|| of("cursor", "epoch")).unwrap_or_else(|| panic!("a position: {seen}"))
}

/// A number of a document.
pub fn number(document: &Value, name: &str) -> u64 {
    document[name].as_u64().unwrap_or_else(|| panic!("no number {name} in {document}"))
}

/// A text of a document.
pub fn text<'a>(document: &'a Value, name: &str) -> &'a str {
    document[name].as_str().unwrap_or_else(|| panic!("no text {name} in {document}"))
}

/// Defines a test that runs on every back-end, in memory only in `make test-full`.
macro_rules! everywhere {
    ($(#[$doc:meta])* async fn $name:ident($server:ident) $body:block) => {
        everywhere! { $(#[$doc])* async fn $name($server: |options| options) $body }
    };
    ($(#[$doc:meta])* async fn $name:ident($server:ident: $options:expr) $body:block) => {
        $(#[$doc])*
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            use $crate::harness::{Backend, Options, Server};

            async fn check($server: &Server) $body

            fn options(backend: Backend) -> Options {
                let change: fn(Options) -> Options = $options;
                change(Options::new(backend))
            }

            #[tokio::test]
            #[ignore = "tests/contract compares this store with the others: make test-full"]
            async fn memory() {
                $crate::harness::run(options(Backend::Memory), check).await;
            }

            #[tokio::test]
            async fn sqlite() {
                $crate::harness::run(options(Backend::Sqlite), check).await;
            }

            #[tokio::test]
            async fn production() {
                $crate::harness::run(options(Backend::Production), check).await;
            }
        }
    };
}
pub(crate) use everywhere;
