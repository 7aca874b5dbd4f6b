//! Requests to whichever server is up. What was not answered clearly is unknown.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use reqwest::{Body, Client, Method};
use serde_json::Value;
use tokio::sync::watch;

pub use crate::reply::Reply;

/// Where the server is; `None` while there is none.
pub type Base = watch::Receiver<Option<String>>;

#[derive(Clone)]
pub struct Api {
    http: Client,
    base: Base,
    internal: Arc<Mutex<Vec<String>>>,
}

pub const JSON: &str = "application/json";
pub const NDJSON: &str = "application/x-ndjson";

impl Api {
    pub fn new(base: Base) -> Self {
        let http =
            Client::builder().no_proxy().tls_certs_only([]).timeout(Duration::from_secs(30)).build().expect("a client");
        Self { http, base, internal: Arc::default() }
    }

    /// For one server that stays.
    pub fn of(url: &str) -> Self {
        // A receiver keeps its last value when the sender is gone.
        Self::new(watch::channel(Some(url.to_owned())).1)
    }

    /// Waits until a server is up.
    pub async fn up(&self) -> String {
        let mut base = self.base.clone();
        loop {
            let now = base.borrow_and_update().clone();
            if let Some(url) = now {
                return url;
            }
            base.changed().await.expect("the driver of the servers lives");
        }
    }

    pub async fn send(&self, method: Method, path: &str, kind: &str, body: impl Into<Body>) -> Reply {
        let url = format!("{}{path}", self.up().await);
        let sent = self.http.request(method, url).header("content-type", kind).body(body).send().await;
        let response = match sent {
            Ok(response) => response,
            Err(error) => return Reply::Unknown(format!("{error:?}")),
        };
        let status = response.status().as_u16();
        let body = match response.bytes().await {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or(Value::Null),
            Err(error) => return Reply::Unknown(format!("{error:?}")),
        };
        if status == 500 {
            self.internal.lock().expect("not poisoned").push(format!("{path}: {body}"));
        }
        Reply::of(status, body)
    }

    /// Nothing may go wrong inside the server, whatever happens outside.
    pub fn assert_sound(&self) {
        let internal = self.internal.lock().expect("not poisoned");
        assert!(internal.is_empty(), "{} answers of status 500, the first one: {}", internal.len(), internal[0]);
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, JSON, "").await
    }

    pub async fn post(&self, path: &str, body: impl Into<Body>) -> Reply {
        self.send(Method::POST, path, JSON, body).await
    }

    /// Sends it until there is a clear answer. The number of unclear ones before it comes with the reply.
    pub async fn insist(&self, method: Method, path: &str, kind: &str, body: &str) -> (Reply, u32) {
        let mut last = String::new();
        for unclear in 0..10_000 {
            match self.send(method.clone(), path, kind, body.to_owned()).await {
                Reply::Unknown(why) => last = why,
                reply => return (reply, unclear),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("no clear answer to {method} {path}, the last one: {last}");
    }

    /// A response that is read as it comes.
    pub async fn open(&self, path: &str, accept: &str) -> Result<reqwest::Response, reqwest::Error> {
        let url = format!("{}{path}", self.up().await);
        self.http.get(url).header("accept", accept).timeout(Duration::from_secs(600)).send().await
    }

    /// The whole log as NDJSON, and its epoch.
    pub async fn log(&self, thread: &str) -> (String, String) {
        let response = self.open(&format!("/v1/threads/{thread}/events"), NDJSON).await.expect("an answer");
        assert_eq!(response.status(), 200, "the log of {thread}");
        let epoch = response.headers()["threadline-epoch"].to_str().expect("text").to_owned();
        (epoch, response.text().await.expect("the whole log"))
    }
}
