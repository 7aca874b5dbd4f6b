//! Problems of refused authentication and authorization.

use serde_json::json;
use threadline_engine::ServiceError;

use super::AuthError;
use crate::problem::{Problem, ProblemType};

impl From<AuthError> for Problem {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Missing
            | AuthError::WrongKey
            | AuthError::BornInDevelopment
            | AuthError::WrongToken(_)
            | AuthError::LongToken(_)
            | AuthError::WrongScope(_)
            | AuthError::WrongTicket
            | AuthError::Over => Self::new(ProblemType::Unauthorized, error.to_string()),
            AuthError::Lacks(scopes) => {
                Self::new(ProblemType::Forbidden, error.to_string()).with(json!({ "scope": scopes.to_string() }))
            }
            AuthError::OtherUser
            | AuthError::OtherProject
            | AuthError::ForProject
            | AuthError::ForBackend
            | AuthError::NotOperator => Self::new(ProblemType::Forbidden, error.to_string()),
            AuthError::NoProject => Self::new(ProblemType::ProjectNotFound, error.to_string()),
            AuthError::NoKey => Self::new(ProblemType::KeyNotFound, error.to_string()),
            AuthError::KeyExists => Self::new(ProblemType::KeyExists, error.to_string()),
            AuthError::BadUser(_) | AuthError::BadProject(_) | AuthError::Invalid(_) => {
                Self::invalid(error.to_string())
            }
            AuthError::NoIssuer => Self::new(ProblemType::IssuerUnavailable, error.to_string()).retry_after(1_000),
            AuthError::Store(error) => ServiceError::Store(error).into(),
            AuthError::Randomness(_) => {
                tracing::error!(%error, "cannot generate a secret");
                Self::new(ProblemType::Internal, "see the server's log")
            }
        }
    }
}
