//! Agents that a project defines over the API: their changes, and the origins that they keep.

use threadline_core::{
    AgentId, Principal, Scope,
    agent::{Agent, AgentKind},
    limits::{MAX_AGENT_BYTES, MAX_AGENTS},
};
use threadline_engine::NewDefinition;
use threadline_http::egress::Refused;

use super::{AgentError, Agents, DEMO, Definition, Origin, read};

impl Agents {
    /// Creates an agent or replaces its definition. `free` are the origins to which an agent may be moved without the scope
    /// `admin`.
    pub async fn put(
        &self,
        principal: &Principal,
        id: &AgentId,
        definition: Definition,
        free: &[String],
    ) -> Result<(Agent, Origin), AgentError> {
        self.refuse_fixed(id)?;
        if definition.api_key_env.is_some() {
            return Err(AgentError::InvalidAgent(
                "apiKeyEnv is available in the configuration file only: send apiKey".into(),
            ));
        }
        let text = serde_json::to_string(&definition).map_err(|error| AgentError::InvalidAgent(error.to_string()))?;
        if text.len() > MAX_AGENT_BYTES {
            return Err(AgentError::InvalidAgent(format!("the definition exceeds {MAX_AGENT_BYTES} bytes")));
        }
        let agent = definition.into_agent(id.clone(), |_| None).map_err(AgentError::InvalidAgent)?;
        self.check_address(&agent)?;
        let others = self.shared.service.agents.list(principal).await?;
        if others.len() >= MAX_AGENTS && others.iter().all(|(other, _)| other != id) {
            return Err(AgentError::InvalidAgent(format!("the project has {MAX_AGENTS} agents, which is the maximum")));
        }
        let stored = others.iter().find(|(other, _)| other == id).map(|(_, stored)| stored);
        let (seen, origin) = (self.shared.service.agents.origin(principal, id).await?, address_origin(&agent));
        // An agent from before origins were stored has one only in its definition.
        let before = seen.clone().or_else(|| stored_origin(id, stored?));
        let moves = before.as_ref().is_some_and(|before| *before != origin);
        if moves && !principal.scopes.contains(Scope::Admin) && !free.contains(&origin) {
            return Err(AgentError::OtherOrigin(id.clone()));
        }
        // A repeated deployment changes nothing, and is not in the audit.
        if stored == Some(&text) && seen.as_ref() == Some(&origin) {
            return Ok((agent, Origin::Api));
        }
        let new =
            NewDefinition { definition: &text, origin: &origin, before: seen.as_deref(), exists: stored.is_some() };
        if self.shared.service.agents.put(principal, id, new).await? {
            Ok((agent, Origin::Api))
        } else {
            Err(AgentError::Overtaken(id.clone()))
        }
    }

    /// Deletes an agent, if it exists, so that a client may repeat a request whose answer was lost. Active runs
    /// continue.
    pub async fn delete(&self, principal: &Principal, id: &AgentId) -> Result<(), AgentError> {
        self.refuse_fixed(id)?;
        let all = self.shared.service.agents.list(principal).await?;
        let stored = all.iter().find(|(other, _)| other == id).and_then(|(_, stored)| stored_origin(id, stored));
        self.shared.service.agents.delete(principal, id, stored.as_deref()).await?;
        Ok(())
    }

    fn check_address(&self, agent: &Agent) -> Result<(), AgentError> {
        let url = match &agent.kind {
            AgentKind::AgUi { url, .. } => url,
            AgentKind::OpenAi { base_url, .. } => base_url,
            AgentKind::Demo => return Ok(()),
        };
        self.guarded.check_url(url).map_err(|refused| {
            AgentError::InvalidAgent(match refused {
                Refused::NotAnAddress(_) | Refused::NoTls(_) | Refused::Port(_) => refused.to_string(),
                Refused::Network { .. } => format!("{refused}: the operator can allow it, --allow-agent-networks"),
            })
        })
    }

    fn refuse_fixed(&self, id: &AgentId) -> Result<(), AgentError> {
        let fixed = self.shared.configured.contains_key(id) || id.as_str() == DEMO;
        if fixed { Err(AgentError::Configured(id.clone())) } else { Ok(()) }
    }
}

/// Scheme, host and port of an agent's address, as text; of the demo its name.
fn address_origin(agent: &Agent) -> String {
    match &agent.kind {
        AgentKind::AgUi { url: address, .. } | AgentKind::OpenAi { base_url: address, .. } => {
            // The definition was accepted, so its address is a URL.
            reqwest::Url::parse(address).map(|url| url.origin().ascii_serialization()).unwrap_or_default()
        }
        AgentKind::Demo => DEMO.to_owned(),
    }
}

/// Origin of a stored definition; `None` if it cannot be read.
fn stored_origin(id: &AgentId, definition: &str) -> Option<String> {
    read(id, definition).ok().map(|agent| address_origin(&agent))
}
