//! How much each user and each project may use: one place that knows what was used, and that counts what was refused.
//!
//! An API key is trusted to be modest: only the limits of its project hold for it. Whoever comes with an end user's token
//! is a stranger, for whom the limits of a user hold as well. In development mode nobody is known, and only what was set
//! on purpose holds. Everything here is counted by this node alone: N nodes allow up to N times as much. Only runs are
//! counted by the store, for all nodes.

mod bucket;
mod room;

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use dashmap::DashMap;
use moka::sync::Cache;
use tokio::time::Instant;

use crate::domain::{
    Credential, Limit, Limits, Principal, ProjectId, ProjectLimits, Quotas, UserId,
    limits::{QUOTA_IDLE, QUOTA_KEYS, QUOTA_RETRY},
};
use bucket::{Bucket, Rate};
pub use room::{Full, Held, Room, Taker};

/// Looks up the limits that a project has of its own. It is asked with each request, so it must be quick.
pub type ProjectLookup = Arc<dyn Fn(&ProjectId) -> Option<ProjectLimits> + Send + Sync>;

/// A limit was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the limit {limit} is reached: {value}")]
pub struct Limited {
    /// Which.
    pub limit: Limit,
    /// What it is set to.
    pub value: u64,
    /// When to come again.
    pub wait: Duration,
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub struct Quota(Arc<Shared>);

struct Shared {
    limits: Limits,
    projects: OnceLock<ProjectLookup>,
    /// Bounded: if more users than fit come in turns, some get their burst anew.
    spent: Cache<Key, Arc<Spent>>,
    /// Sockets and event streams, of those for whom there is a limit.
    open: DashMap<Key, u64>,
    limited: [AtomicU64; Limit::ALL.len()],
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    User(ProjectId, UserId),
    Project(ProjectId),
}

#[derive(Default)]
struct Spent {
    requests: Bucket,
    bytes: Bucket,
}

/// A user or a project that a principal counts for, and what it may use.
struct Holder {
    key: Key,
    quotas: Quotas,
}

impl Holder {
    /// The user's name of a limit, or the project's.
    fn limit(&self, user: Limit, project: Limit) -> Limit {
        match self.key {
            Key::User(..) => user,
            Key::Project(_) => project,
        }
    }

    fn requests(&self) -> Option<Rate> {
        Rate::new(self.quotas.requests_per_second, self.quotas.request_burst)
    }

    fn bytes(&self) -> Option<Rate> {
        Rate::new(self.quotas.append_bytes_per_second, self.quotas.append_byte_burst)
    }
}

/// How many runs a principal may have under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunQuota {
    /// Of its user; 0 is no limit.
    pub user: u64,
    /// Of its project; 0 is no limit.
    pub project: u64,
}

/// A place among the sockets and event streams of a user and a project; given back when it is dropped.
#[derive(Debug)]
pub struct Place {
    quota: Quota,
    taken: Vec<Key>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let open = &self.quota.0.open;
        for key in &self.taken {
            open.alter(key, |_, count| count.saturating_sub(1));
            open.remove_if(key, |_, count| *count == 0);
        }
    }
}

impl fmt::Debug for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quota").field("limits", &self.0.limits).finish_non_exhaustive()
    }
}

impl Quota {
    /// With these limits, and nothing used yet.
    pub fn new(limits: Limits) -> Self {
        Self(Arc::new(Shared {
            limits,
            projects: OnceLock::new(),
            spent: Cache::builder().max_capacity(QUOTA_KEYS).time_to_idle(QUOTA_IDLE).build(),
            open: DashMap::new(),
            limited: [const { AtomicU64::new(0) }; Limit::ALL.len()],
        }))
    }

    /// Where the limits of single projects are from now on looked up. Only the first one counts.
    pub fn set_projects(&self, lookup: ProjectLookup) {
        let _ = self.0.projects.set(lookup);
    }

    /// The limits of this node.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// How often each limit was reached: requests refused, and sockets and streams made to wait.
    pub fn limited(&self) -> impl Iterator<Item = (Limit, u64)> + '_ {
        Limit::ALL.iter().map(|limit| (*limit, self.0.limited[*limit as usize].load(Relaxed)))
    }

    /// Counts that a limit was reached. Every refusal comes from here.
    pub fn refuse(&self, limit: Limit, value: u64, wait: Duration) -> Limited {
        self.0.limited[limit as usize].fetch_add(1, Relaxed);
        Limited { limit, value, wait }
    }

    fn limits_of(&self, project: &ProjectId) -> Limits {
        let own = self.0.projects.get().and_then(|lookup| lookup(project));
        own.map_or(self.0.limits, |own| own.over(self.0.limits))
    }

    /// Whose limits hold: the user's first, so that a user who has used everything costs the project nothing.
    fn holders(&self, principal: &Principal) -> impl Iterator<Item = Holder> {
        let limits = self.limits_of(&principal.project);
        let user = match principal.credential {
            Credential::Token { .. } | Credential::Lent { .. } => limits.user,
            Credential::Development => limits.development,
            Credential::Operator | Credential::Key { .. } => Quotas::NONE,
        };
        let user = principal
            .user
            .as_ref()
            .filter(|_| user != Quotas::NONE)
            .map(|id| Holder { key: Key::User(principal.project.clone(), id.clone()), quotas: user });
        let project = (limits.project != Quotas::NONE)
            .then(|| Holder { key: Key::Project(principal.project.clone()), quotas: limits.project });
        user.into_iter().chain(project)
    }

    fn spent(&self, key: &Key) -> Arc<Spent> {
        self.0.spent.get(key).unwrap_or_else(|| self.0.spent.get_with(key.clone(), Arc::default))
    }

    /// Lets a request pass, or says when to come again.
    pub fn admit(&self, principal: &Principal) -> Result<(), Limited> {
        let now = Instant::now();
        for holder in self.holders(principal) {
            let Some(rate) = holder.requests() else { continue };
            self.spent(&holder.key).requests.take(rate, 1, now).map_err(|wait| {
                let limit = holder.limit(Limit::UserRequests, Limit::ProjectRequests);
                self.refuse(limit, holder.quotas.requests_per_second, wait)
            })?;
        }
        Ok(())
    }

    /// Lets bytes be appended that came in a request, or says when to come again.
    pub fn append(&self, principal: &Principal, bytes: usize) -> Result<(), Limited> {
        let now = Instant::now();
        for holder in self.holders(principal) {
            let Some(rate) = holder.bytes() else { continue };
            self.spent(&holder.key).bytes.take(rate, bytes as u64, now).map_err(|wait| {
                let limit = holder.limit(Limit::UserAppendBytes, Limit::ProjectAppendBytes);
                self.refuse(limit, holder.quotas.append_bytes_per_second, wait)
            })?;
        }
        Ok(())
    }

    /// Counts what came on a socket or a stream, where nothing is refused; until when it is to be read no further.
    pub fn pace(&self, principal: &Principal, requests: u64, bytes: usize) -> Option<Instant> {
        let now = Instant::now();
        let mut pause = Duration::ZERO;
        for holder in self.holders(principal) {
            let rates = [
                (holder.requests(), requests, holder.limit(Limit::UserRequests, Limit::ProjectRequests)),
                (holder.bytes(), bytes as u64, holder.limit(Limit::UserAppendBytes, Limit::ProjectAppendBytes)),
            ];
            let spent = self.spent(&holder.key);
            for ((rate, amount, limit), bucket) in rates.into_iter().zip([&spent.requests, &spent.bytes]) {
                let Some(rate) = rate.filter(|_| amount > 0) else { continue };
                let wait = bucket.charge(rate, amount, now);
                if !wait.is_zero() {
                    self.0.limited[limit as usize].fetch_add(1, Relaxed);
                    pause = pause.max(wait);
                }
            }
        }
        (!pause.is_zero()).then(|| now + pause)
    }

    /// Takes a place for a socket or an event stream.
    pub fn open(&self, principal: &Principal) -> Result<Place, Limited> {
        let mut place = Place { quota: self.clone(), taken: Vec::new() };
        for Holder { key, quotas } in self.holders(principal) {
            if quotas.sockets == 0 {
                continue;
            }
            let mut count = self.0.open.entry(key.clone()).or_insert(0);
            if *count >= quotas.sockets {
                drop(count);
                let holder = Holder { key, quotas };
                let limit = holder.limit(Limit::UserSockets, Limit::ProjectSockets);
                return Err(self.refuse(limit, quotas.sockets, QUOTA_RETRY));
            }
            *count += 1;
            drop(count);
            place.taken.push(key);
        }
        Ok(place)
    }

    /// Lets a socket that has this many subscriptions have one more.
    pub fn subscribe(&self, principal: &Principal, has: usize) -> Result<(), Limited> {
        let most = self.limits_of(&principal.project).subscriptions;
        if has < most { Ok(()) } else { Err(self.refuse(Limit::Subscriptions, most as u64, Duration::ZERO)) }
    }

    /// How many runs a principal may have under way; `None` if nobody has to count them.
    pub fn runs(&self, principal: &Principal) -> Option<RunQuota> {
        let mut quota = RunQuota { user: 0, project: 0 };
        for holder in self.holders(principal) {
            match holder.key {
                Key::User(..) => quota.user = holder.quotas.runs,
                Key::Project(_) => quota.project = holder.quotas.runs,
            }
        }
        (quota.user > 0 || quota.project > 0).then_some(quota)
    }

    /// Lets a run be started while this many are under way.
    pub fn start(&self, quota: RunQuota, user: u64, project: u64) -> Result<(), Limited> {
        for (limit, most, active) in [(Limit::UserRuns, quota.user, user), (Limit::ProjectRuns, quota.project, project)]
        {
            if most > 0 && active >= most {
                return Err(self.refuse(limit, most, QUOTA_RETRY));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
