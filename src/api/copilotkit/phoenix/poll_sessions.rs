//! Long-poll sessions of a node, by the tokens of their clients.

use std::sync::Arc;

use dashmap::DashMap;
use threadline_core::{
    Digest, Principal,
    limits::{MAX_POLL_SESSIONS, POLL_SESSION_QUEUE, POLL_SESSIONS_PART},
};
use threadline_http::{
    auth::secret::{self, NoRandomness},
    body::Whole,
};
use tokio::sync::{mpsc, oneshot};

/// Prefix of the token of a session.
const TOKEN_PREFIX: &str = "tlp_";

/// Long-poll sessions of a node. Cheap to clone; clones share the sessions.
#[derive(Clone, Default)]
pub struct PollSessions(Arc<DashMap<Digest, Session>>);

/// Handle of a session's task.
#[derive(Clone)]
pub struct Session {
    pub principal: Principal,
    pub polls: mpsc::Sender<oneshot::Sender<Polled>>,
    pub posts: mpsc::Sender<Post>,
}

/// Answer to a poll.
pub enum Polled {
    /// Frames for the client.
    Frames(Vec<String>),
    /// No frame before the timeout, or another poll has replaced this one.
    Nothing,
    /// The session has ended; the client may open another.
    Gone,
    /// The session has ended because its credential is no longer valid.
    Forbidden,
    /// The session has ended because of an error.
    Failed,
}

/// Frames that a client sent, one per line.
pub struct Post {
    /// Body of the request. The memory of the body counts against the budget for request bodies until all lines are
    /// processed.
    pub lines: Whole,
    /// Signalled once all lines are processed.
    pub taken: oneshot::Sender<()>,
}

/// Registration of a session. Dropping it removes the session.
pub struct PollOpened {
    sessions: PollSessions,
    digest: Digest,
    /// Polls from the client.
    pub polls: mpsc::Receiver<oneshot::Sender<Polled>>,
    /// Frames from the client.
    pub posts: mpsc::Receiver<Post>,
}

impl Drop for PollOpened {
    fn drop(&mut self) {
        self.sessions.0.remove(&self.digest);
    }
}

impl PollSessions {
    /// True if the node, or the principal's project, has as many sessions as it may have. One project must not occupy all
    /// sessions of the node.
    pub fn is_full_for(&self, principal: &Principal) -> bool {
        let own = self.0.iter().filter(|session| session.principal.project == principal.project).count();
        self.0.len() >= MAX_POLL_SESSIONS || own >= MAX_POLL_SESSIONS / POLL_SESSIONS_PART
    }

    /// Registers a session, with its token.
    pub fn open(&self, principal: Principal) -> Result<(String, PollOpened), NoRandomness> {
        let token = secret::generate(TOKEN_PREFIX)?;
        let digest = secret::digest(&token);
        let (polls, polled) = mpsc::channel(POLL_SESSION_QUEUE);
        let (posts, posted) = mpsc::channel(POLL_SESSION_QUEUE);
        self.0.insert(digest, Session { principal, polls, posts });
        Ok((token, PollOpened { sessions: self.clone(), digest, polls: polled, posts: posted }))
    }

    /// The session with this token; `None` if it has ended or is another node's.
    pub fn find(&self, token: &str) -> Option<Session> {
        self.0.get(&secret::digest(token)).map(|found| found.clone())
    }
}
