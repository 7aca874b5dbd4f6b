//! Threads that a command names.

use std::fmt;

use serde::{Deserialize, Serialize};
use threadline_core::{ThreadId, UserId, kv::KvOwner};

/// Threads that an export or import includes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Selection {
    /// Ids of the included threads; all threads if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<ThreadId>,
    /// Owner of the included threads; all users if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserId>,
}

impl Selection {
    /// True if everything is included.
    pub fn is_all(&self) -> bool {
        self.threads.is_empty() && self.user.is_none()
    }

    /// True if this thread is included.
    pub fn takes(&self, id: &ThreadId, user: &UserId) -> bool {
        (self.threads.is_empty() || self.threads.contains(id)) && self.takes_user(user)
    }

    /// True if this user's feed is included, which requires all of the user's threads.
    pub fn takes_feed(&self, user: &UserId) -> bool {
        self.threads.is_empty() && self.takes_user(user)
    }

    /// True if data of this owner that belongs to no thread is included.
    pub fn takes_owner(&self, owner: &KvOwner) -> bool {
        owner.user.as_ref().map_or(self.is_all(), |user| self.takes_feed(user))
    }

    fn takes_user(&self, user: &UserId) -> bool {
        self.user.as_ref().is_none_or(|only| only == user)
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.threads.as_slice() {
            [] => f.write_str("all threads")?,
            [only] => write!(f, "the thread {only}")?,
            [first, rest @ ..] => write!(f, "the thread {first} and {} more", rest.len())?,
        }
        self.user.as_ref().map_or(Ok(()), |user| write!(f, " of user {user}"))
    }
}

/// Treatment of the secrets of projects and of the definitions of agents, which hold keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportedSecrets {
    /// The files have them, in clear text.
    Written,
    /// The files do not have them.
    LeftOut,
}
