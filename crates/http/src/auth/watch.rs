//! Watch over a credential: sockets and streams must not outlive the key or token they were opened with.

use std::time::Duration;

use futures_util::future::BoxFuture;
use threadline_core::{Credential, Principal};
use tokio::time;

use super::Auth;

/// Completes, once, when a credential ceases to be valid: a token or key at its expiry, and within
/// [`CREDENTIAL_CHECK`](threadline_core::limits::CREDENTIAL_CHECK) plus the time for which a node caches keys after the key was
/// revoked, or after a sign-out that concerns it.
pub struct CredentialWatch(Option<BoxFuture<'static, ()>>);

impl Auth {
    /// Watches the principal's credential until it ceases to be valid.
    pub fn watch(&self, principal: &Principal) -> CredentialWatch {
        CredentialWatch::new(self.clone(), principal.clone())
    }
}

impl CredentialWatch {
    /// Watch over a credential that expires after a time, or never.
    #[cfg(test)]
    pub(crate) fn after(expires: Option<Duration>) -> Self {
        Self(expires.map(|expires| Box::pin(time::sleep(expires)) as BoxFuture<'static, ()>))
    }

    fn new(auth: Auth, principal: Principal) -> Self {
        match principal.credential {
            // Both stay valid as long as the server runs; what a ticket has opened ends with a sign-out.
            Credential::Development => Self(None),
            Credential::Operator if principal.ticket.is_none() => Self(None),
            Credential::Operator | Credential::Key { .. } | Credential::Lent { .. } | Credential::Token { .. } => {
                Self(Some(Box::pin(until_expired(auth, principal))))
            }
        }
    }

    /// Completes when the credential is no longer valid. May be dropped and called again.
    pub async fn expired(&mut self) {
        match &mut self.0 {
            Some(over) => over.as_mut().await,
            None => std::future::pending().await,
        }
    }
}

async fn until_expired(auth: Auth, principal: Principal) {
    loop {
        let left = principal.expires_at().map(|until| until.0.saturating_sub(auth.shared.clock.now().0).max(0));
        let left = left.map_or(auth.check, |left| Duration::from_millis(left.unsigned_abs()));
        time::sleep(left.min(auth.check)).await;
        match auth.holds(&principal).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => tracing::warn!(%error, "cannot check a key; retrying"),
        }
    }
}
