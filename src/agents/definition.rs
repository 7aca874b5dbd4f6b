//! Definition of an agent, as written in the configuration file, over the API and in the store.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use threadline_core::{
    AgentId,
    agent::{Agent, AgentKind, Approvals, Busy, ClientMay, OnDisconnect, Record, Recovery, Secret},
    limits::{AGENT_IDLE_TIMEOUT, MAX_AGENT_IDLE_TIMEOUT},
};

/// Protocol that an agent speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Endpoint that speaks AG-UI.
    #[default]
    AgUi,
    /// Endpoint with OpenAI's chat completions.
    #[serde(rename = "openai")]
    OpenAi,
    /// Demo agent, built into the server.
    Demo,
}

/// Definition of an agent. A configuration file may also write the names with underscores.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Definition {
    /// Protocol; `ag-ui` by default.
    #[serde(default)]
    pub kind: Kind,
    /// URL that receives runs; only for an AG-UI endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Header fields sent with each run; only for an AG-UI endpoint.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Base URL, the part before `/chat/completions`; only for an OpenAI-compatible endpoint.
    #[serde(default, alias = "base_url", skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Name of the model; only for an OpenAI-compatible endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// API key; only for an OpenAI-compatible endpoint.
    #[serde(default, alias = "api_key", skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
    /// Environment variable that holds the key. Allowed only in the configuration: over the API it would let an
    /// untrusted client's endpoint receive any variable of the server's environment.
    #[serde(default, alias = "api_key_env", skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// System message before the conversation; only for an OpenAI-compatible endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Effect of a client's disconnect on a run: `continue` (by default) or `stop`.
    #[serde(default, alias = "on_disconnect")]
    pub on_disconnect: OnDisconnect,
    /// Read timeout in seconds; 120 by default.
    #[serde(default, alias = "idle_timeout_seconds", skip_serializing_if = "Option::is_none")]
    pub idle_timeout_seconds: Option<u64>,
    /// True if the agent also names its threads, in requests apart from their runs; false by default.
    #[serde(default, alias = "names_threads", skip_serializing_if = "std::ops::Not::not")]
    pub names_threads: bool,
    /// Clients that may answer the agent's interrupts: `user` (by default) or `backend`.
    #[serde(default)]
    pub approvals: Approvals,
    /// Input that untrusted clients may supply.
    #[serde(default, alias = "client_may", skip_serializing_if = "is_default")]
    pub client_may: ClientMay,
    /// Names of the agent's own tools, which no untrusted client may supply.
    #[serde(default, alias = "reserved_tools", skip_serializing_if = "Vec::is_empty")]
    pub reserved_tools: Vec<String>,
    /// Parts of a run's input that are kept with the run: `digest` (by default) or `full`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub record: Record,
    /// Policy for a run whose node is lost while the agent answers: `retry` (by default), `continue` or `none`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recovery: Recovery,
    /// True if the agent's tool calls may be carried out twice, so that a run with a tool call is retried as well; false by
    /// default.
    #[serde(default, alias = "tools_repeatable", skip_serializing_if = "std::ops::Not::not")]
    pub tools_repeatable: bool,
    /// Fate of a request that meets an active run and does not choose: `reject` (by default), `enqueue` or `interrupt`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub busy: Busy,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Definition {
    /// Definition of an AG-UI endpoint at this URL.
    pub fn ag_ui(url: &str) -> Self {
        Self { url: Some(url.to_owned()), ..Self::default() }
    }

    /// Validates the definition. An error is a message for its author. `environment` looks variables up.
    pub fn into_agent(self, id: AgentId, environment: impl Fn(&str) -> Option<String>) -> Result<Agent, String> {
        let idle_timeout = self.idle_timeout_seconds.map_or(AGENT_IDLE_TIMEOUT, Duration::from_secs);
        if idle_timeout.is_zero() || idle_timeout > MAX_AGENT_IDLE_TIMEOUT {
            return Err(format!("idleTimeoutSeconds must be from 1 to {}", MAX_AGENT_IDLE_TIMEOUT.as_secs()));
        }
        let (on_disconnect, kind) = (self.on_disconnect, self.kind);
        let (names_threads, approvals, record) = (self.names_threads, self.approvals, self.record);
        let (client_may, reserved_tools) = (self.client_may, self.reserved_tools);
        let (recovery, tools_repeatable, busy) = (self.recovery, self.tools_repeatable, self.busy);
        let foreign = |names: &[(&str, bool)], of: &str| match names.iter().find(|(_, set)| *set) {
            Some((name, _)) => Err(format!("{name} is not available for an agent of kind {of}")),
            None => Ok(()),
        };
        let chat = [
            ("baseUrl", self.base_url.is_some()),
            ("model", self.model.is_some()),
            ("apiKey", self.api_key.is_some()),
            ("apiKeyEnv", self.api_key_env.is_some()),
            ("instructions", self.instructions.is_some()),
        ];
        let endpoint = [("url", self.url.is_some()), ("headers", !self.headers.is_empty())];
        let kind = match kind {
            Kind::AgUi => {
                foreign(&chat, "ag-ui")?;
                let url = self.url.ok_or("url is missing: the address of the AG-UI endpoint")?;
                check_url("url", &url)?;
                let mut headers = Vec::with_capacity(self.headers.len());
                for (name, value) in self.headers {
                    check_header(&name, &value)?;
                    headers.push((name, Secret::new(value)));
                }
                AgentKind::AgUi { url, headers }
            }
            Kind::OpenAi => {
                foreign(&endpoint, "openai")?;
                let base_url = self.base_url.ok_or("baseUrl is missing: the endpoint up to /chat/completions")?;
                check_url("baseUrl", &base_url)?;
                let model = self.model.filter(|model| !model.is_empty()).ok_or("model is missing")?;
                let api_key = match (self.api_key, self.api_key_env) {
                    (Some(_), Some(_)) => return Err("apiKey and apiKeyEnv exclude each other".into()),
                    (Some(key), None) => Some(key),
                    (None, Some(name)) => {
                        let key = environment(&name).filter(|key| !key.is_empty());
                        Some(key.ok_or_else(|| format!("the environment has no variable {name}, or it is empty"))?)
                    }
                    (None, None) => None,
                };
                if let Some(key) = &api_key {
                    check_header("Authorization", key)?;
                }
                AgentKind::OpenAi {
                    base_url: base_url.trim_end_matches('/').to_owned(),
                    model,
                    api_key: api_key.map(Secret::new),
                    instructions: self.instructions,
                }
            }
            Kind::Demo => {
                foreign(&chat, "demo")?;
                foreign(&endpoint, "demo")?;
                foreign(&[("namesThreads", names_threads)], "demo")?;
                AgentKind::Demo
            }
        };
        Ok(Agent {
            id,
            kind,
            on_disconnect,
            idle_timeout,
            names_threads,
            approvals,
            client_may,
            reserved_tools,
            record,
            recovery,
            tools_repeatable,
            busy,
        })
    }
}

fn check_url(name: &str, url: &str) -> Result<(), String> {
    let parsed = reqwest::Url::parse(url).map_err(|error| format!("{name} is not a valid URL: {error}"))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(format!("{name} must begin with http:// or https://"));
    }
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err(format!("{name} must not contain a user or password: use headers"));
    }
    Ok(())
}

fn check_header(name: &str, value: &str) -> Result<(), String> {
    // The HTTP client sets these itself, and would silently drop other values.
    const OWN: [&str; 5] = ["connection", "content-length", "content-type", "host", "transfer-encoding"];
    // Headers that the server sends with each run: agents tell threads, calls and attempts apart by them.
    const OF_RUN: [&str; 2] = ["idempotency-key", "threadline-"];
    let lower = name.to_ascii_lowercase();
    if OWN.contains(&&*lower) || OF_RUN.iter().any(|own| lower.starts_with(own)) {
        return Err(format!("{name} cannot be set"));
    }
    reqwest::header::HeaderName::try_from(name).map_err(|_| format!("{name:?} is not the name of a header field"))?;
    reqwest::header::HeaderValue::try_from(value).map_err(|_| format!("the value of {name} cannot be sent"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(text: &str) -> Result<Agent, String> {
        let definition: Definition = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let environment = |name: &str| (name == "KEY").then(|| "k".to_owned());
        definition.into_agent(AgentId::new("a").expect("id"), environment)
    }

    #[test]
    fn each_kind_has_what_it_needs() {
        let found =
            agent(r#"{"url":"http://127.0.0.1:8000/","headers":{"X-A":"b"},"onDisconnect":"stop"}"#).expect("ok");
        assert_eq!((found.on_disconnect, found.idle_timeout), (OnDisconnect::Stop, AGENT_IDLE_TIMEOUT));
        assert!(matches!(found.kind, AgentKind::AgUi { headers, .. } if headers[0].1.reveal() == "b"));
        let found = agent(r#"{"kind":"openai","base_url":"https://x/v1/","model":"m","apiKeyEnv":"KEY"}"#).expect("ok");
        assert!(matches!(found.kind, AgentKind::OpenAi { base_url, api_key: Some(key), .. }
            if base_url == "https://x/v1" && key.reveal() == "k"));
        assert!(!found.names_threads && agent(r#"{"url":"http://x","names_threads":true}"#).expect("ok").names_threads);
        assert_eq!(found.approvals, Approvals::User);
        let found = agent(r#"{"url":"http://x","approvals":"backend"}"#).expect("ok");
        assert_eq!(found.approvals, Approvals::Backend);
        let found =
            agent(r#"{"url":"http://x","client_may":{"tools":["map"]},"reservedTools":["pay"],"record":"full"}"#);
        let found = found.expect("ok");
        assert!(found.client_may.tools.allow("map") && !found.client_may.tools.allow("pay") && found.client_may.state);
        assert_eq!((found.reserved_tools, found.record), (vec!["pay".to_owned()], Record::Full));
        let found = agent(r#"{"url":"http://x","recovery":"continue","tools_repeatable":true}"#).expect("ok");
        assert_eq!((found.recovery, found.tools_repeatable), (Recovery::Continue, true));
        assert_eq!(agent(r#"{"url":"http://x"}"#).map(|agent| agent.recovery), Ok(Recovery::Retry));
        assert_eq!(agent(r#"{"url":"http://x"}"#).map(|agent| agent.busy), Ok(Busy::Reject));
        assert_eq!(agent(r#"{"kind":"demo","busy":"enqueue"}"#).map(|agent| agent.busy), Ok(Busy::Enqueue));
        assert_eq!(agent(r#"{"kind":"demo"}"#).map(|agent| agent.kind), Ok(AgentKind::Demo));
    }

    #[test]
    fn errors_of_a_definition_are_named() {
        for (text, what) in [
            ("{}", "url is missing"),
            (r#"{"url":"ftp://x"}"#, "http://"),
            (r#"{"url":"nowhere"}"#, "not a valid URL"),
            (r#"{"url":"http://u:p@x"}"#, "user or password"),
            (r#"{"url":"http://x","model":"m"}"#, "model is not available"),
            (r#"{"url":"http://x","headers":{"a b":"c"}}"#, "header field"),
            (r#"{"url":"http://x","headers":{"a":"c\n"}}"#, "cannot be sent"),
            (r#"{"url":"http://x","headers":{"Content-Length":"7"}}"#, "cannot be set"),
            (r#"{"url":"http://x","headers":{"Threadline-Thread":"t"}}"#, "cannot be set"),
            (r#"{"url":"http://x","headers":{"Idempotency-Key":"k"}}"#, "cannot be set"),
            (r#"{"url":"http://x","idleTimeoutSeconds":0}"#, "idleTimeoutSeconds"),
            (r#"{"kind":"openai","baseUrl":"http://x"}"#, "model is missing"),
            (r#"{"kind":"openai","baseUrl":"http://x","model":"m","apiKeyEnv":"NONE"}"#, "no variable NONE"),
            (r#"{"kind":"demo","url":"http://x"}"#, "url is not available"),
            (r#"{"kind":"demo","namesThreads":true}"#, "namesThreads is not available"),
            (r#"{"url":"http://x","namesThreads":"yes"}"#, "expected a boolean"),
            (r#"{"kind":"magic"}"#, "unknown variant"),
            (r#"{"url":"http://x","recovery":"always"}"#, "unknown variant"),
            (r#"{"url":"http://x","busy":"wait"}"#, "unknown variant"),
            (r#"{"uri":"http://x"}"#, "unknown field"),
            (r#"{"url":"http://x","clientMay":{"role":"system"}}"#, "unknown field"),
            (r#"{"url":"http://x","clientMay":{"history":"none"}}"#, "unknown variant"),
        ] {
            let error = agent(text).expect_err(text);
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
