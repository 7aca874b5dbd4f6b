//! Errors that refuse authentication or authorization.

use threadline_core::{IdError, Scopes};
use threadline_store::StoreError;

use super::secret::NoRandomness;

/// Reason why a request is not authenticated or not allowed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AuthError {
    /// A key is required and the request carries none.
    #[error("the request has no API key or token")]
    Missing,
    /// No valid key matches: the key is unknown, revoked or expired.
    #[error("the API key is not valid")]
    WrongKey,
    /// The key was made in development mode, and this server is not in development mode.
    #[error(
        "the API key was created in development mode, where every caller can create keys: create it on this server"
    )]
    BornInDevelopment,
    /// Token that fails verification, with the reason.
    #[error("the token is not valid: {0}")]
    WrongToken(&'static str),
    /// The token lives longer than its project allows, in seconds.
    #[error(
        "the token is not valid: it lives longer than {0} seconds, which is the most that its project allows (maxTokenSeconds)"
    )]
    LongToken(u64),
    /// The token's claim `scope` is empty (`None`), or holds this word, which is no scope of a user.
    #[error("the token is not valid: its scope {}, but a user's token can have only `read`, `chat`, `approve` and `produce`", .0.as_ref().map_or_else(|| "is empty".to_owned(), |word| format!("names `{word}`")))]
    WrongScope(Option<String>),
    /// Ticket that is unknown, expired or used before.
    #[error("the ticket is not valid: it has expired, was used before, or was never issued")]
    WrongTicket,
    /// The credential was valid at the start of the request and is no longer.
    #[error("the key or token expired or was revoked during the request")]
    Over,
    /// The header Threadline-User does not hold a valid id.
    #[error("the header Threadline-User is not a user ID: {0}")]
    BadUser(IdError),
    /// The header Threadline-Project does not hold a valid id.
    #[error("the header Threadline-Project is not a project ID: {0}")]
    BadProject(IdError),
    /// The header Threadline-User names another user than the token, which is for one user.
    #[error("the header Threadline-User names another user than the token: omit it")]
    OtherUser,
    /// The header Threadline-Project names another project than the key or token, which is for one project.
    #[error("the header Threadline-Project names another project than the key or token: omit it")]
    OtherProject,
    /// The project already has a key with this id.
    #[error("the project has a key with this ID")]
    KeyExists,
    /// The project has no key with this id.
    #[error("the project has no key with this ID")]
    NoKey,
    /// The operator named a project that does not exist.
    #[error("no project has this ID")]
    NoProject,
    /// The principal lacks a scope. One of these is sufficient.
    #[error("the key or token does not have the scope {}", .0.iter().map(|scope| format!("`{scope}`")).collect::<Vec<_>>().join(" or "))]
    Lacks(Scopes),
    /// The request acts for a user, and the route is for the project.
    #[error(
        "the request acts for a user, and only the project may send it: use an API key without the header Threadline-User"
    )]
    ForProject,
    /// The request comes with a user's token or lent access, and the route is for API keys.
    #[error("the route is for API keys: what agents keep is not for users")]
    ForBackend,
    /// Only the operator's key allows the request.
    #[error("the operator's key is required")]
    NotOperator,
    /// The issuer's keys are not available and none are cached.
    #[error("the server cannot fetch the public keys of the token's issuer")]
    NoIssuer,
    /// The request is invalid, with the reason.
    #[error("{0}")]
    Invalid(String),
    /// Failure of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The machine gives no random numbers for a new secret.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
}

impl AuthError {
    /// Stable name of a refusal, for the audit; `None` for an error that is no refusal of a caller.
    pub(super) fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Missing => Some("no-credential"),
            Self::WrongKey => Some("wrong-key"),
            Self::BornInDevelopment => Some("born-in-development"),
            Self::WrongToken(_) | Self::LongToken(_) | Self::WrongScope(_) => Some("wrong-token"),
            Self::WrongTicket => Some("wrong-ticket"),
            Self::Over => Some("credential-over"),
            Self::Lacks(_) => Some("scope-missing"),
            Self::OtherUser | Self::OtherProject => Some("another-name"),
            Self::ForProject | Self::ForBackend | Self::NotOperator => Some("not-allowed"),
            Self::BadUser(_)
            | Self::BadProject(_)
            | Self::KeyExists
            | Self::NoKey
            | Self::NoProject
            | Self::NoIssuer
            | Self::Invalid(_)
            | Self::Store(_)
            | Self::Randomness(_) => None,
        }
    }
}

/// Refuses scopes that exceed those available, and names the first that does.
pub(crate) fn within(asked: Scopes, held: Scopes) -> Result<(), AuthError> {
    asked.first_beyond(held).map_or(Ok(()), |scope| Err(AuthError::Lacks(Scopes::of(&[scope]))))
}
