//! A server with two projects: the attackers are users of one, the victims users of the other.

use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;
use threadline_backing::{Postgres, Redis};
use threadline_core::limits::HEADER_TIMEOUT;
use tokio::time::Instant;

use super::pace;
use crate::server::{Server, listening};

const OPERATOR: &str = "operator-key-0123456789abcdef";
const PATIENCE: Duration = Duration::from_secs(60);
/// Memory of the server that clients share, the least that can be set twice over.
pub const POOL: u64 = 128 * 1_024 * 1_024;
/// Project of the attackers.
pub const ATTACKERS: &str = "a";
/// Project of the victims.
pub const VICTIMS: &str = "b";

/// Store of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackEnd {
    Sqlite,
    /// Postgres, with the lock and the bus in Redis.
    Postgres,
}

impl BackEnd {
    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "Postgres",
        }
    }
}

/// A running server, and what it stands on.
pub struct World {
    pub server: Server,
    http: Client,
    _data: TempDir,
    _redis: Option<Redis>,
}

/// A credential, with the user and the project that it acts for where they are not its own.
#[derive(Debug, Clone)]
pub struct Caller {
    http: Client,
    pub url: String,
    pub credential: String,
    project: Option<&'static str>,
    user: Option<String>,
}

impl World {
    /// Starts a server on an address of this machine, or on all of them, with the default limits of users.
    pub async fn start(back_end: BackEnd, address: &str) -> Self {
        let data = tempfile::tempdir().expect("a directory");
        let mut command = listening(address, data.path(), &[]);
        command.args(["--limit-memory-bytes", &POOL.to_string()]);
        command.env("THREADLINE_API_KEY", OPERATOR).env_remove("THREADLINE_DEVELOPMENT");
        let redis = match back_end {
            BackEnd::Sqlite => None,
            BackEnd::Postgres => {
                let redis = Redis::start(&[]);
                command.env("THREADLINE_STORE", Postgres::shared().fresh_database());
                command.env("THREADLINE_REDIS", redis.url());
                Some(redis)
            }
        };
        let world = Self { server: Server::start(command), http: client(), _data: data, _redis: redis };
        for project in [ATTACKERS, VICTIMS] {
            world.operator(None, None).done(Method::PUT, &format!("/v1/projects/{project}"), "{}".to_owned()).await;
        }
        world
    }

    /// The operator, acting for a user.
    pub fn operator(&self, project: Option<&'static str>, user: Option<&str>) -> Caller {
        let (http, url) = (self.http.clone(), self.server.url.clone());
        Caller { http, url, credential: OPERATOR.to_owned(), project, user: user.map(str::to_owned) }
    }

    /// A user with a token that names no scopes.
    pub async fn user(&self, project: &'static str, user: &str) -> Caller {
        let body = json!({ "userId": user }).to_string();
        let made = self.operator(Some(project), None).done(Method::POST, "/v1/tokens", body).await;
        Caller { http: client(), credential: text(&made, "token"), ..self.operator(None, None) }
    }

    /// The backend of a project, acting for a user.
    pub async fn backend(&self, project: &'static str, user: &str) -> Caller {
        let body = json!({ "scopes": ["read", "chat", "produce"] }).to_string();
        let made = self.operator(Some(project), None).done(Method::POST, "/v1/keys", body).await;
        Caller { http: client(), credential: text(&made, "key"), ..self.operator(None, Some(user)) }
    }

    /// The sum of a metric's series of which the label has one of these values.
    pub async fn metric(&self, name: &str, values: &[&str]) -> f64 {
        let sent = self.operator(None, None).request(Method::GET, "/metrics").send().await.expect("an answer");
        let metrics = sent.text().await.expect("the metrics");
        let series = metrics.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
        let wanted = series.filter(|line| values.iter().any(|value| line.contains(&format!("=\"{value}\"}}"))));
        wanted.map(|line| line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()).expect("a number")).sum()
    }

    /// Waits until the server has nothing left to do.
    pub async fn rests(&self) {
        let (deadline, mut pace) = (Instant::now() + PATIENCE, pace(Duration::from_millis(100)));
        let mut before = None;
        loop {
            pace.tick().await;
            let now = self.server.cpu();
            if before.replace(now).is_some_and(|before| now - before <= Duration::from_millis(20)) {
                return;
            }
            assert!(Instant::now() < deadline, "the server is busy long after the attack");
        }
    }
}

impl Caller {
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let mut request = self.http.request(method, format!("{}{path}", self.url)).bearer_auth(&self.credential);
        if let Some(project) = self.project {
            request = request.header("threadline-project", project);
        }
        if let Some(user) = &self.user {
            request = request.header("threadline-user", user);
        }
        request
    }

    /// Sends a request; returns the status and the body of the response, read to its end.
    pub async fn ask(&self, method: Method, path: &str, body: String) -> (u16, Value) {
        let request = self.request(method, path).header("content-type", "application/json").body(body);
        let response = request.send().await.unwrap_or_else(|error| panic!("{path}: {error:?}"));
        let status = response.status().as_u16();
        let body = response.bytes().await.unwrap_or_else(|error| panic!("{path}: {error:?}"));
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    /// The response to a request that succeeds.
    pub async fn done(&self, method: Method, path: &str, body: String) -> Value {
        let (status, answer) = self.ask(method, path, body).await;
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
        answer
    }
}

/// Client with connections of its own: victims and attackers share none.
fn client() -> Client {
    // A connection is not used any more shortly before the server closes it for its silence.
    let client =
        Client::builder().no_proxy().tls_certs_only([]).timeout(PATIENCE).pool_idle_timeout(HEADER_TIMEOUT / 2);
    client.build().expect("a client")
}

pub fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("no {name} in {value}")).to_owned()
}
