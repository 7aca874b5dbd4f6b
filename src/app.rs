//! Puts the parts together. The only file that names concrete back-ends.

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc};

use tokio::net::TcpListener;

use crate::{
    agents::Agents,
    api::{ApiState, front},
    auth::Auth,
    domain::{Clock, agent::Agent},
    server::{self, Patience},
    service::Service,
    store::{
        DynStore,
        postgres::{self, PgStore},
        sqlite::{OpenError, SqliteStore},
    },
};

/// What `threadline serve` is told.
#[derive(Debug, Clone)]
pub struct ServeConfig {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The data directory.
    pub data: PathBuf,
    /// The key of the project `default`; without it the server runs in development mode.
    pub api_key: Option<String>,
    /// The agents of the configuration.
    pub agents: Vec<Agent>,
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
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// No connection to an agent could ever be made.
    #[error("agents cannot be reached from this machine: {0}")]
    Http(#[from] reqwest::Error),
}

/// A server that is listening and has opened its store, but does not serve yet.
pub struct App {
    listener: TcpListener,
    store: Option<Arc<SqliteStore>>,
    state: ApiState,
    patience: Patience,
}

impl App {
    /// Checks the configuration, opens the store and binds the address.
    pub async fn start(config: ServeConfig) -> Result<Self, StartError> {
        let auth = Auth::new(config.api_key.as_deref());
        if auth.is_development() && !config.listen.ip().is_loopback() {
            return Err(StartError::Unprotected(config.listen));
        }
        let listener =
            TcpListener::bind(config.listen).await.map_err(|error| StartError::Bind(config.listen, error))?;
        let clock = Clock::system();
        let store = Arc::new(SqliteStore::open(&config.data, clock.clone()).await?);
        let mut app = Self::over(listener, store.clone(), clock, auth, config.agents)?;
        app.store = Some(store);
        Ok(app)
    }

    /// A server over a store that the caller owns. `clock` must be the store's.
    pub fn over(
        listener: TcpListener,
        store: DynStore,
        clock: Clock,
        auth: Auth,
        agents: Vec<Agent>,
    ) -> Result<Self, StartError> {
        let service = Service::start(store, clock);
        let state = ApiState::new(service.clone(), Agents::new(service, agents)?, auth);
        Ok(Self { listener, store: None, state, patience: Patience::default() })
    }

    /// Other time-outs than the usual ones.
    pub fn with_patience(mut self, patience: Patience) -> Self {
        self.state.heartbeat = patience.heartbeat;
        self.state.agents = self.state.agents.clone().with_patience(patience.agents);
        self.state.body_silence = patience.body;
        Self { patience, ..self }
    }

    /// The address bound.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Whether everybody is let in.
    pub fn is_development(&self) -> bool {
        self.state.auth.is_development()
    }

    /// The use cases that are served.
    pub fn service(&self) -> &Service {
        &self.state.service
    }

    /// Serves until `shutdown` completes: then stops accepting, tells readers to go, lets requests under way end,
    /// and finishes what was handed in. False if it ended because a part of it failed.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> bool {
        let Self { listener, store, state, patience } = self;
        let service = state.service.clone();
        let agents = state.agents.clone();
        let connections = state.connections.clone();
        let serving = server::serve(listener, front::router(state), connections, service.draining(), patience);
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
        service.stop().await;
        if let Some(store) = store {
            store.close().await;
        }
        !failed.is_cancelled()
    }
}

/// Brings the schema of a PostgreSQL database up to date; what was done.
pub async fn migrate(url: &str) -> Result<String, postgres::OpenError> {
    let done = PgStore::migrate(url).await?;
    Ok(match (done.from, done.to) {
        (from, to) if from == to => format!("The schema is up to date: version {to}."),
        (0, to) => format!("The schema was made: version {to}."),
        (from, to) => format!("The schema was brought from version {from} to {to}."),
    })
}
