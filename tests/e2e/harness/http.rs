//! Plain HTTP.

use std::net::SocketAddr;

use bytes::Bytes;
use reqwest::{Method, RequestBuilder, Response, header::HeaderMap};
use serde_json::{Value, json};

use threadline::api::openai::errors::code_of;
use threadline_http::problem::ProblemType;

use super::soon;

/// A client that sends requests.
#[derive(Clone)]
pub struct Client {
    pub http: reqwest::Client,
    pub addr: SocketAddr,
    pub key: Option<String>,
    pub user: Option<String>,
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Client {
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let mut request = self.http.request(method, format!("http://{}{path}", self.addr));
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        if let Some(user) = &self.user {
            request = request.header("threadline-user", user.as_bytes());
        }
        request
    }

    pub async fn get(&self, path: &str) -> Answer {
        send(self.request(Method::GET, path)).await
    }

    /// GET in another form.
    pub async fn get_as(&self, path: &str, accept: &str) -> Answer {
        send(self.request(Method::GET, path).header("accept", accept)).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        send(self.request(Method::DELETE, path)).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        send(self.request(Method::POST, path).json(&body)).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> Answer {
        send(self.request(Method::PATCH, path).json(&body)).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Answer {
        send(self.request(Method::PUT, path).json(&body)).await
    }

    pub async fn ndjson(&self, method: Method, path: &str, body: impl Into<reqwest::Body>) -> Answer {
        send(self.request(method, path).header("content-type", "application/x-ndjson").body(body)).await
    }

    /// Makes a thread.
    pub async fn thread(&self, id: &str) -> Value {
        self.post("/v1/threads", json!({ "threadId": id })).await.ok(201)
    }

    /// Starts a run with a long lease.
    pub async fn run(&self, thread: &str, run: &str) -> Value {
        let path = format!("/v1/threads/{thread}/runs");
        self.post(&path, json!({ "runId": run, "leaseSeconds": 600 })).await.ok(201)
    }

    /// Appends events under a number.
    pub async fn append(&self, thread: &str, run: &str, producer_seq: u64, events: Value) -> Answer {
        self.post(&format!("/v1/threads/{thread}/runs/{run}/events?producerSeq={producer_seq}"), events).await
    }

    /// Does something to a run: finish, stop, …
    pub async fn act(&self, thread: &str, run: &str, verb: &str) -> Answer {
        self.post(&format!("/v1/threads/{thread}/runs/{run}/{verb}"), json!({})).await
    }

    /// Requests a stop of a run, which may have ended before the response.
    pub async fn stop(&self, thread: &str, run: &str) -> Value {
        let answer = self.act(thread, run, "stop").await;
        let status = answer.status;
        assert!(status == 200 || status == 202, "{status}: {}", answer.text());
        answer.json()
    }

    /// The epoch of a thread's log.
    pub async fn epoch(&self, thread: &str) -> String {
        let thread = self.get(&format!("/v1/threads/{thread}")).await.ok(200);
        thread["epoch"].as_str().expect("an epoch").to_owned()
    }

    /// The types of all events of a thread.
    pub async fn types(&self, thread: &str) -> Vec<String> {
        let page = self.get(&format!("/v1/threads/{thread}/events?limit=10000")).await.ok(200);
        let events = page["events"].as_array().expect("events");
        events.iter().map(|event| event["event"]["type"].as_str().expect("type").to_owned()).collect()
    }
}

/// Sends a request and reads the whole answer.
pub async fn send(request: RequestBuilder) -> Answer {
    soon(async {
        let response = request.send().await.expect("an answer");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Answer { status, headers, body: response.bytes().await.expect("a whole body") }
    })
    .await
}

/// Sends a request whose response is a stream.
pub async fn open(request: RequestBuilder) -> Response {
    soon(request.send()).await.expect("an answer")
}

impl Answer {
    /// The document of a success of this status.
    pub fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().expect("text")).unwrap_or_default()
    }

    /// A problem document of this type, and its form.
    pub fn problem(&self, status: u16, slug: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        if let Some(problem) = self.behind_openai_error() {
            assert_eq!(problem["type"], format!("/problems/{slug}"), "{problem}");
            return problem;
        }
        assert_eq!(self.header("content-type"), "application/problem+json", "{}", self.text());
        let document = self.json();
        assert_eq!(document["type"], format!("/problems/{slug}"), "{document}");
        assert_eq!(document["status"], status, "{document}");
        assert!(document["retryable"].is_boolean() && document["title"].is_string(), "{document}");
        assert!(document["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{document}");
        document
    }

    /// Problem document of an error that the OpenAI API has translated; `None` for an answer of another API.
    pub fn behind_openai_error(&self) -> Option<Value> {
        let error = serde_json::from_slice::<Value>(&self.body).ok()?["error"].take();
        let kind = ProblemType::ALL.iter().find(|kind| error["code"] == code_of(**kind))?;
        assert_eq!(self.header("content-type"), "application/json", "{}", self.text());
        assert_eq!(self.status, kind.status().as_u16(), "{error}");
        let (title, detail) = (kind.title(), error["message"].clone());
        assert!(detail.as_str().is_some_and(|detail| !detail.is_empty()) && error["type"].is_string(), "{error}");
        let kind = format!("/problems/{}", kind.slug());
        Some(json!({ "type": kind, "title": title, "detail": detail, "parameter": error["param"] }))
    }
}
