//! Authors of runs: who wrote a run, and who asked for it.

use std::{fmt, sync::Arc};

use super::{AgentId, UserId};

/// Author of a run, or the caller that asked for it: `agent:<id>`, `key:<id>`, `user:<id>`, `operator` or
/// `development`. Written by the server in the commit that starts the run; no request can name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Author(Arc<str>);

impl Author {
    /// Author of a run that the server drives.
    pub fn agent(id: &AgentId) -> Self {
        Self(format!("agent:{id}").into())
    }

    /// Author of what a user writes.
    pub fn user(id: &UserId) -> Self {
        Self(format!("user:{id}").into())
    }

    /// Author that a record names.
    pub fn stored(text: &str) -> Self {
        Self(text.into())
    }

    /// Id of the agent, if the server drove the run for one.
    pub fn agent_id(&self) -> Option<&str> {
        self.0.strip_prefix("agent:")
    }

    /// True if an untrusted client wrote as its user.
    pub fn is_user(&self) -> bool {
        self.0.starts_with("user:")
    }

    /// Text of the author.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
