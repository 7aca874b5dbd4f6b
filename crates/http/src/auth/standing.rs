//! Validity of what was shown: it ends with the key behind it, with the secret that signed it, and with a sign-out.

use threadline_core::{Credential, Digest, KeyId, Principal, ProjectId, Timestamp, TokenMaker, hex};
use threadline_engine::credentials::Holder;

use super::{
    Auth, AuthError, Shared,
    secret::digest,
    tokens::{self, Maker},
};

/// Number of changes at which nothing was checked: the next check is a whole one.
pub(crate) const NEVER_CHECKED: u64 = u64::MAX;

impl Auth {
    /// Time of issue for what a principal is given now.
    pub(super) fn issue_time(&self, principal: &Principal) -> Result<Timestamp, AuthError> {
        Ok(self.shared.cutoffs.issue_time(Holder::of(principal))?)
    }

    /// Mark of an operator's key in the tokens that are made with it. Trying keys against the mark
    /// of a token is futile, since the mark also depends on a secret of the store.
    pub(super) fn operator_mark(&self) -> Result<Option<String>, AuthError> {
        let Some(operator) = self.shared.operator else { return Ok(None) };
        let mark = self.shared.store.digest_key("operator")?.digest(&[&hex(&operator.0)]);
        Ok(Some(hex(&mark[..8])))
    }

    /// Maker that a token names if this principal requests it; `None` in development mode, whose tokens name that.
    pub(super) fn maker(&self, principal: &Principal) -> Result<Option<Maker>, AuthError> {
        match (principal.key(), &principal.credential) {
            (Some(key), _) => Ok(Some(Maker::Key(key.clone()))),
            (
                None,
                Credential::Operator
                | Credential::Lent { .. }
                | Credential::Token { by: Some(TokenMaker::Operator), .. },
            ) => Ok(self.operator_mark()?.map(Maker::Operator)),
            (None, Credential::Development | Credential::Key { .. } | Credential::Token { .. }) => Ok(None),
        }
    }

    /// The principal of a verified token, if what it depends on still holds: the key that made it, and no sign-out.
    pub(super) async fn bearer(
        &self,
        project: ProjectId,
        verified: tokens::Verified,
        signer: Option<Digest>,
    ) -> Result<Principal, AuthError> {
        let tokens::Verified { user, scopes, expires_at, issued_at, by, .. } = verified;
        let by = match by {
            // In development mode there is no key to compare, and no caller is refused anything.
            Some(Maker::Operator(mark)) if self.operator_mark()?.is_some_and(|own| own != mark) => {
                return Err(AuthError::WrongToken(tokens::MAKER_OVER));
            }
            Some(Maker::Key(key)) if !self.is_valid(&project, &key).await? => {
                return Err(AuthError::WrongToken(tokens::MAKER_OVER));
            }
            Some(Maker::Key(key)) => Some(TokenMaker::Key(key)),
            Some(Maker::Operator(_)) => Some(TokenMaker::Operator),
            None => None,
        };
        let credential = Credential::Token { expires_at, signer, by, issued_at };
        let principal = Principal { project, user: Some(user), scopes, credential, ticket: None };
        if self.is_signed_out(&principal).await? {
            return Err(AuthError::WrongToken(tokens::SIGNED_OUT));
        }
        Ok(principal)
    }

    /// True if the project has a key of this id that is valid now, and of which this server accepts what it has made.
    pub(super) async fn is_valid(&self, project: &ProjectId, key: &KeyId) -> Result<bool, AuthError> {
        let (found, now) = (self.shared.keys.by_id(project, key).await?, self.shared.clock.now());
        Ok(found.is_some_and(|key| key.is_valid(now) && self.accepts(key.born)))
    }

    /// True if a sign-out has ended what the principal has shown. A key itself is never signed out.
    pub(super) async fn is_signed_out(&self, principal: &Principal) -> Result<bool, AuthError> {
        let issued_at = match &principal.credential {
            Credential::Token { issued_at, .. } => *issued_at,
            Credential::Lent { since, .. } => Some(*since),
            Credential::Development => return Ok(false),
            Credential::Operator | Credential::Key { .. } if principal.ticket.is_none() => return Ok(false),
            Credential::Operator | Credential::Key { .. } => principal.ticket,
        };
        self.shared.cutoffs.ready().await?;
        Ok(self.shared.cutoffs.refuses(Holder::of(principal), issued_at)?)
    }

    /// Number of changes that may have ended a credential, as far as this node knows: of keys, projects and sign-outs. As long as
    /// the number is the same, no valid credential has been revoked. Expiry is not counted.
    pub(crate) fn changes(&self) -> u64 {
        let Shared { keys, projects, cutoffs, .. } = &*self.shared;
        keys.changes() + projects.reads() + cutoffs.changes()
    }

    /// True if a principal's credential, which was valid at this number of [`changes`](Self::changes), still is.
    pub(crate) async fn holds_since(&self, principal: &Principal, as_of: u64) -> Result<bool, AuthError> {
        let expired = principal.expires_at().is_some_and(|until| until <= self.shared.clock.now());
        Ok(!expired && (self.changes() == as_of || self.holds(principal).await?))
    }

    /// True if the principal's credential is still valid.
    pub async fn holds(&self, principal: &Principal) -> Result<bool, AuthError> {
        let fresh = principal.expires_at().is_none_or(|until| self.shared.clock.now() < until);
        if !fresh {
            return Ok(false);
        }
        let stands = match &principal.credential {
            Credential::Key { digest, .. } => self.valid_key(digest).await?.is_some_and(|key| self.accepts(key.born)),
            // A token ceases to be valid with the secret that signed it.
            Credential::Token { signer: Some(signer), .. } => {
                let project = self.shared.projects.get(&principal.project).await?;
                project.is_some_and(|project| project.secrets.iter().any(|secret| digest(secret) == *signer))
            }
            _ => true,
        };
        let made_by = principal.key().filter(|_| !principal.has_key());
        let maker_stands = match made_by {
            Some(key) => self.is_valid(&principal.project, key).await?,
            None => true,
        };
        Ok(stands && maker_stands && !self.is_signed_out(principal).await?)
    }
}
