//! Puts the parts together. The only file that names concrete back-ends.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    agents::Agents,
    api::{ApiState, front},
    auth::Auth,
    bus,
    config::without_secrets,
    domain::{
        AllowedOrigins, Clock, Limits, ProjectId,
        agent::Agent,
        limits::{DEFAULT_LOCK_KEY_PREFIX, RECHECK_INTERVAL},
    },
    egress::{Network, Outbound, Reach},
    lock::redis::RedisLock,
    naming::{Names, Naming},
    redis_link::{self, AddressError, Link},
    server::{self, Listener, Patience},
    service::{LockTiming, Ports, Service},
    store::{
        DynStore, TransferStore,
        postgres::{self, PgStore},
        sqlite::{self, SqliteStore},
    },
};

/// What `threadline serve` is told.
#[derive(Debug, Clone)]
pub struct ServeConfig {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Where everything is kept.
    pub store: StoreChoice,
    /// The Redis that several nodes share, `redis://…` or `rediss://…`.
    pub redis: Option<String>,
    /// How runs hold their threads.
    pub timing: LockTiming,
    /// Begins the keys of locks in Redis.
    pub lock_key_prefix: String,
    /// The key of the project `default`; without it the server runs in development mode.
    pub api_key: Option<String>,
    /// The agents of the configuration.
    pub agents: Vec<Agent>,
    /// Networks that agents may be in which are made over the API, beside the public internet.
    pub agent_networks: Vec<Network>,
    /// How much is allowed.
    pub limits: Limits,
    /// Pages that may call from a browser.
    pub origins: AllowedOrigins,
    /// How threads without a name are named, if they are.
    pub naming: Option<Naming>,
}

/// Where everything is kept.
#[derive(Debug, Clone)]
pub enum StoreChoice {
    /// In a data directory, by one node.
    Sqlite(PathBuf),
    /// In a Postgres database, `postgres://…`, by any number of nodes.
    Postgres(String),
}

impl ServeConfig {
    /// A node that is alone with its data directory, as development servers are.
    pub fn embedded(listen: SocketAddr, data: PathBuf) -> Self {
        Self {
            listen,
            store: StoreChoice::Sqlite(data),
            redis: None,
            timing: LockTiming::default(),
            lock_key_prefix: DEFAULT_LOCK_KEY_PREFIX.to_owned(),
            api_key: None,
            agents: Vec::new(),
            agent_networks: Vec::new(),
            limits: Limits::default(),
            origins: AllowedOrigins::default(),
            naming: Some(Naming::default()),
        }
    }
}

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Everybody could reach a server that lets everybody in.
    #[error(
        "refusing to listen on {0} without an API key: anybody who reaches it would be let in.\n\
         Set THREADLINE_API_KEY to a long random text, or listen on 127.0.0.1."
    )]
    Unprotected(SocketAddr),
    /// The address cannot be bound.
    #[error("cannot listen on {0}: {1}\nIs another server running there? Choose another address with --listen.")]
    Bind(SocketAddr, io::Error),
    /// The data directory cannot be opened.
    #[error(transparent)]
    Sqlite(#[from] sqlite::OpenError),
    /// The database cannot be opened.
    #[error("{0}: {1}")]
    Postgres(String, postgres::OpenError),
    /// Redis cannot be used.
    #[error(transparent)]
    Redis(#[from] AddressError),
    /// A data directory belongs to one node, so there is nobody to share a Redis with.
    #[error(
        "--redis is for several nodes over one Postgres, and a data directory belongs to one node.\n\
         Name the database with --store postgres://…, or leave --redis out."
    )]
    RedisWithoutPostgres,
    /// No connection to an agent could ever be made.
    #[error("agents cannot be reached from this machine: {0}")]
    Http(#[from] reqwest::Error),
}

/// An opened store, to be closed at the end.
enum Opened {
    Sqlite(SqliteStore),
    Postgres(PgStore),
}

impl Opened {
    async fn close(&self) {
        match self {
            Self::Sqlite(store) => store.close().await,
            Self::Postgres(store) => store.close().await,
        }
    }
}

/// A server that is listening and has opened its store, but does not serve yet.
pub struct App<L = TcpListener> {
    listener: L,
    store: Option<Opened>,
    state: ApiState,
    patience: Patience,
    naming: Option<Naming>,
}

impl App {
    /// Checks the configuration, opens the store and binds the address.
    pub async fn start(config: ServeConfig) -> Result<Self, StartError> {
        if config.api_key.is_none() && !config.listen.ip().is_loopback() {
            return Err(StartError::Unprotected(config.listen));
        }
        let redis = config.redis.as_deref().map(redis_link::client).transpose()?;
        let listener =
            TcpListener::bind(config.listen).await.map_err(|error| StartError::Bind(config.listen, error))?;
        let clock = Clock::system();
        let (opened, store, installation): (_, DynStore, _) = match &config.store {
            StoreChoice::Sqlite(_) if redis.is_some() => return Err(StartError::RedisWithoutPostgres),
            StoreChoice::Sqlite(data) => {
                let store = SqliteStore::open(data, clock.clone()).await?;
                (Opened::Sqlite(store.clone()), Arc::new(store), None)
            }
            StoreChoice::Postgres(url) => {
                let store = PgStore::open(url, clock.clone()).await;
                let store = store.map_err(|error| StartError::Postgres(without_secrets(url), error))?;
                let installation = store.installation().to_owned();
                (Opened::Postgres(store.clone()), Arc::new(store), Some(installation))
            }
        };
        let mut ports = Ports { timing: config.timing, limits: config.limits, ..Ports::alone(store, clock) };
        match (redis, installation) {
            (Some(redis), Some(installation)) => {
                let lock = RedisLock::new(Link::new(redis.clone()), &config.lock_key_prefix);
                if let Err((state, error)) = lock.examine().await {
                    let finding = state.finding();
                    tracing::warn!(%error, finding, "Redis takes no locks; until it does, the store decides alone");
                }
                ports.lock = Arc::new(lock);
                ports.bus = bus::redis::join(redis, &format!("threadline:{installation}:"));
            }
            (None, Some(_)) => tracing::info!(
                "no --redis: right for one node; readers on one of several nodes see what others append up to {} s late",
                RECHECK_INTERVAL.as_secs()
            ),
            _ => {}
        }
        let app = Self::over(listener, ports, config.api_key.as_deref(), config.agents)?.with_origins(config.origins);
        let mut app = app.with_agent_networks(config.agent_networks);
        (app.store, app.naming) = (Some(opened), config.naming);
        Ok(app)
    }
}

impl<L: Listener> App<L> {
    /// A server over ports that the caller owns.
    pub fn over(listener: L, ports: Ports, operator_key: Option<&str>, agents: Vec<Agent>) -> Result<Self, StartError> {
        // Where the keys of an issuer are is the operator's word.
        let outbound = Outbound::new(Reach::Anywhere);
        let auth = Auth::new(operator_key, ports.store.clone(), ports.clock.clone(), outbound);
        let patience = Patience::within(&ports.limits);
        let service = Service::start(ports);
        let projects = auth.projects().clone();
        service.quota.set_projects(Arc::new(move |id| projects.limits(id)));
        let state = ApiState::new(service.clone(), Agents::new(service, agents)?, auth);
        Ok(Self { listener, store: None, state, patience, naming: None }.with_agent_networks(Vec::new()))
    }

    /// Agents that are made over the API may be in these networks, and on this machine if everybody on it is let in.
    pub fn with_agent_networks(self, mut networks: Vec<Network>) -> Self {
        if self.is_development() {
            networks.push(Network::Loopback);
        }
        self.with_outbound(Outbound::new(Reach::Public(networks)))
    }

    /// The client that such agents are called with.
    pub fn with_outbound(mut self, outbound: Outbound) -> Self {
        self.state.agents = self.state.agents.clone().with_outbound(outbound);
        self
    }

    /// Another number of agents' runs at once.
    pub fn with_agent_runs(mut self, places: usize) -> Self {
        self.state.agents = self.state.agents.clone().with_places(places);
        self
    }

    /// Other time-outs than the usual ones.
    pub fn with_patience(mut self, patience: Patience) -> Self {
        self.state.heartbeat = patience.heartbeat;
        self.state.agents = self.state.agents.clone().with_patience(patience.agents);
        self.state.auth = self.state.auth.clone().with_check(patience.credentials);
        self.state.bodies.silence = patience.body;
        self.state.bodies.patience = patience.room;
        self.state.answers.patience = patience.room;
        self.state.close = patience.close;
        Self { patience, ..self }
    }

    /// Lets pages of these origins call from browsers, if there are API keys.
    pub fn with_origins(mut self, origins: AllowedOrigins) -> Self {
        self.state.origins = Arc::new(origins);
        self
    }

    /// Names threads that have no name.
    pub fn with_names(self, naming: Naming) -> Self {
        Self { naming: Some(naming), ..self }
    }

    /// The address bound.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Whether everybody is let in.
    pub fn is_development(&self) -> bool {
        self.state.auth.is_development()
    }

    /// To say that the node will be shut down soon: cancelled, it is not ready any more, and answers everybody until then.
    pub fn leaving(&self) -> CancellationToken {
        self.state.service.leaving()
    }

    /// The use cases that are served.
    pub fn service(&self) -> &Service {
        &self.state.service
    }

    /// Serves until `shutdown` completes: then stops accepting, tells readers to go, lets requests under way end,
    /// and finishes what was handed in. False if it ended because a part of it failed.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> bool {
        let Self { listener, store, state, patience, naming } = self;
        let service = state.service.clone();
        let agents = state.agents.clone();
        let names = naming.map(|naming| {
            let projects = state.auth.projects().clone();
            let wanted = Arc::new(move |id: ProjectId| {
                let projects = projects.clone();
                Box::pin(async move { projects.generates_names(&id).await }) as BoxFuture<'static, bool>
            });
            Names::start(service.clone(), agents.clone(), wanted, naming)
        });
        let connections = state.connections.clone();
        let most = service.quota.limits().connections;
        let serving = server::serve(listener, front::router(state), connections, service.draining(), most, patience);
        let failed = service.failed();
        let ending = async {
            tokio::select! {
                () = shutdown => {}
                () = failed.cancelled() => {}
            }
            tracing::info!("shutting down: no new requests, readers are told to go");
            service.drain();
            // Runs of agents could go on for long: they are ended, and say so in the log and to who follows them.
            agents.leave();
        };
        tokio::join!(serving, ending);
        agents.stop().await;
        if let Some(names) = names {
            names.stop().await;
        }
        service.stop().await;
        if let Some(store) = store {
            store.close().await;
        }
        !failed.is_cancelled()
    }
}

/// Copies a data directory to a new one, beside the server that has it open; the size of the copy.
pub async fn backup(data: &Path, to: &Path) -> Result<u64, sqlite::BackupError> {
    sqlite::backup(data, to).await
}

/// Brings the schema of a PostgreSQL database up to date; what was done.
pub async fn migrate(url: &str) -> Result<String, StartError> {
    let done = PgStore::migrate(url).await.map_err(|error| StartError::Postgres(without_secrets(url), error))?;
    Ok(match (done.from, done.to) {
        (from, to) if from == to => format!("The schema is up to date: version {to}."),
        (0, to) => format!("The schema was made: version {to}."),
        (from, to) => format!("The schema was brought from version {from} to {to}."),
    })
}

/// Why a command cannot open a store by itself.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// There is no data to be read.
    #[error("there is no data in {}", .0.display())]
    NoData(PathBuf),
    /// A server is at work there.
    #[error(
        "{} is in use, most likely by a running server: stop it (Ctrl-C), give this command, and start it again",
        .0.display()
    )]
    InUse(PathBuf),
    /// The data directory cannot be opened.
    #[error(transparent)]
    Sqlite(sqlite::OpenError),
    /// The database cannot be opened.
    #[error("{0}: {1}")]
    Postgres(String, postgres::OpenError),
}

/// A store that a command works on by itself: a data directory while no server does, or a database.
pub struct CommandStore {
    opened: Opened,
}

impl CommandStore {
    /// Opens the store. With `make` a data directory is made if it is not there.
    pub async fn open(choice: &StoreChoice, make: bool) -> Result<Self, CommandError> {
        let opened = match choice {
            StoreChoice::Sqlite(data) if !make && !SqliteStore::is_in(data) => {
                return Err(CommandError::NoData(data.to_owned()));
            }
            StoreChoice::Sqlite(data) => match SqliteStore::open(data, Clock::system()).await {
                Ok(store) => Opened::Sqlite(store),
                Err(sqlite::OpenError::Locked { .. }) => return Err(CommandError::InUse(data.to_owned())),
                Err(error) => return Err(CommandError::Sqlite(error)),
            },
            StoreChoice::Postgres(url) => {
                let store = PgStore::open(url, Clock::system()).await;
                Opened::Postgres(store.map_err(|error| CommandError::Postgres(without_secrets(url), error))?)
            }
        };
        Ok(Self { opened })
    }

    /// The store.
    pub fn store(&self) -> Arc<dyn TransferStore> {
        match &self.opened {
            Opened::Sqlite(store) => Arc::new(store.clone()),
            Opened::Postgres(store) => Arc::new(store.clone()),
        }
    }

    /// Closes it cleanly.
    pub async fn close(self) {
        self.opened.close().await;
    }
}
