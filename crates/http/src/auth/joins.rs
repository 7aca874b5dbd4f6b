//! Join tokens: a page without a key joins a topic with a token that the holder of a key gives it. A token is for one
//! thread, or for one user's feed.
//!
//! A thread's token is good for one socket, because a client that reconnects repeats the join it began with, whatever
//! it has received since: a second socket is refused, and the client requests a new token with its true cursor. A
//! feed's token is good for any number of sockets, because its client never requests another.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use threadline_core::{
    Credential, Epoch, FeedCursor, Principal, ProjectId, Scopes, Seq, ThreadId, UserId, hex,
    limits::{FEED_TOKEN_LIFETIME, JOIN_LIFETIME},
};

use threadline_engine::credentials::MadeToken;

use super::{
    Auth, AuthError,
    secret::{JOIN_PREFIX, digest, generate},
    tickets::{Bearer, still_good},
    tokens,
};

/// Rights of the bearer of a thread's token.
#[derive(Debug, Clone)]
pub struct ThreadPass {
    /// The principal that follows the thread.
    pub principal: Principal,
    pub thread: ThreadId,
    /// Cursor at which the previous socket ended, if everything sent over that socket has arrived.
    pub resume: Option<(Epoch, Seq)>,
    text: String,
}

/// Rights of the bearer of a feed's token.
#[derive(Debug, Clone)]
pub struct FeedPass {
    /// The principal that owns the feed.
    pub principal: Principal,
    /// Position of the feed at the time the token was made.
    pub after: FeedCursor,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    #[serde(flatten)]
    bearer: Bearer,
    thread: String,
    resume: Option<(Epoch, Seq)>,
}

impl Auth {
    /// Makes a token with which one socket joins a thread on behalf of this principal.
    pub async fn thread_token(&self, principal: &Principal, thread: &ThreadId) -> Result<String, AuthError> {
        let text = generate(JOIN_PREFIX)?;
        let scopes = principal.scopes.and(Scopes::LENT);
        let since = principal.ticket.map_or_else(|| self.issue_time(principal), Ok)?;
        let principal = Principal { credential: principal.credential.lent(since), scopes, ..principal.clone() };
        let pass = ThreadPass { principal, thread: thread.clone(), resume: None, text };
        self.put(&pass).await?;
        Ok(pass.text)
    }

    /// Redeems a thread's token. Of all concurrent attempts, on any node, exactly one succeeds.
    pub async fn take_thread_token(&self, text: &str) -> Result<ThreadPass, AuthError> {
        if !text.starts_with(JOIN_PREFIX) {
            return Err(AuthError::WrongTicket);
        }
        let taken = self.shared.store.take_ticket(&digest(text), self.shared.clock.now()).await?;
        let kept: Option<Kept> = taken.and_then(|kept| serde_json::from_str(&kept).ok());
        let Kept { bearer, thread, resume } = kept.ok_or(AuthError::WrongTicket)?;
        let principal = still_good(self, bearer.principal().ok_or(AuthError::WrongTicket)?).await?;
        let thread = ThreadId::new(thread).map_err(|_| AuthError::WrongTicket)?;
        Ok(ThreadPass { principal, thread, resume, text: text.to_owned() })
    }

    /// Makes a thread's token valid again. The caller must have sent no frame with it, or all frames must have arrived.
    pub async fn return_thread_token(&self, pass: &ThreadPass) -> Result<(), AuthError> {
        self.put(pass).await
    }

    async fn put(&self, pass: &ThreadPass) -> Result<(), AuthError> {
        let kept = Kept { bearer: Bearer::from(&pass.principal), thread: pass.thread.to_string(), resume: pass.resume };
        let kept = serde_json::to_string(&kept).map_err(|error| AuthError::Invalid(error.to_string()))?;
        let now = self.shared.clock.now();
        Ok(self.shared.store.put_ticket(&digest(&pass.text), &kept, now.plus(JOIN_LIFETIME), now).await?)
    }

    /// Makes a token with which any number of sockets follow the user's own feed, from `after` on. The token is valid
    /// no longer than the principal's credential, and grants no more.
    pub async fn feed_token(&self, principal: &Principal, after: FeedCursor) -> Result<String, AuthError> {
        let user = principal.user.as_ref().ok_or(AuthError::Missing)?;
        let project = self.shared.projects.ensured(&principal.project).await?;
        let secret = project.secrets.first().ok_or(AuthError::NoProject)?;
        let now = self.shared.clock.now();
        // A token that is made with a token or a ticket is as old as that: a sign-out that this node has not read yet ends both.
        let issued_at = match &principal.credential {
            Credential::Token { issued_at, .. } => *issued_at,
            Credential::Lent { since, .. } => Some(*since),
            _ => Some(principal.ticket.map_or_else(|| self.issue_time(principal), Ok)?),
        };
        let by = self.maker(principal)?.map(|by| by.to_string());
        let longest = now.plus(FEED_TOKEN_LIFETIME.min(project.settings.longest_token()));
        let longest = issued_at.map_or(longest, |at| longest.min(at.plus(project.settings.longest_token())));
        let until = self.expiry(principal).map_or(longest, |until| until.min(longest));
        let new = tokens::NewToken {
            audience: tokens::FEED_AUDIENCE,
            project: &project.id,
            user,
            scopes: principal.scopes.and(Scopes::LENT),
            issued_at,
            until,
            born: self.born(),
            feed: Some(after),
            by: by.as_deref(),
        };
        let token = tokens::sign(secret, &new)?;
        let made = MadeToken { user, scopes: new.scopes, expires_at: until };
        self.shared.trail.made(principal, made)?;
        Ok(token)
    }

    /// Verifies the token of a feed: its signature, its audience, and the key it was made with, which must still be
    /// valid.
    pub async fn verify_feed_token(&self, token: &str) -> Result<FeedPass, AuthError> {
        let said = tokens::look(token)?;
        let (project, verified, signer) = self.verify_ours(token, &said, tokens::FEED_AUDIENCE).await?;
        let after = verified.feed.ok_or(AuthError::WrongToken("it was not issued for a feed"))?;
        Ok(FeedPass { principal: self.bearer(project, verified, signer).await?, after })
    }

    /// Names that a user's feed has as a topic, the current one first. A name is derived from a secret of the project:
    /// the names change with the secret, and the name from the previous secret stays valid.
    pub async fn feed_names(&self, project: &ProjectId, user: &UserId) -> Result<Vec<String>, AuthError> {
        let project = self.shared.projects.ensured(project).await?;
        Ok(project.secrets.iter().map(|secret| feed_name(secret, user)).collect())
    }
}

/// Name of a user's feed, which cannot be guessed without the secret. The name grants nothing; the token does.
fn feed_name(secret: &str, user: &UserId) -> String {
    let inner = Sha256::new().chain_update(secret).chain_update([0]).chain_update(user.as_str()).finalize();
    let outer = Sha256::new().chain_update(secret).chain_update([1]).chain_update(inner).finalize();
    hex(&outer[..16])
}
