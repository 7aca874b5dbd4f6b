//! Use cases of threads, conversations, users, agents, agent data and annotations.

pub(crate) mod agent_data;
pub(crate) mod agents;
pub(crate) mod annotations;
pub(crate) mod attempts;
mod complete_runs;
pub(crate) mod conversations;
mod deleting;
pub(crate) mod forks;
pub(crate) mod inbox;
pub(crate) mod streams;
mod thread_fields;
pub(crate) mod threads;
pub(crate) mod tool_claims;
pub(crate) mod trash;
pub(crate) mod users;
pub(crate) mod validations;
