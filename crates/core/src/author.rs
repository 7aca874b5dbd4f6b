//! Authors of runs: who wrote a run, and who asked for it.

use std::{fmt, sync::Arc};

use super::{AgentId, Credential, Principal};

/// Author of a run, or the caller that asked for it: `agent:<id>`, `key:<id>`, `user:<id>`, `operator`, `development` or
/// `import`. Written by the server in the commit that starts the run; no request can name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Author(Arc<str>);

impl Author {
    /// Author of a run that the server drives.
    pub fn agent(id: &AgentId) -> Self {
        Self(format!("agent:{id}").into())
    }

    /// Author of what this principal writes: an untrusted client writes as its user, everybody else as the credential.
    pub fn of(principal: &Principal) -> Self {
        match (&principal.credential, &principal.user) {
            (Credential::Token { .. } | Credential::Lent { .. }, Some(user)) => Self(format!("user:{user}").into()),
            (credential, _) => Self(credential.label().into()),
        }
    }

    /// Author that a record names.
    pub fn stored(text: &str) -> Self {
        Self(text.into())
    }

    /// Text of the author.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyId, ProjectId, Timestamp, UserId, identity::Digest};

    #[test]
    fn an_untrusted_client_writes_as_its_user_and_a_backend_as_its_key() {
        let user = Principal::user(ProjectId::new("p").expect("id"), UserId::new("ann").expect("id"));
        let with = |credential| Author::of(&Principal { credential, ..user.clone() }).to_string();
        let (id, digest) = (KeyId::new("k").expect("id"), Digest([0; 32]));
        assert_eq!(with(Credential::Token { expires_at: Timestamp(1), signer: None }), "user:ann");
        assert_eq!(with(Credential::Lent { key: None, expires_at: None }), "user:ann");
        assert_eq!(with(Credential::Key { id, digest, expires_at: None }), "key:k");
        assert_eq!(
            (with(Credential::Operator), with(Credential::Development)),
            ("operator".into(), "development".into())
        );
        assert_eq!(Author::agent(&AgentId::new("a").expect("id")).as_str(), "agent:a");
    }
}
