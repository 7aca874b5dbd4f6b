//! Watch over a credential: sockets and streams must not outlive the key or token they were opened with.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, future::BoxFuture, stream};
use threadline_core::{Credential, Principal};
use tokio::time;

use super::{Auth, AuthError, standing::NEVER_CHECKED};
use crate::{body::BrokenOff, problem::Problem};

/// Completes, once, when a credential ceases to be valid: a token or key at its expiry, and within
/// [`CREDENTIAL_CHECK`](threadline_core::limits::CREDENTIAL_CHECK) plus the time for which a node caches keys after the key was
/// revoked, or after a sign-out that concerns it.
///
/// Frames and chunks that arrive until then are judged on their arrival: see [`still_holds`](Self::still_holds).
pub struct CredentialWatch {
    over: Option<BoxFuture<'static, ()>>,
    check: Option<CredentialCheck>,
}

/// Checks of one credential, each as cheap as a comparison of numbers as long as nothing was revoked.
pub struct CredentialCheck {
    of: Arc<(Auth, Principal)>,
    /// Number of changes at which the credential was valid.
    as_of: u64,
}

impl Auth {
    /// Watches the principal's credential until it ceases to be valid.
    pub fn watch(&self, principal: &Principal) -> CredentialWatch {
        CredentialWatch::new(self.clone(), principal.clone())
    }

    /// Checks of the principal's credential, for a body that is processed while it arrives.
    pub fn checks(&self, principal: &Principal) -> CredentialCheck {
        CredentialCheck { of: Arc::new((self.clone(), principal.clone())), as_of: NEVER_CHECKED }
    }
}

impl CredentialCheck {
    /// True if the credential is valid now, as far as this node knows. While the store is unavailable, what was known last counts.
    pub async fn holds(&mut self) -> bool {
        let (auth, principal) = &*self.of;
        let changes = auth.changes();
        match auth.holds_since(principal, self.as_of).await {
            Ok(true) => {
                self.as_of = changes;
                true
            }
            Ok(false) => false,
            Err(error) => {
                tracing::warn!(%error, "cannot check a key; it counts as valid until the next check");
                true
            }
        }
    }

    /// Chunks of a body up to the end of the credential. Then they end with an error, and `refused` holds the reason.
    pub fn guard<'b>(
        self,
        chunks: impl Stream<Item = Result<Bytes, BrokenOff>> + Send + 'b,
        refused: &'b OnceLock<Problem>,
    ) -> impl Stream<Item = Result<Bytes, BrokenOff>> + Send + 'b {
        stream::unfold((Box::pin(chunks), self), async move |(mut chunks, mut check)| {
            let chunk = chunks.next().await?;
            if check.holds().await {
                return Some((chunk, (chunks, check)));
            }
            let _ = refused.set(AuthError::Over.into());
            Some((Err(BrokenOff), (chunks, check)))
        })
    }
}

impl CredentialWatch {
    /// Watch over a credential that expires after a time, or never.
    #[cfg(test)]
    pub(crate) fn after(expires: Option<Duration>) -> Self {
        let over = expires.map(|expires| Box::pin(time::sleep(expires)) as BoxFuture<'static, ()>);
        Self { over, check: None }
    }

    fn new(auth: Auth, principal: Principal) -> Self {
        match principal.credential {
            // Both stay valid as long as the server runs; what a ticket has opened ends with a sign-out.
            Credential::Development => Self { over: None, check: None },
            Credential::Operator if principal.ticket.is_none() => Self { over: None, check: None },
            Credential::Operator | Credential::Key { .. } | Credential::Lent { .. } | Credential::Token { .. } => {
                let check = auth.checks(&principal);
                Self { over: Some(Box::pin(until_expired(check.of.clone()))), check: Some(check) }
            }
        }
    }

    /// True if what the client sends now may be processed: a revocation that this node knows of counts at once, although the socket or
    /// stream is closed later.
    pub async fn still_holds(&mut self) -> bool {
        match &mut self.check {
            Some(check) => check.holds().await,
            None => true,
        }
    }

    /// Completes when the credential is no longer valid. May be dropped and called again.
    pub async fn expired(&mut self) {
        match &mut self.over {
            Some(over) => over.as_mut().await,
            None => std::future::pending().await,
        }
    }
}

async fn until_expired(of: Arc<(Auth, Principal)>) {
    let (auth, principal) = &*of;
    loop {
        let left = principal.expires_at().map(|until| until.0.saturating_sub(auth.shared.clock.now().0).max(0));
        let left = left.map_or(auth.check, |left| Duration::from_millis(left.unsigned_abs()));
        time::sleep(left.min(auth.check)).await;
        match auth.holds(principal).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => tracing::warn!(%error, "cannot check a key; retrying"),
        }
    }
}
