//! On whose behalf the holder of an API key asks: this door's requests name the user in their query or body.

use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::{
    api::{
        ApiState,
        problem::{Problem, ProblemType},
    },
    domain::{Credential, Principal, Thread, ThreadId, UserId},
    service::ServiceError,
};

/// The user for whom a request is made.
#[derive(Debug, Default, Deserialize, IntoParams, ToSchema)]
#[serde(rename_all = "camelCase", default)]
#[into_params(parameter_in = Query)]
pub struct ForUser {
    /// For whom; absent in clients before 1.69, whose key then speaks for the whole project.
    #[schema(value_type = Option<String>)]
    #[param(value_type = Option<String>)]
    pub user_id: Option<UserId>,
}

/// Who holds the key: the whole project, unless an end user's token is shown instead of one, or the key is used for one user.
pub fn holder(principal: Principal) -> Principal {
    match principal.credential {
        // In development mode everybody is somebody; here the request says who.
        Credential::Development => Principal { user: None, ..principal },
        Credential::Operator | Credential::Key { .. } | Credential::Token { .. } | Credential::Lent { .. } => principal,
    }
}

/// The user themselves.
pub fn user(principal: Principal, named: Option<UserId>) -> Result<Principal, Problem> {
    let holder = holder(principal);
    match (&holder.user, named) {
        (Some(own), Some(named)) if *own != named => {
            Err(Problem::new(ProblemType::ForeignThread, "userId names another user than the one who asks"))
        }
        (Some(_), _) => Ok(holder),
        (None, Some(named)) => Ok(Principal { user: Some(named), ..holder }),
        (None, None) => Err(Problem::invalid("say for which user: userId")),
    }
}

/// The thread, and who asks for it: its user where one is named. One who holds the project's key is told of a thread that
/// it is another user's.
pub async fn thread(
    state: &ApiState,
    principal: Principal,
    named: Option<UserId>,
    id: &ThreadId,
) -> Result<(Thread, Principal), Problem> {
    let holder = holder(principal);
    let thread = state.service.threads.get(&holder, id).await?;
    match named {
        Some(named) if named != thread.user => {
            Err(Problem::new(ProblemType::ForeignThread, "the thread belongs to another user"))
        }
        Some(named) => Ok((thread, Principal { user: Some(named), ..holder })),
        None => Ok((thread, holder)),
    }
}

/// The same; `None` if there is no such thread.
pub async fn existing(
    state: &ApiState,
    principal: Principal,
    named: Option<UserId>,
    id: &ThreadId,
) -> Result<Option<(Thread, Principal)>, Problem> {
    match state.service.threads.get(&holder(principal.clone()), id).await {
        Err(ServiceError::ThreadNotFound) => Ok(None),
        Err(error) => Err(error.into()),
        Ok(_) => thread(state, principal, named, id).await.map(Some),
    }
}
