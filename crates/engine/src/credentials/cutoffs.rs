//! Sign-outs, as this node knows them. All of them are in memory, so no request reads the store for them; while the
//! store is unavailable, the last known ones stay in force.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use threadline_core::{
    AuditEntry, Cutoff, CutoffKind, Digest, KeyId, Principal, ProjectId, Timestamp, UserId, hex,
    limits::{CUTOFF_LOOK, CUTOFF_OVERLAP, ISSUED_AHEAD},
};
use threadline_store::{
    DigestKey, DynStore, StoreClock, StoreResult,
    credentials::{CUTOFF_DIGESTS, cutoff_parts},
};
use tokio::sync::Mutex;

use crate::{
    lifecycle::Lifecycle,
    removals::{Removal, Removals},
};

/// Subject of a sign-out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject<'a> {
    /// A user: their tokens, and all that was lent to pages in their name.
    User(&'a UserId),
    /// A key: what it has made. The key itself stays valid.
    Key(&'a KeyId),
    /// All users of the project.
    Project,
}

impl Subject<'_> {
    fn kind(self) -> CutoffKind {
        match self {
            Self::User(_) => CutoffKind::User,
            Self::Key(_) => CutoffKind::Key,
            Self::Project => CutoffKind::Project,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::User(user) => user.as_str(),
            Self::Key(key) => key.as_str(),
            Self::Project => "",
        }
    }
}

/// Holder of a token, as sign-outs may concern it.
#[derive(Debug, Clone, Copy)]
pub struct Holder<'a> {
    /// Project of the token.
    pub project: &'a ProjectId,
    /// User of the token.
    pub user: Option<&'a UserId>,
    /// Key that made the token.
    pub key: Option<&'a KeyId>,
}

impl<'a> Holder<'a> {
    /// Holder of what this principal has shown.
    pub fn of(principal: &'a Principal) -> Self {
        Self { project: &principal.project, user: principal.user.as_ref(), key: principal.key() }
    }
}

#[derive(Default)]
struct Known {
    /// Last time of issue that is refused, by subject.
    not_before: BTreeMap<Digest, Timestamp>,
    /// Latest of these times.
    latest: Option<Timestamp>,
    /// Time of the last successful read of the store; `None` before the first.
    looked: Option<Timestamp>,
}

impl Known {
    /// Adds a sign-out. Returns the last time of issue that is refused for its subject.
    fn add(&mut self, cutoff: &Cutoff) -> Timestamp {
        self.latest = self.latest.max(Some(cutoff.not_before));
        let last = self.not_before.entry(cutoff.subject).or_insert(cutoff.not_before);
        *last = cutoff.not_before.max(*last);
        *last
    }
}

/// All sign-outs, as last read.
pub struct Cutoffs {
    store: DynStore,
    clock: StoreClock,
    removals: Arc<Removals>,
    digests: OnceLock<DigestKey>,
    known: RwLock<Known>,
    /// Lock that admits one read of the store at a time.
    looking: Mutex<()>,
    /// Number of changes to what is known.
    changes: AtomicU64,
}

impl Cutoffs {
    pub(crate) fn new(store: DynStore, removals: Arc<Removals>) -> Self {
        let clock = store.clock().clone();
        let (digests, known, looking, changes) = Default::default();
        Self { store, clock, removals, digests, known, looking, changes }
    }

    /// Number of changes to the sign-outs that this node knows. A change is known before it is counted.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn known_mut(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn digest(&self, project: &ProjectId, subject: Subject<'_>) -> StoreResult<Digest> {
        let key = match self.digests.get() {
            Some(key) => key,
            None => {
                let key = self.store.digest_key(CUTOFF_DIGESTS)?;
                self.digests.get_or_init(|| key)
            }
        };
        Ok(Digest(key.digest(&cutoff_parts(project, subject.kind(), subject.name()))))
    }

    /// Waits until the sign-outs were read once. Later calls never read the store.
    pub async fn ready(&self) -> StoreResult<()> {
        if self.known().looked.is_some() {
            return Ok(());
        }
        let _looking = self.looking.lock().await;
        if self.known().looked.is_some() {
            return Ok(());
        }
        self.read().await
    }

    /// Reads the sign-outs that are new.
    pub(crate) async fn look(&self) -> StoreResult<()> {
        let _looking = self.looking.lock().await;
        self.read().await
    }

    async fn read(&self) -> StoreResult<()> {
        let now = self.clock.now();
        let since = self.known().looked.map_or(Timestamp(i64::MIN), |at| at.min(now).minus(CUTOFF_OVERLAP));
        let found = self.store.cutoffs(since).await?;
        let mut known = self.known_mut();
        if !found.is_empty() {
            for cutoff in &found {
                known.add(cutoff);
            }
            self.changes.fetch_add(1, Ordering::SeqCst);
        }
        known.looked = Some(now);
        Ok(())
    }

    /// Forgets the sign-outs up to a time, of which no token is left.
    pub(crate) fn forget(&self, before: Timestamp) {
        self.known_mut().not_before.retain(|_, last| *last >= before);
    }

    /// Last time of issue that is refused for this holder; `None` if no sign-out concerns it.
    fn last(&self, holder: Holder<'_>) -> StoreResult<Option<Timestamp>> {
        if self.known().not_before.is_empty() {
            return Ok(None);
        }
        let Holder { project, user, key } = holder;
        let subjects = [user.map(Subject::User), key.map(Subject::Key), Some(Subject::Project)];
        let mut last = None;
        for subject in subjects.into_iter().flatten() {
            let digest = self.digest(project, subject)?;
            last = last.max(self.known().not_before.get(&digest).copied());
        }
        Ok(last)
    }

    /// True if a sign-out has ended what this holder was given at a time. Without a time, any sign-out has.
    pub fn refuses(&self, holder: Holder<'_>, issued_at: Option<Timestamp>) -> StoreResult<bool> {
        let Some(last) = self.last(holder)? else { return Ok(false) };
        Ok(issued_at.is_none_or(|at| at <= last))
    }

    /// Time of issue for what this holder is given now: after every sign-out that concerns it.
    pub fn issue_time(&self, holder: Holder<'_>) -> StoreResult<Timestamp> {
        let now = self.clock.now();
        Ok(self.last(holder)?.map_or(now, |last| now.max(after(last))))
    }

    /// Last time of issue that a sign-out refuses now: also that of a token which was dated after an earlier sign-out of this
    /// moment.
    fn up_to_now(&self, now: Timestamp) -> Timestamp {
        let latest = self.known().latest.filter(|latest| (now..=now.plus(ISSUED_AHEAD)).contains(latest));
        latest.map_or(now, after)
    }

    /// Ends all tokens of a subject that were issued up to now: at once on this node, on the others with their next look.
    /// Returns the time of issue from which tokens are valid again.
    pub async fn sign_out(
        &self,
        principal: &Principal,
        project: &ProjectId,
        subject: Subject<'_>,
    ) -> StoreResult<Timestamp> {
        self.ready().await?;
        let at = self.clock.now();
        let not_before = self.up_to_now(at);
        let (action, mut facts) = match subject {
            Subject::User(user) => {
                let digest = self.store.digest_key("erasure")?.digest(&[project.as_str(), user.as_str()]);
                ("user.signed-out", json!({ "userDigest": hex(&digest) }))
            }
            Subject::Key(key) => ("key.signed-out", json!({ "keyId": key.as_str() })),
            Subject::Project => ("project.signed-out", json!({})),
        };
        facts["notBefore"] = json!(after(not_before).to_string());
        let entry = AuditEntry::by(principal, project, at, action, &facts);
        self.store(project, subject, (at, not_before), Some(&entry), entry.actor.clone()).await
    }

    /// Ends all tokens of a user who is erased, without an entry of its own in the audit.
    pub(crate) async fn end_tokens(
        &self,
        principal: &Principal,
        project: &ProjectId,
        user: &UserId,
    ) -> StoreResult<()> {
        let (at, actor) = (self.clock.now(), principal.credential.label());
        self.store(project, Subject::User(user), (at, self.up_to_now(at)), None, actor).await.map(drop)
    }

    async fn store(
        &self,
        project: &ProjectId,
        subject: Subject<'_>,
        (at, not_before): (Timestamp, Timestamp),
        entry: Option<&AuditEntry>,
        actor: String,
    ) -> StoreResult<Timestamp> {
        let kind = subject.kind();
        let cutoff =
            Cutoff { project: project.clone(), kind, subject: self.digest(project, subject)?, not_before, at, actor };
        self.store.put_cutoff(&cutoff, entry).await?;
        let last = self.known_mut().add(&cutoff);
        self.changes.fetch_add(1, Ordering::SeqCst);
        self.removals.note(Removal::Cutoff(cutoff));
        Ok(after(last))
    }
}

/// First time of issue that is not refused.
fn after(last: Timestamp) -> Timestamp {
    last.plus(Duration::from_millis(1))
}

/// Loop that reads the sign-outs of other nodes.
pub(crate) async fn run(cutoffs: Arc<Cutoffs>, lifecycle: Lifecycle) {
    let mut ticks = lifecycle.every(CUTOFF_LOOK);
    let mut fails = Duration::ZERO;
    while ticks.next().await {
        match cutoffs.look().await {
            Ok(()) => fails = Duration::ZERO,
            Err(error) => {
                fails += CUTOFF_LOOK;
                tracing::warn!(%error, seconds = fails.as_secs(), "cannot read the sign-outs; the last known ones stay in force");
            }
        }
    }
}
