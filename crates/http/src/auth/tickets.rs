//! Socket tickets: valid for one socket and one minute, so that no long-lived secret is part of a URL.

use serde::{Deserialize, Serialize};
use threadline_core::{
    Credential, Digest, KeyId, Principal, ProjectId, Scopes, Timestamp, TokenMaker, UserId, limits::TICKET_LIFETIME,
};

use super::{
    Auth, AuthError,
    secret::{TICKET_PREFIX, digest, generate},
    tokens::Maker,
};

/// Maker of a token that was made with the operator's key, in a stored principal.
const BY_OPERATOR: &str = "op";

/// A ticket with its expiry.
#[derive(Debug)]
pub struct Ticket {
    /// The ticket itself; only its digest is stored.
    pub text: String,
    /// End of its validity.
    pub expires_at: Timestamp,
}

/// A principal as stored with its ticket.
#[derive(Serialize, Deserialize)]
pub(super) struct Bearer {
    project: String,
    user: Option<String>,
    scopes: String,
    credential: Kept,
    /// Time of issue of a ticket.
    ticket: Option<i64>,
}

#[derive(Serialize, Deserialize)]
enum Kept {
    Development,
    Operator,
    Key { id: String, digest: [u8; 32], expires_at: Option<i64> },
    Lent { key: Option<String>, since: i64, expires_at: Option<i64> },
    Token { expires_at: i64, signer: Option<[u8; 32]>, by: Option<String>, issued_at: Option<i64> },
}

impl From<&Principal> for Bearer {
    fn from(principal: &Principal) -> Self {
        Self {
            project: principal.project.to_string(),
            user: principal.user.as_ref().map(ToString::to_string),
            scopes: principal.scopes.to_string(),
            credential: match &principal.credential {
                Credential::Development => Kept::Development,
                Credential::Operator => Kept::Operator,
                Credential::Key { id, digest, expires_at } => {
                    Kept::Key { id: id.to_string(), digest: digest.0, expires_at: expires_at.map(|until| until.0) }
                }
                Credential::Lent { key, since, expires_at } => Kept::Lent {
                    key: key.as_ref().map(ToString::to_string),
                    since: since.0,
                    expires_at: expires_at.map(|until| until.0),
                },
                Credential::Token { expires_at, signer, by, issued_at } => Kept::Token {
                    expires_at: expires_at.0,
                    signer: signer.map(|signer| signer.0),
                    by: by.as_ref().map(|by| match by {
                        TokenMaker::Key(id) => Maker::Key(id.clone()).to_string(),
                        TokenMaker::Operator => BY_OPERATOR.to_owned(),
                    }),
                    issued_at: issued_at.map(|at| at.0),
                },
            },
            ticket: principal.ticket.map(|at| at.0),
        }
    }
}

impl Bearer {
    pub(super) fn principal(self) -> Option<Principal> {
        Some(Principal {
            project: ProjectId::new(self.project).ok()?,
            user: self.user.map(UserId::new).transpose().ok()?,
            scopes: Scopes::parse(&self.scopes).ok()?,
            credential: match self.credential {
                Kept::Development => Credential::Development,
                Kept::Operator => Credential::Operator,
                Kept::Key { id, digest, expires_at } => Credential::Key {
                    id: KeyId::new(id).ok()?,
                    digest: Digest(digest),
                    expires_at: expires_at.map(Timestamp),
                },
                Kept::Lent { key, since, expires_at } => Credential::Lent {
                    key: key.map(KeyId::new).transpose().ok()?,
                    since: Timestamp(since),
                    expires_at: expires_at.map(Timestamp),
                },
                Kept::Token { expires_at, signer, by, issued_at } => Credential::Token {
                    expires_at: Timestamp(expires_at),
                    signer: signer.map(Digest),
                    by: match by.as_deref() {
                        None => None,
                        Some(BY_OPERATOR) => Some(TokenMaker::Operator),
                        Some(by) => Some(TokenMaker::Key(Maker::parse(by)?.key()?)),
                    },
                    issued_at: issued_at.map(Timestamp),
                },
            },
            ticket: self.ticket.map(Timestamp),
        })
    }
}

pub(super) async fn issue(auth: &Auth, principal: &Principal) -> Result<Ticket, AuthError> {
    let text = generate(TICKET_PREFIX)?;
    let now = auth.shared.clock.now();
    let expires_at = now.plus(TICKET_LIFETIME);
    // A ticket that was made with a ticket is as old as that one.
    let made = principal.ticket.map_or_else(|| auth.issue_time(principal), Ok)?;
    let principal = Principal { ticket: Some(made), ..principal.clone() };
    let bearer =
        serde_json::to_string(&Bearer::from(&principal)).map_err(|error| AuthError::Invalid(error.to_string()))?;
    auth.shared.store.put_ticket(&digest(&text), &bearer, expires_at, now).await?;
    Ok(Ticket { text, expires_at })
}

pub(super) async fn redeem(auth: &Auth, ticket: &str) -> Result<Principal, AuthError> {
    if !ticket.starts_with(TICKET_PREFIX) {
        return Err(AuthError::WrongTicket);
    }
    let bearer =
        auth.shared.store.take_ticket(&digest(ticket), auth.shared.clock.now()).await?.ok_or(AuthError::WrongTicket)?;
    let principal = serde_json::from_str::<Bearer>(&bearer).ok().and_then(Bearer::principal);
    still_good(auth, principal.ok_or(AuthError::WrongTicket)?).await
}

/// Returns the stored principal of a ticket if its credential is still valid.
pub(super) async fn still_good(auth: &Auth, principal: Principal) -> Result<Principal, AuthError> {
    // A node in development mode may have issued the ticket, and this node may not be in development mode.
    let kind = principal.credential != Credential::Development || auth.is_development();
    if kind && auth.holds(&principal).await? { Ok(principal) } else { Err(AuthError::WrongTicket) }
}
