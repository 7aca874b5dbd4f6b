//! Configuration of the client, and the sending of one request.

use std::{fmt, sync::Arc, time::Duration};

use reqwest::{
    Method, RequestBuilder, Response, StatusCode, Url,
    header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER},
    redirect::Policy,
};
use serde::de::DeserializeOwned;

use super::{Backoff, ClientError, Problem};

pub(super) const PROJECT_HEADER: HeaderName = HeaderName::from_static("threadline-project");
pub(super) const USER_HEADER: HeaderName = HeaderName::from_static("threadline-user");

/// Address of a server, credentials and timeouts.
#[derive(Clone)]
pub struct ClientConfig {
    /// Address of the server, `http://…` or `https://…`; a path is kept as a prefix.
    pub url: String,
    /// API key; `None` for a server in development mode.
    pub api_key: Option<String>,
    /// User to act as; `None` is the server's default user, or with a key the complete project.
    pub user: Option<String>,
    /// Project to act in, with the operator's key; `None` is the key's own project.
    pub project: Option<String>,
    /// Longest time to make a connection.
    pub connect_timeout: Duration,
    /// Longest time for one request (a long-poll: in addition to its own wait).
    pub request_timeout: Duration,
    /// Bounds of the waits between the tries of a producer and of a reader.
    pub backoff: Backoff,
    /// Time for which a producer retries one request before it reports the error. Must be longer than one request may
    /// take, or a request that hangs is never repeated.
    pub retry_for: Duration,
}

impl ClientConfig {
    /// Configuration for the server at `url`, without a key, as the default user.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            api_key: None,
            user: None,
            project: None,
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
            backoff: Backoff::default(),
            retry_for: Duration::from_secs(90),
        }
    }
}

impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key must not appear in logs.
        f.debug_struct("ClientConfig")
            .field("url", &self.url)
            .field("api_key", &self.api_key.as_ref().map(|_| "…"))
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// Client of one server. Cheap to clone; clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    config: Arc<ClientConfig>,
}

impl Client {
    /// Checks the configuration; makes no connection yet. Fails with [`ClientError::Config`] if a value cannot be used.
    pub fn new(config: ClientConfig) -> Result<Self, ClientError> {
        let invalid = |what: &str| ClientError::Config(what.to_owned());
        let base = Url::parse(&config.url)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| {
                ClientError::Config(format!(
                    "invalid server URL {:?}: write it like http://127.0.0.1:7420 (--url or THREADLINE_URL)",
                    config.url
                ))
            })?;
        let mut headers = HeaderMap::new();
        if let Some(key) = &config.api_key {
            let mut value = HeaderValue::from_str(&format!("Bearer {key}"))
                .ok()
                .filter(|_| !key.is_empty())
                .ok_or_else(|| invalid("the API key (THREADLINE_API_KEY) must be visible ASCII: copy it again"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        if let Some(user) = &config.user {
            let value = HeaderValue::from_str(user)
                .ok()
                .filter(|value| !value.is_empty())
                .ok_or_else(|| invalid("a user id must be visible ASCII to be sent in the header Threadline-User"))?;
            headers.insert(USER_HEADER, value);
        }
        if let Some(project) = &config.project {
            let value = HeaderValue::from_str(project)
                .ok()
                .filter(|value| !value.is_empty())
                .ok_or_else(|| invalid("a project id must be visible ASCII to be sent in a header"))?;
            headers.insert(PROJECT_HEADER, value);
        }
        let mut builder = reqwest::Client::builder();
        if base.scheme() == "http" {
            // Loading the machine's certificates takes a while, and no plain HTTP connection would use them.
            builder = builder.tls_certs_only([]);
        }
        let http = builder
            // A redirect would carry the user, and perhaps the key, to another server.
            .redirect(Policy::none())
            .default_headers(headers)
            .user_agent(concat!("threadline/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(config.connect_timeout)
            .tcp_nodelay(true)
            .build()
            .map_err(|error| ClientError::Config(format!("cannot set up HTTP: {}", causes(&error))))?;
        Ok(Self { http, base, config: Arc::new(config) })
    }

    /// Configuration that the client was made with.
    pub fn config(&self) -> &ClientConfig {
        &self.config
    }

    /// URL `<base>/v1/<segments>`; fails if a segment is not valid in a path.
    pub(super) fn url(&self, segments: &[&str]) -> Result<Url, ClientError> {
        if let Some(id) = segments.iter().find(|id| matches!(**id, "" | "." | "..")) {
            // Every URL parser on the way takes these segments for steps in the path, however they are written.
            return Err(ClientError::Config(format!("{id:?} cannot be used as an id in a URL")));
        }
        let mut url = self.base.clone();
        url.path_segments_mut()
            .map_err(|()| ClientError::Config("the address of the server has no path".to_owned()))?
            .pop_if_empty()
            .push("v1")
            .extend(segments);
        Ok(url)
    }

    /// URL next to `v1`: `<base>/<name>`.
    pub(super) fn at_root(&self, name: &str) -> Result<Url, ClientError> {
        let mut url = self.base.clone();
        url.path_segments_mut()
            .map_err(|()| ClientError::Config("the address of the server has no path".to_owned()))?
            .pop_if_empty()
            .push(name);
        Ok(url)
    }

    pub(super) fn request(&self, method: Method, url: Url) -> RequestBuilder {
        self.http.request(method, url).timeout(self.config.request_timeout)
    }

    /// Request without a timeout, for a body that may take any time.
    pub(super) fn open_request(&self, method: Method, url: Url) -> RequestBuilder {
        self.http.request(method, url)
    }

    /// Sends a request; a refusal becomes a [`ClientError::Problem`].
    pub(super) async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let response = request.send().await.map_err(|error| self.transport(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        if let Some(location) = response.headers().get(LOCATION).filter(|_| status.is_redirection()) {
            let location = String::from_utf8_lossy(location.as_bytes());
            return Err(ClientError::Config(format!(
                "{} answers that it has moved to {location}: use that address (--url or THREADLINE_URL)",
                self.config.url
            )));
        }
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let body = response.bytes().await.map_err(|error| self.transport(&error))?;
        Err(Problem::from_body(status.as_u16(), retry_after.map(Duration::from_secs), &body).into())
    }

    /// Sends a request, and reads the answer as JSON.
    pub(super) async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ClientError> {
        let response = self.send(request).await?;
        let status: StatusCode = response.status();
        let body = response.bytes().await.map_err(|error| self.transport(&error))?;
        serde_json::from_slice(&body)
            .map_err(|error| ClientError::Protocol(format!("unexpected response (status {status}): {error}")))
    }

    pub(super) fn transport(&self, error: &reqwest::Error) -> ClientError {
        let (url, cause) = (self.config.url.clone(), causes(error));
        if error.is_builder() {
            ClientError::Config(format!("cannot make the request: {cause}"))
        } else if error.is_connect() {
            ClientError::Unreachable { url, cause }
        } else if error.is_timeout() {
            ClientError::Transport { url, cause: "no response before the timeout".to_owned() }
        } else {
            ClientError::Transport { url, cause }
        }
    }
}

/// True if a text is an HTTP token (RFC 9110), as the name of a subprotocol must be.
pub(super) fn is_token(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// Innermost cause, which is the network's message; the outer layers only say that a step failed.
pub(super) fn causes(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_escaped_and_a_path_is_kept() {
        let client = Client::new(ClientConfig::new("http://h:1/threads-of/us/")).expect("client");
        let url = client.url(&["threads", "a/b?c#d%20é"]).expect("url");
        assert_eq!(url.as_str(), "http://h:1/threads-of/us/v1/threads/a%2Fb%3Fc%23d%2520%C3%A9");
        for id in ["", ".", ".."] {
            assert!(matches!(client.url(&["threads", id]), Err(ClientError::Config(_))));
        }
    }

    #[test]
    fn a_configuration_that_cannot_work_is_refused() {
        for url in ["", "127.0.0.1:7420", "ws://h", "http:///"] {
            assert!(matches!(Client::new(ClientConfig::new(url)), Err(ClientError::Config(_))), "{url}");
        }
        let with = |key: &str, user: &str| {
            let mut config = ClientConfig::new("http://h");
            config.api_key = Some(key.to_owned());
            config.user = Some(user.to_owned());
            Client::new(config)
        };
        assert!(with("tl_key-1", "alice").is_ok());
        assert!(with("base64/key+==", "alice").is_ok());
        assert!(with("a\nkey", "alice").is_err());
        assert!(with("", "alice").is_err());
        assert!(with("tl_key-1", "al\nice").is_err());
        let shown = format!("{:?}", with("tl_secret", "alice"));
        assert!(!shown.contains("tl_secret"), "{shown}");
    }
}
