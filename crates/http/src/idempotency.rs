//! `Idempotency-Key`: ids that the server would generate are derived from it, so that a repeated request names the same
//! thread or run. Nothing is stored for it.

use axum::{
    extract::FromRequestParts,
    http::{HeaderName, request::Parts},
};
use sha2::{Digest, Sha256};
use threadline_core::{IdError, Principal, RunId, ThreadId, UserId, hex, limits::MAX_IDEMPOTENCY_KEY};
use utoipa::{
    IntoParams,
    openapi::{
        ObjectBuilder,
        path::{Parameter, ParameterIn},
    },
};

use crate::{parameters::optional, problem::Problem};

const HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// Key by which a client marks a request and its repetitions; `None` if it sends none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey(pub Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let mut lines = parts.headers.get_all(&HEADER).iter();
        let Some(line) = lines.next() else { return Ok(Self(None)) };
        let key = line.to_str().ok().filter(|key| {
            (1..=MAX_IDEMPOTENCY_KEY).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
        });
        match key {
            Some(key) if lines.next().is_none() => Ok(Self(Some(key.to_owned()))),
            _ => {
                let text = String::from_utf8_lossy(line.as_bytes());
                let detail = format!(
                    "Idempotency-Key is {text:?}: send it once, with 1 to {MAX_IDEMPOTENCY_KEY} visible characters"
                );
                Err(Problem::invalid(detail))
            }
        }
    }
}

impl IdempotencyKey {
    /// Id of the run that a start with this key means.
    pub fn run(&self, principal: &Principal) -> Option<RunId> {
        self.derive("run", principal, None, RunId::new)
    }

    /// Id of the thread that a creation with this key means; `user` is the owner that the request names.
    pub fn thread(&self, principal: &Principal, user: Option<&UserId>) -> Option<ThreadId> {
        self.derive("thread", principal, user, ThreadId::new)
    }

    /// Id of the thread that a fork of this thread with this key means.
    pub fn fork(&self, principal: &Principal, thread: &ThreadId) -> Option<ThreadId> {
        let key = self.0.as_deref()?;
        derived("fork", principal, None, &[key, thread.as_str()], ThreadId::new)
    }

    fn derive<T>(
        &self,
        kind: &str,
        principal: &Principal,
        user: Option<&UserId>,
        make: impl Fn(String) -> Result<T, IdError>,
    ) -> Option<T> {
        derived(kind, principal, user, &[self.0.as_deref()?], make)
    }
}

/// Id of the fork of a thread in which a run of this id begins: a repeated request finds it again.
pub fn fork_of(principal: &Principal, thread: &ThreadId, run: &RunId) -> Option<ThreadId> {
    derived("fork of a run", principal, None, &[thread.as_str(), run.as_str()], ThreadId::new)
}

/// Id that is made of what names a request: the project, the user, and `parts`.
fn derived<T>(
    kind: &str,
    principal: &Principal,
    user: Option<&UserId>,
    parts: &[&str],
    make: impl Fn(String) -> Result<T, IdError>,
) -> Option<T> {
    let user = principal.user.as_ref().or(user).map_or("", |user| user.as_str());
    let mut digest = Sha256::new();
    for part in [kind, principal.project.as_str(), user].iter().chain(parts) {
        // Length before each part: two lists of parts never have the same bytes.
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    make(hex(&digest.finalize()[..16])).ok()
}

impl IntoParams for IdempotencyKey {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let text = ObjectBuilder::new().max_length(Some(MAX_IDEMPOTENCY_KEY));
        let description = "Names a request without an ID, so that it can be repeated: the ID is derived from this key.";
        vec![optional("Idempotency-Key", ParameterIn::Header, description, text)]
    }
}
