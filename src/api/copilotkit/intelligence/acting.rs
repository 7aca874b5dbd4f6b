//! User for whom the holder of an API key makes a request: requests of this API name the user in their query or body.

use serde::Deserialize;
use threadline_core::{Credential, Principal, Thread, ThreadId, UserId};
use threadline_engine::{LookupError, ServiceError};
use threadline_http::problem::{Problem, ProblemType};
use utoipa::{IntoParams, ToSchema};

use crate::api::ApiState;

/// The user for whom a request is made.
#[derive(Debug, Default, Deserialize, IntoParams, ToSchema)]
#[serde(rename_all = "camelCase", default)]
#[into_params(parameter_in = Query)]
pub struct ForUser {
    /// The user. Absent in clients before 1.69, whose key then acts for the whole project.
    #[schema(value_type = Option<String>)]
    #[param(value_type = Option<String>)]
    pub user_id: Option<UserId>,
}

/// Principal that holds the credential. An API key stands for the complete project, unless the request has the token of
/// an end user instead, or the key is restricted to one user.
pub fn holder(principal: Principal) -> Principal {
    match principal.credential {
        // In development mode every request has a default user; in this API the request names the user.
        Credential::Development => Principal { user: None, ..principal },
        Credential::Operator | Credential::Key { .. } | Credential::Token { .. } | Credential::Lent { .. } => principal,
    }
}

/// Principal of the user that the request names or the credential has. Fails if both name different users, or neither
/// names one.
pub fn user(principal: Principal, named: Option<UserId>) -> Result<Principal, Problem> {
    let holder = holder(principal);
    match (&holder.user, named) {
        (Some(own), Some(named)) if *own != named => {
            Err(Problem::new(ProblemType::ForeignThread, "userId names another user than the credential"))
        }
        (Some(_), _) => Ok(holder),
        (None, Some(named)) => Ok(holder.for_user(named)),
        (None, None) => Err(Problem::invalid("userId is missing")),
    }
}

/// Reads a thread, and makes the principal of the request: that of the named user, or of the credential. The holder of
/// the project's key receives an error that says so if another user's thread has claimed the id.
pub async fn thread(
    state: &ApiState,
    principal: Principal,
    named: Option<UserId>,
    id: &ThreadId,
) -> Result<(Thread, Principal), Problem> {
    existing(state, principal, named, id).await?.ok_or_else(|| ServiceError::ThreadNotFound.into())
}

/// Reads a thread as [`thread`] does; `None` if the thread does not exist.
pub async fn existing(
    state: &ApiState,
    principal: Principal,
    named: Option<UserId>,
    id: &ThreadId,
) -> Result<Option<(Thread, Principal)>, Problem> {
    let foreign = || Problem::new(ProblemType::ForeignThread, "the thread belongs to another user");
    let threads = &state.service.threads;
    let holder = holder(principal);
    let user = holder.user.clone().or_else(|| named.clone());
    let acting = Principal { user, ..holder.clone() };
    match threads.get(&acting, id).await {
        Ok(thread) if named.is_some_and(|named| named != thread.user) => Err(foreign()),
        Ok(thread) => Ok(Some((thread, acting))),
        Err(LookupError::ThreadNotFound) if acting == holder || holder.is_untrusted() => Ok(None),
        Err(LookupError::ThreadNotFound) => match threads.get(&holder, id).await {
            Ok(thread) if thread.claimed => Err(foreign()),
            Ok(_) | Err(LookupError::ThreadNotFound | LookupError::ThreadAmbiguous) => Ok(None),
            Err(error) => Err(error.into()),
        },
        Err(error) => Err(error.into()),
    }
}
