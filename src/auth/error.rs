//! Why a request is not let in.

use super::secret::NoRandomness;
use crate::{
    domain::{IdError, Scope},
    store::StoreError,
};

/// Why a request is not let in.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AuthError {
    /// A key is needed and none was sent.
    #[error("an API key or a user's token is needed: send it as `Authorization: Bearer <key>`")]
    Missing,
    /// The key is not valid (any more).
    #[error("the API key is not valid")]
    WrongKey,
    /// The token is not valid.
    #[error("the token is not valid: {0}")]
    WrongToken(&'static str),
    /// The token's claim `scope` is empty (`None`), or holds this word, which is no scope of a user.
    #[error("the token is not valid: its scope {}, but a user's token may have only `read` and `write`; omit the claim to grant both", .0.as_ref().map_or_else(|| "is empty".to_owned(), |word| format!("names `{word}`")))]
    WrongScope(Option<String>),
    /// The ticket is not valid (any more).
    #[error("the ticket is not valid: it is too old, was used before, or never was one")]
    WrongTicket,
    /// What was valid when the request came is not any more.
    #[error("the key or token ceased to be valid while the request was under way")]
    Over,
    /// The user named is not an id.
    #[error("the header Threadline-User is not a user id: {0}")]
    BadUser(IdError),
    /// The project named is not an id.
    #[error("the header Threadline-Project is not a project id: {0}")]
    BadProject(IdError),
    /// A token is for one user.
    #[error("the header Threadline-User names another user than the token's; leave it out")]
    OtherUser,
    /// A key or token is for one project.
    #[error("the header Threadline-Project names a project that this key or token is not for; leave it out")]
    OtherProject,
    /// The id of a key is taken.
    #[error("the project has a key of this id")]
    KeyExists,
    /// There is no such key.
    #[error("the project has no key of this id")]
    NoKey,
    /// The operator named a project that there is not.
    #[error("there is no project of this id")]
    NoProject,
    /// The principal lacks a scope.
    #[error("this needs the scope `{0}`, which the key or token does not have")]
    Lacks(Scope),
    /// Only the operator may.
    #[error("this needs the operator's key")]
    NotOperator,
    /// The keys of a token's issuer cannot be had.
    #[error("the keys of the token's issuer cannot be had at present")]
    NoIssuer,
    /// What was asked for makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Nothing secret can be made.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
}
