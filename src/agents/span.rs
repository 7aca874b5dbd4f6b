//! Context of log lines about an agent: agent and address, thread and run, and project.

use reqwest::Url;
use threadline_core::{
    ProjectId, RunId, ThreadId,
    agent::{Agent, AgentKind},
};
use tracing::{Span, error_span};

use super::openai;

/// Span around a call of an agent, at level error, so that every line logged within it has it.
pub fn agent_span(agent: &Agent, project: &ProjectId, thread: &ThreadId, run: &RunId) -> Span {
    let (agent_id, url) = (&agent.id, address(agent));
    error_span!("agent_run", agent = %agent_id, url, %thread, %run, %project)
}

/// URL of the agent, without user, password, query and fragment, which may hold a key; `None` for the built-in agent.
fn address(agent: &Agent) -> Option<String> {
    let url = match &agent.kind {
        AgentKind::AgUi { url, .. } => Url::parse(url).ok(),
        AgentKind::OpenAi { base_url, .. } => openai::address(base_url),
        AgentKind::Demo => return None,
    };
    let Some(mut url) = url else { return Some("(not an address)".to_owned()) };
    // A URL that cannot have a user has none to remove.
    let _ = (url.set_username(""), url.set_password(None));
    url.set_query(None);
    url.set_fragment(None);
    Some(url.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::Definition;
    use threadline_core::AgentId;

    #[test]
    fn an_address_is_shown_without_what_may_be_secret() {
        let shown = |url: &str| {
            let agent = Definition::ag_ui("http://h/").into_agent(AgentId::new("a").expect("id"), |_| None);
            let mut agent = agent.expect("an agent");
            agent.kind = AgentKind::AgUi { url: url.to_owned(), headers: Vec::new() };
            address(&agent)
        };
        assert_eq!(shown("https://u:s3cret@h:8/run?key=s3cret#s3cret").as_deref(), Some("https://h:8/run"));
        assert_eq!(shown("s3cret").as_deref(), Some("(not an address)"));
    }
}
