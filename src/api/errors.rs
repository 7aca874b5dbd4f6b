//! Problems of agents. Those of the engine and of authentication are in `threadline_http::problem`.

use serde_json::json;
use threadline_http::problem::{Problem, ProblemType};

use crate::agents::{AgentError, interrupts::InterruptError};

impl From<AgentError> for Problem {
    fn from(error: AgentError) -> Self {
        use ProblemType as Type;
        let detail = error.to_string();
        match error {
            AgentError::NotFound(_) => Self::new(Type::AgentNotFound, detail),
            AgentError::InvalidInput(_) => Self::invalid(detail),
            AgentError::TooLarge | AgentError::ContextTooLarge(_) => Self::new(Type::TooLarge, detail),
            AgentError::EarlierTooLarge => Self::new(Type::ConversationTooLarge, detail),
            AgentError::Interrupts(breach) => {
                let kind = match breach {
                    InterruptError::Open(_) => Type::InterruptsOpen,
                    InterruptError::Settled(_) | InterruptError::Unknown(_) => Type::InterruptSettled,
                    InterruptError::Expired(_) => Type::InterruptExpired,
                };
                Self::new(kind, detail).with(json!({ "interruptIds": breach.interrupts() }))
            }
            AgentError::ClaimLost(call) => {
                Self::new(Type::ClaimLost, detail).with(json!({ "toolCallId": call.as_str() }))
            }
            AgentError::OtherOrigin(_) => Self::new(Type::Forbidden, detail).with(json!({ "scope": "admin" })),
            AgentError::Overtaken(_) => Self::new(Type::Busy, detail).retry_after(1_000),
            AgentError::BackendApproves(_) => Self::new(Type::Forbidden, detail),
            AgentError::RunTaken(_) | AgentError::RunUsed(_) => Self::new(Type::RunExists, detail),
            AgentError::InvalidAgent(_) => Self::new(Type::InvalidAgent, detail),
            AgentError::Configured(_) => Self::new(Type::AgentConfigured, detail),
            AgentError::Busy => Self::new(Type::RateLimited, detail).retry_after(1_000),
            AgentError::Service(error) => error.into(),
        }
    }
}
