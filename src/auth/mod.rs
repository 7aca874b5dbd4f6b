//! Who is asking: API keys, or nobody in particular on a developer's machine.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::domain::{Credential, IdError, Principal, ProjectId, Scopes, UserId};

/// The project that exists without any set-up.
pub const DEFAULT_PROJECT: &str = "default";
/// The user in development mode when the request names none.
pub const DEVELOPMENT_USER: &str = "dev";

/// Why a request is not let in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// A key is needed and none was sent.
    #[error("an API key is needed: send it as `Authorization: Bearer <key>`")]
    MissingKey,
    /// The key is not valid.
    #[error("the API key is not valid")]
    WrongKey,
    /// The user named is not an id.
    #[error("the header Threadline-User is not a user id: {0}")]
    BadUser(#[from] IdError),
}

/// How requests are told apart.
#[derive(Debug, Clone)]
pub enum Auth {
    /// No keys are configured: everybody who reaches this server (on loopback only) is let in.
    Development,
    /// A key for the project `default`, kept as its SHA-256.
    Key([u8; 32]),
}

impl Auth {
    /// With a key if there is one.
    pub fn new(api_key: Option<&str>) -> Self {
        api_key.map_or(Self::Development, |key| Self::Key(Sha256::digest(key.as_bytes()).into()))
    }

    /// Whether everybody is let in.
    pub fn is_development(&self) -> bool {
        matches!(self, Self::Development)
    }

    /// The principal of a request with this key and this user, if any.
    pub fn authenticate(&self, key: Option<&str>, user: Option<&str>) -> Result<Principal, AuthError> {
        let project = ProjectId::new(DEFAULT_PROJECT)?;
        let user = user.map(UserId::new).transpose()?;
        match self {
            Self::Development => {
                let user = user.map_or_else(|| UserId::new(DEVELOPMENT_USER), Ok)?;
                Ok(Principal::user(project, user))
            }
            Self::Key(digest) => {
                let sent: [u8; 32] = Sha256::digest(key.ok_or(AuthError::MissingKey)?.as_bytes()).into();
                if bool::from(sent.ct_eq(digest)) {
                    Ok(Principal { project, user, scopes: Scopes::ALL, credential: Credential::Operator })
                } else {
                    Err(AuthError::WrongKey)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_keys_everybody_is_a_user_of_the_default_project() {
        let auth = Auth::new(None);
        let name = |user| auth.authenticate(None, user).map(|principal| principal.user.map(String::from));
        assert_eq!(name(None), Ok(Some("dev".into())));
        assert_eq!(name(Some("alice")), Ok(Some("alice".into())));
        assert!(matches!(name(Some("a\u{7}")), Err(AuthError::BadUser(_))));
    }

    #[test]
    fn with_a_key_only_that_key_is_let_in() {
        let auth = Auth::new(Some("secret"));
        assert_eq!(auth.authenticate(None, None), Err(AuthError::MissingKey));
        assert_eq!(auth.authenticate(Some("Secret"), None), Err(AuthError::WrongKey));
        let principal = auth.authenticate(Some("secret"), None).expect("let in");
        assert_eq!(principal.user, None);
    }
}
