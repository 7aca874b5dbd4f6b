//! Assembly of the server. The only file that names concrete back-ends.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use threadline_core::{Clock, Limits, ProjectId, agent::Agent, limits::RECHECK_INTERVAL};
use threadline_engine::{
    Ports, Service,
    cluster::{
        bus,
        lock::redis::RedisLock,
        redis_connection::RedisConnection,
        redis_servers::{AddressError, RedisServers},
        witness::RedisWitness,
    },
    limits::{Space, SpaceProbe},
};
use threadline_http::{
    auth::Auth,
    egress::{EgressClient, EgressPolicy, Network},
    listener::{self, ConnectionBounds, Listener, Serving, Timeouts},
};
use threadline_store::{
    DynStore, LineageCause, LineageStore, SecretAccess, TransferStore, VerifyStore,
    postgres::{self, PgStore},
    sqlite::{self, SqliteStore},
};
use tokio::net::TcpListener;

use crate::{
    agents::Agents,
    api::{ApiState, router},
    config::{Authentication, DrainTimes, without_secrets},
    titles::{TitleGenerator, TitleSettings},
};

mod admin;
mod departure;
mod secrets;
mod serve_config;
mod settings;
mod waiting;

use admin::AdminListener;
pub use serve_config::{ServeConfig, StoreChoice};

/// Reason why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// In development mode every client is authenticated, so the server must listen only on loopback.
    #[error(
        "refusing to listen on {0} in development mode: every client that can connect would have full access.\n\
         Start `threadline serve` with THREADLINE_API_KEY set to a random key (openssl rand -hex 32), or listen on \
         127.0.0.1."
    )]
    Unprotected(SocketAddr),
    /// The address cannot be bound.
    #[error("cannot listen on {0}: {1}\nIs another server running there? Choose another address with {2}.")]
    Bind(SocketAddr, io::Error, &'static str),
    /// The data directory cannot be opened.
    #[error(transparent)]
    Sqlite(#[from] sqlite::OpenError),
    /// The database cannot be opened.
    #[error("{0}: {1}")]
    Postgres(String, postgres::OpenError),
    /// The address of Redis is invalid.
    #[error(transparent)]
    Redis(#[from] AddressError),
    /// A data directory belongs to one node, so that no other node could share a Redis with it.
    #[error(
        "--redis is for several nodes over one Postgres, and a data directory belongs to one node.\n\
         Name the database with --store postgres://…, or leave --redis out."
    )]
    RedisWithoutPostgres,
    /// The HTTP client for agents cannot be created.
    #[error("cannot set up HTTP connections to agents: {0}")]
    Http(#[from] reqwest::Error),
}

/// A server that has opened its store and bound its address, but does not serve yet.
pub struct App<L = TcpListener> {
    listener: L,
    admin: Option<AdminListener>,
    /// Store that the server shuts down at its end.
    store: Option<DynStore>,
    state: ApiState,
    timeouts: Timeouts,
    naming: Option<TitleSettings>,
    trusted_proxies: Vec<Network>,
}

impl App {
    /// Checks the configuration, opens the store and binds the address.
    pub async fn start(config: ServeConfig) -> Result<Self, StartError> {
        let open = [Some(config.listen), config.admin_listen].into_iter().flatten().find(|at| !at.ip().is_loopback());
        if let (Authentication::Development, Some(open)) = (&config.authentication, open) {
            return Err(StartError::Unprotected(open));
        }
        let redis = config.redis.as_deref().map(RedisServers::parse).transpose()?;
        let listener = TcpListener::bind(config.listen)
            .await
            .map_err(|error| StartError::Bind(config.listen, error, "--listen"))?;
        let admin = config.admin_listen.map(|at| {
            let started = AdminListener::start(at, Timeouts::within(&config.limits));
            started.map_err(|error| StartError::Bind(at, error, "--admin-listen"))
        });
        let admin = admin.transpose()?;
        let clock = Clock::system();
        let (store, installation): (DynStore, _) = match &config.store {
            StoreChoice::Sqlite(_) if redis.is_some() => return Err(StartError::RedisWithoutPostgres),
            StoreChoice::Sqlite(data) => {
                let store = SqliteStore::open_with(data, clock.clone(), SecretAccess::Keys(config.secret_keys)).await?;
                (Arc::new(store), None)
            }
            StoreChoice::Postgres(url) => {
                let access = SecretAccess::Keys(config.secret_keys);
                let open = async || PgStore::open_with(url, clock.clone(), access.clone()).await;
                let timeouts = Timeouts::within(&config.limits);
                let store = waiting::open(&listener, timeouts, open, postgres::OpenError::may_pass).await;
                let store = store.map_err(|error| StartError::Postgres(without_secrets(url), error))?;
                let installation = store.installation().to_owned();
                (Arc::new(store), Some(installation))
            }
        };
        secrets::report(store.as_ref()).await;
        let mut ports = Ports {
            timing: config.timing,
            limits: config.limits,
            node_name: machine_name(),
            space: match &config.store {
                StoreChoice::Sqlite(data) => Some(space_of(data.clone())),
                StoreChoice::Postgres(_) => None,
            },
            ..Ports::alone(store.clone(), clock)
        };
        match (redis, installation) {
            (Some(redis), Some(installation)) => {
                let link = RedisConnection::new(redis.clone());
                let lock = RedisLock::new(link.clone(), &config.lock_key_prefix);
                if let Err((state, error)) = lock.examine().await {
                    let finding = state.finding();
                    tracing::warn!(%error, finding, "Redis accepts no locks; locks are kept in the store only");
                }
                let witness = RedisWitness::open(link, &config.lock_key_prefix, &installation, &store).await;
                (ports.lock, ports.witness) = (Arc::new(lock), Some(witness));
                ports.bus = bus::redis::join(redis, &format!("threadline:{installation}:"));
            }
            (None, Some(_)) => tracing::info!(
                "no --redis: sufficient for one node; with several nodes, readers receive events of other nodes up to {} s late",
                RECHECK_INTERVAL.as_secs()
            ),
            _ => {}
        }
        let app = Self::over(listener, ports, config.authentication.operator_key(), config.agents)?
            .with_origins(config.origins);
        let mut app = app.with_agent_networks(config.agent_networks).with_token_leeway(config.token_leeway);
        (app.store, app.naming, app.admin) = (Some(store), config.naming, admin);
        app.trusted_proxies = config.trusted_proxies;
        if let Some(admin) = &app.admin {
            admin.serve(router::monitoring(app.state.clone()));
        }
        Ok(app)
    }
}

impl<L: Listener> App<L> {
    /// Server over ports that the caller owns; in development mode if there is no operator's key.
    pub fn over(listener: L, ports: Ports, operator_key: Option<&str>, agents: Vec<Agent>) -> Result<Self, StartError> {
        // The operator decides the URLs of issuers' keys, so every address is allowed.
        let outbound = EgressClient::new(EgressPolicy::Anywhere);
        let (store, timeouts) = (ports.store.clone(), Timeouts::within(&ports.limits));
        let service = Service::start(ports);
        let auth = Auth::new(operator_key, store, outbound, &service);
        let projects = auth.projects().clone();
        service.quota.set_projects(Arc::new(move |id| projects.limits(id)));
        let state = ApiState::new(service.clone(), Agents::new(service, agents)?, auth);
        let trusted_proxies = Vec::new();
        let app = Self { listener, admin: None, store: None, state, timeouts, naming: None, trusted_proxies };
        Ok(app.with_agent_networks(Vec::new()))
    }

    /// Address and port that are bound.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Address and port of the admin listener, if there is one.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(AdminListener::local_addr)
    }

    /// True if requests without a credential are authenticated.
    pub fn is_development(&self) -> bool {
        self.state.http.auth.is_development()
    }

    /// Id of the key under which the secrets in the store are sealed; `None` if they are not sealed.
    pub fn sealing_key(&self) -> Option<String> {
        self.store.as_ref().and_then(|store| store.sealing_key())
    }

    /// Service behind the APIs.
    pub fn service(&self) -> &Service {
        &self.state.service
    }

    /// Serves until `shutdown` completes: then stops accepting connections, disconnects readers, completes active
    /// requests, and finishes pending appends. Returns false if a part of the server failed.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> bool {
        self.run_until(std::future::pending(), shutdown, DrainTimes::default()).await
    }

    /// [`App::run`] with a shutdown in steps. Once `leave` completes, the node is not ready but accepts requests; later it
    /// closes sockets and streams and starts no agent. When these times are over, or `shutdown` completes, it shuts down.
    pub async fn run_until(
        self,
        leave: impl Future<Output = ()>,
        shutdown: impl Future<Output = ()>,
        times: DrainTimes,
    ) -> bool {
        let Self { listener, admin, store, state, timeouts, naming, trusted_proxies } = self;
        let (service, agents) = (state.service.clone(), state.agents.clone());
        let names = naming.map(|naming| {
            let projects = state.http.auth.projects().clone();
            let wanted = Arc::new(move |id: ProjectId| {
                let projects = projects.clone();
                Box::pin(async move { projects.generates_names(&id).await }) as BoxFuture<'static, bool>
            });
            TitleGenerator::start(service.clone(), agents.clone(), wanted, naming)
        });
        let open = state.http.connections.clone();
        let serving = Serving {
            connections: open.clone(),
            router: router::router(state),
            draining: service.draining(),
            bounds: bounds(service.quota.limits(), trusted_proxies),
            timeouts,
            metrics: Some(service.metrics().clone()),
        };
        let serving = listener::serve(listener, serving);
        let failed = service.failed();
        let departure = async {
            leave.await;
            departure::depart(&service, &agents, &open, times).await;
        };
        let ending = async {
            tokio::select! {
                () = shutdown => {}
                () = departure => {}
                () = failed.cancelled() => {}
            }
            tracing::info!("shutting down: no new requests, closing streams and sockets");
            service.drain();
            // Runs of agents may take long: they are handed over, or end with an event in the log for their followers.
            agents.leave();
        };
        let recovery = agents.recover_runs();
        tokio::join!(serving, ending, recovery);
        agents.stop().await;
        if let Some(names) = names {
            names.stop().await;
        }
        service.stop().await;
        if let Some(store) = store {
            store.shut_down().await;
        }
        // Last, since its runtime may have opened connections to the store.
        if let Some(admin) = admin {
            admin.stop().await;
        }
        !failed.is_cancelled()
    }
}

/// Connections of the main listener: as many as the limit allows, and as the open files of this process do.
fn bounds(limits: &Limits, proxies: Vec<Network>) -> ConnectionBounds {
    let bounds = ConnectionBounds::new(limits.connections).of_strangers(limits.connections_per_address, proxies);
    match rlimit::Resource::NOFILE.get_soft() {
        Ok(files) => bounds.keeping_files(files),
        Err(_) => bounds,
    }
}

/// Name of the machine, or of the container; empty if the system does not tell it. The system is asked, not its /proc, which a
/// service manager may hide.
fn machine_name() -> String {
    nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default()
}

/// Measures the file system of a data directory.
fn space_of(data: PathBuf) -> SpaceProbe {
    Arc::new(move || {
        let found = nix::sys::statvfs::statvfs(&data)?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.fragment_size());
        Ok(Space { free: bytes(found.blocks_available()), total: bytes(found.blocks()) })
    })
}

/// Copies a data directory to a new one while a server has it open. Returns the size of the copy in bytes.
pub async fn backup(data: &Path, to: &Path) -> Result<u64, sqlite::BackupError> {
    sqlite::backup(data, to).await
}

/// Migrates the schema of a PostgreSQL database to the current version. Returns a message about the result.
pub async fn migrate(url: &str) -> Result<String, StartError> {
    let done = PgStore::migrate(url).await.map_err(|error| StartError::Postgres(without_secrets(url), error))?;
    Ok(match (done.from, done.to) {
        (from, to) if from == to => format!("The schema is up to date: version {to}."),
        (0, to) => format!("The schema was created: version {to}."),
        (from, to) => format!("The schema was migrated from version {from} to {to}."),
    })
}

/// Reason why a command cannot open a store.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// There is no data to read.
    #[error("{} contains no data", .0.display())]
    NoData(PathBuf),
    /// A server is running on the data directory.
    #[error(
        "{} is in use, probably by a running server: stop it (Ctrl-C), run this command, and start it again",
        .0.display()
    )]
    InUse(PathBuf),
    /// The data directory cannot be opened.
    #[error(transparent)]
    Sqlite(sqlite::OpenError),
    /// The database cannot be opened.
    #[error("{0}: {1}")]
    Postgres(String, postgres::OpenError),
    /// The database is a standby, which has no history of its own: another one may already be the primary.
    #[error(
        "standby database: {0} is in recovery, and may lack what its primary has; run this command against the primary"
    )]
    Standby(String),
}

/// Course of a command whose data directory does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingData {
    /// The command creates the directory.
    Create,
    /// The command fails with [`CommandError::NoData`].
    Refuse,
}

/// Store that a command opens without a server: a data directory that no server uses, or a database.
pub struct CommandStore {
    store: Arc<dyn VerifyStore>,
}

impl CommandStore {
    /// Opens the store of a command, with this use of its secrets.
    pub async fn open(choice: &StoreChoice, missing: MissingData, access: SecretAccess) -> Result<Self, CommandError> {
        let store: Arc<dyn VerifyStore> = match choice {
            StoreChoice::Sqlite(data) if missing == MissingData::Refuse && !SqliteStore::is_in(data) => {
                return Err(CommandError::NoData(data.to_owned()));
            }
            StoreChoice::Sqlite(data) => match SqliteStore::open_with(data, Clock::system(), access).await {
                Ok(store) => Arc::new(store),
                Err(sqlite::OpenError::Locked { .. }) => return Err(CommandError::InUse(data.to_owned())),
                Err(error) => return Err(CommandError::Sqlite(error)),
            },
            StoreChoice::Postgres(url) => {
                let store = PgStore::open_with(url, Clock::system(), access).await;
                let store = store.map_err(|error| CommandError::Postgres(without_secrets(url), error))?;
                if store.lineage().state().cause() == Some(LineageCause::Standby) {
                    store.close().await;
                    return Err(CommandError::Standby(without_secrets(url)));
                }
                Arc::new(store)
            }
        };
        Ok(Self { store })
    }

    pub fn store(&self) -> Arc<dyn TransferStore> {
        self.store.clone()
    }

    /// The store with its interface for verification.
    pub fn tables(&self) -> &dyn VerifyStore {
        self.store.as_ref()
    }

    /// Closes the store cleanly.
    pub async fn close(self) {
        self.store.shut_down().await;
    }
}
