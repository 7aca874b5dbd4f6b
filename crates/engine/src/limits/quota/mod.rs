//! Quotas of users and projects: one place that keeps the usage and counts the refusals.
//!
//! An API key is trusted: only the limits of its project apply to it. A client with an end user's token is untrusted,
//! and the limits of a user apply to it as well. In development mode no client is authenticated, and only limits that
//! were set explicitly apply. Each node counts for itself: N nodes allow up to N times as much. Only runs are counted
//! by the store, for all nodes.

mod account;

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
use threadline_core::{
    Credential, Limit, Limits, Principal, ProjectId, ProjectLimits, Quotas, UsageOwner,
    limits::{MAX_WORK_DEBT, QUOTA_IDLE, QUOTA_KEYS, QUOTA_RETRY, WORK_UNIT_BYTES},
};
use tokio::time::Instant;

pub use self::account::Account;
use self::account::{Charged, Counts, Spent};
use super::{bucket::Rate, key::Key};

/// Looks up the limits that a project has of its own. Each request calls the lookup, so it must be fast.
pub type ProjectLookup = Arc<dyn Fn(&ProjectId) -> Option<ProjectLimits> + Send + Sync>;

/// Refusal because a limit was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
pub struct Limited {
    /// Limit that was reached.
    pub limit: Limit,
    /// Value of the limit.
    pub value: u64,
    /// Time after which the client may retry.
    pub wait: Duration,
}

impl Limited {
    fn text(&self) -> String {
        let Self { limit, value, .. } = self;
        match limit {
            Limit::StorageFree => format!("fewer than {value} bytes are free where the server stores its data"),
            _ => format!("the limit {limit} of {value} is reached"),
        }
    }
}

/// Limits of what a user or a project may have stored, those that there are.
#[derive(Debug)]
pub(crate) struct StoredQuota {
    pub owner: UsageOwner,
    pub bytes: Option<(Limit, u64)>,
    pub threads: Option<(Limit, u64)>,
}

/// Quotas of a node. Cheap to clone; the clones share their counts.
#[derive(Clone)]
pub struct Quota(Arc<Shared>);

struct Shared {
    limits: Limits,
    projects: OnceLock<ProjectLookup>,
    /// Bounded: if more users than fit are active in turn, some get a full burst again.
    spent: Cache<Key, Arc<Spent>>,
    /// Number of permits taken, for keys that have a limit.
    open: DashMap<(Key, Counted), u64>,
    limited: Arc<Counts>,
}

/// Kind of what is counted while it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Counted {
    Stream,
    Suggestions,
}

/// User or project to which a principal's usage is charged, with its quotas.
struct Holder {
    key: Key,
    quotas: Quotas,
}

impl Holder {
    /// Selects the limit of the user or of the project.
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

    fn work(&self) -> Option<Rate> {
        let bytes = |units: u64| units.saturating_mul(WORK_UNIT_BYTES);
        Rate::new(bytes(self.quotas.work_per_second), bytes(self.quotas.work_burst))
    }

    fn work_limit(&self) -> Limit {
        self.limit(Limit::UserWorkRate, Limit::ProjectWorkRate)
    }
}

/// Number of runs that a principal may have active at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunQuota {
    /// Limit of the principal's user; 0 is no limit.
    pub user: u64,
    /// Limit of the principal's project; 0 is no limit.
    pub project: u64,
}

/// Permit for a socket, an event stream or a request for suggestions; released when dropped.
#[derive(Debug)]
pub struct StreamPermit {
    quota: Quota,
    taken: Vec<(Key, Counted)>,
}

impl Drop for StreamPermit {
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
    /// Quotas with these limits and no usage.
    pub fn new(limits: Limits) -> Self {
        Self(Arc::new(Shared {
            limits,
            projects: OnceLock::new(),
            spent: Cache::builder().max_capacity(QUOTA_KEYS).time_to_idle(QUOTA_IDLE).build(),
            open: DashMap::new(),
            limited: Arc::new([const { AtomicU64::new(0) }; Limit::ALL.len()]),
        }))
    }

    /// Sets the lookup of limits of single projects. Only the first call has an effect.
    pub fn set_projects(&self, lookup: ProjectLookup) {
        let _ = self.0.projects.set(lookup);
    }

    /// Default limits of this node.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// Counts of each limit: requests refused, and sockets and streams slowed down.
    pub fn limited(&self) -> impl Iterator<Item = (Limit, u64)> + '_ {
        Limit::ALL.iter().map(|limit| (*limit, self.0.limited[*limit as usize].load(Relaxed)))
    }

    /// Counts a refusal and builds its error. Every refusal is made here.
    pub fn refuse(&self, limit: Limit, value: u64, wait: Duration) -> Limited {
        self.0.limited[limit as usize].fetch_add(1, Relaxed);
        Limited { limit, value, wait }
    }

    fn slow_down(&self, limit: Limit) {
        self.0.limited[limit as usize].fetch_add(1, Relaxed);
    }

    /// Account to which a principal's work is charged.
    pub fn account(&self, principal: &Principal) -> Account {
        let charged = self.holders(principal).filter_map(|holder| {
            let (rate, limit) = (holder.work()?, holder.work_limit());
            Some(Charged { limited: self.0.limited.clone(), spent: self.spent(&holder.key), rate, limit })
        });
        Account(charged.collect())
    }

    fn limits_of(&self, project: &ProjectId) -> Limits {
        let own = self.0.projects.get().and_then(|lookup| lookup(project));
        own.map_or(self.0.limits, |own| own.over(self.0.limits))
    }

    /// Keys to charge: the user's first, so that a user without budget costs the project nothing.
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

    /// Charges a request, or refuses it with the time to wait.
    pub fn admit(&self, principal: &Principal) -> Result<(), Limited> {
        let now = Instant::now();
        for holder in self.holders(principal) {
            let spent = self.spent(&holder.key);
            if let Some(rate) = holder.requests() {
                let limit = holder.limit(Limit::UserRequests, Limit::ProjectRequests);
                let refuse = |wait| self.refuse(limit, holder.quotas.requests_per_second, wait);
                spent.requests.take(rate, 1, now).map_err(refuse)?;
            }
            if let Some(rate) = holder.work() {
                let refuse = |wait| self.refuse(holder.work_limit(), holder.quotas.work_per_second, wait);
                spent.work.take(rate, WORK_UNIT_BYTES, now).map_err(refuse)?;
            }
        }
        Ok(())
    }

    /// Charges appended bytes of a request, or refuses them with the time to wait.
    pub fn append(&self, principal: &Principal, bytes: usize) -> Result<(), Limited> {
        let exceeded = self.take_bytes(principal, bytes);
        exceeded.map_err(|(limit, value, wait)| self.refuse(limit, value, wait))
    }

    /// Charges bytes of a request that is not refused for them: it is no append, or has failed already.
    pub fn note_bytes(&self, principal: &Principal, bytes: usize) {
        // A budget that is used up is repaid first; nobody is refused.
        let _ = self.take_bytes(principal, bytes);
    }

    /// Fails with the limit that was reached, its value and the time to wait.
    fn take_bytes(&self, principal: &Principal, bytes: usize) -> Result<(), (Limit, u64, Duration)> {
        let now = Instant::now();
        for holder in self.holders(principal) {
            let Some(rate) = holder.bytes() else { continue };
            self.spent(&holder.key).bytes.take(rate, bytes as u64, now).map_err(|wait| {
                let limit = holder.limit(Limit::UserAppendBytes, Limit::ProjectAppendBytes);
                (limit, holder.quotas.append_bytes_per_second, wait)
            })?;
        }
        Ok(())
    }

    /// Charges input of a socket or a stream, which is never refused. Returns the time until which reading must pause.
    pub fn pace(&self, principal: &Principal, requests: u64, bytes: usize) -> Option<Instant> {
        let now = Instant::now();
        let mut pause = Duration::ZERO;
        for holder in self.holders(principal) {
            let rates = [
                (holder.requests(), requests, holder.limit(Limit::UserRequests, Limit::ProjectRequests)),
                (holder.bytes(), bytes as u64, holder.limit(Limit::UserAppendBytes, Limit::ProjectAppendBytes)),
            ];
            let spent = self.spent(&holder.key);
            let slow_down = |limit, wait: Duration, pause: &mut Duration| {
                if !wait.is_zero() {
                    self.slow_down(limit);
                    *pause = wait.max(*pause);
                }
            };
            for ((rate, amount, limit), bucket) in rates.into_iter().zip([&spent.requests, &spent.bytes]) {
                let Some(rate) = rate.filter(|_| amount > 0) else { continue };
                slow_down(limit, bucket.charge(rate, amount, now), &mut pause);
            }
            if let Some(rate) = holder.work().filter(|_| requests > 0) {
                let wait = spent.work.owe(rate, requests * WORK_UNIT_BYTES, MAX_WORK_DEBT, now);
                slow_down(holder.work_limit(), wait, &mut pause);
            }
        }
        (!pause.is_zero()).then(|| now + pause)
    }

    /// Takes a permit for a socket or an event stream.
    pub fn open(&self, principal: &Principal) -> Result<StreamPermit, Limited> {
        self.count(principal, Counted::Stream)
    }

    /// Takes a permit for a request for suggestions. An agent works for it as for a run, so the limit is that of active
    /// runs; this node counts it, because nothing of it is stored.
    pub fn suggest(&self, principal: &Principal) -> Result<StreamPermit, Limited> {
        self.count(principal, Counted::Suggestions)
    }

    fn count(&self, principal: &Principal, counted: Counted) -> Result<StreamPermit, Limited> {
        let mut permit = StreamPermit { quota: self.clone(), taken: Vec::new() };
        for holder in self.holders(principal) {
            let (most, limit) = match counted {
                Counted::Stream => (holder.quotas.sockets, holder.limit(Limit::UserSockets, Limit::ProjectSockets)),
                Counted::Suggestions => (holder.quotas.runs, holder.limit(Limit::UserRuns, Limit::ProjectRuns)),
            };
            if most == 0 {
                continue;
            }
            let key = (holder.key, counted);
            let mut count = self.0.open.entry(key.clone()).or_insert(0);
            if *count >= most {
                drop(count);
                return Err(self.refuse(limit, most, QUOTA_RETRY));
            }
            *count += 1;
            drop(count);
            permit.taken.push(key);
        }
        Ok(permit)
    }

    /// Allows one more subscription to a socket that has `has` of them, or refuses it.
    pub fn subscribe(&self, principal: &Principal, has: usize) -> Result<(), Limited> {
        let most = self.limits_of(&principal.project).subscriptions;
        if has < most { Ok(()) } else { Err(self.refuse(Limit::Subscriptions, most as u64, Duration::ZERO)) }
    }

    /// Limits of what the principal's user and project may have stored.
    pub(crate) fn stored(&self, principal: &Principal) -> impl Iterator<Item = StoredQuota> + use<> {
        let quotas = self.holders(principal).filter_map(|holder| {
            let Quotas { stored_bytes, threads, .. } = holder.quotas;
            let set = |limit, most| (most > 0).then_some((limit, most));
            let bytes = set(holder.limit(Limit::UserStoredBytes, Limit::ProjectStoredBytes), stored_bytes);
            let threads = set(holder.limit(Limit::UserThreads, Limit::ProjectThreads), threads);
            let owner = match holder.key {
                Key::User(project, user) => UsageOwner { project, user: Some(user) },
                Key::Project(project) => UsageOwner { project, user: None },
            };
            (bytes.is_some() || threads.is_some()).then_some(StoredQuota { owner, bytes, threads })
        });
        quotas.collect::<Vec<_>>().into_iter()
    }

    /// Number of runs that a principal may have active; `None` if there is no limit to count for.
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

    /// Allows a run to start while `user` and `project` runs are active, or refuses it.
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
pub(super) mod tests;
