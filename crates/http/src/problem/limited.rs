//! Problems of requests beyond a limit.

use serde_json::json;
use threadline_core::Limit;
use threadline_engine::limits::Limited;

use super::{Problem, ProblemType};

impl From<Limited> for Problem {
    fn from(limited: Limited) -> Self {
        let kind = match limited.limit {
            Limit::Subscriptions => ProblemType::TooManySubscriptions,
            Limit::BodyMemory | Limit::Memory | Limit::WorkWaitSeconds => ProblemType::Busy,
            Limit::UserStoredBytes
            | Limit::UserThreads
            | Limit::ProjectStoredBytes
            | Limit::ProjectThreads
            | Limit::StorageFree => ProblemType::StorageFull,
            Limit::UserWork
            | Limit::ProjectWork
            | Limit::UserRequests
            | Limit::UserRequestBurst
            | Limit::UserSockets
            | Limit::UserRuns
            | Limit::UserAppendBytes
            | Limit::UserAppendByteBurst
            | Limit::UserWorkRate
            | Limit::UserWorkBurst
            | Limit::ProjectRequests
            | Limit::ProjectRequestBurst
            | Limit::ProjectSockets
            | Limit::ProjectRuns
            | Limit::ProjectAppendBytes
            | Limit::ProjectAppendByteBurst
            | Limit::ProjectWorkRate
            | Limit::ProjectWorkBurst => ProblemType::RateLimited,
        };
        let facts = json!({ "limit": limited.limit.as_str(), "value": limited.value });
        let problem = Self::new(kind, limited.to_string()).with(facts);
        // Rounded up, so that a client that retries at that moment is admitted.
        let wait = u64::try_from(limited.wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        if kind.is_retryable() { problem.retry_after(wait) } else { problem }
    }
}
