//! Projects, as the store has them: read often, changed rarely.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use threadline_core::{
    AuditEntry, EventValidation, IssuerSettings, ProjectId, ProjectLimits, ProjectSettings, Scopes,
    limits::{KEY_MEMORY, MAX_TOKEN_SECRETS, PROJECT_MISS_PAUSE},
};
use threadline_engine::{Removal, Removals};
use threadline_store::{DynStore, StoreError, StoredProject};
use tokio::{
    sync::Mutex,
    time::{self, Instant},
};

use super::{AuthError, secret, tokens};

/// Attempts at a change that other changes overtake, before the change fails.
const TRIES: usize = 16;

/// A project and its secrets, as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Project {
    pub id: ProjectId,
    pub settings: ProjectSettings,
    /// Secrets that sign its tokens, the newest first.
    pub secrets: Vec<String>,
    /// True if the secrets are sealed in the store.
    pub sealed: bool,
    version: i64,
}

impl Project {
    fn read(stored: StoredProject) -> Result<Self, AuthError> {
        let broken = |error| StoreError::Corrupt(format!("the project {}: {error}", stored.id));
        let unopened = || StoreError::Corrupt("its secrets cannot be opened with the keys of this node".to_owned());
        let secrets = stored.secrets.as_deref().ok_or_else(unopened)?;
        Ok(Self {
            settings: serde_json::from_str(&stored.settings).map_err(broken)?,
            secrets: serde_json::from_str(secrets).map_err(broken)?,
            sealed: stored.sealed,
            version: stored.version,
            id: stored.id,
        })
    }

    fn stored(&self) -> Result<StoredProject, AuthError> {
        let text = |error: serde_json::Error| AuthError::Invalid(error.to_string());
        Ok(StoredProject {
            id: self.id.clone(),
            version: self.version + 1,
            settings: serde_json::to_string(&self.settings).map_err(text)?,
            secrets: Some(serde_json::to_string(&self.secrets).map_err(text)?),
            sealed: self.sealed,
        })
    }
}

/// All projects, as of one moment.
#[derive(Default)]
struct CachedProjects {
    all: BTreeMap<ProjectId, Project>,
    /// Projects whose settings cannot be read.
    unreadable: BTreeSet<ProjectId>,
    /// Time of the last read, or of the last attempt.
    at: Option<Instant>,
}

impl CachedProjects {
    fn has(&self, id: &str) -> bool {
        ProjectId::new(id).is_ok_and(|id| self.all.contains_key(&id))
    }

    fn is_older_than(&self, age: Duration) -> bool {
        self.at.is_none_or(|at| at.elapsed() > age)
    }
}

/// Cache of the projects. Cheap to clone. Changes made on other nodes appear after [`KEY_MEMORY`].
#[derive(Clone)]
pub struct Projects {
    store: DynStore,
    known: Arc<RwLock<Arc<CachedProjects>>>,
    /// Lock that admits one read of the store at a time.
    looking: Arc<Mutex<()>>,
    removals: Arc<Removals>,
    /// Number of times that the projects were read.
    reads: Arc<AtomicU64>,
}

/// Project whose users' tokens an external issuer makes.
#[derive(Debug)]
pub(super) struct IssuedBy {
    pub(super) project: ProjectId,
    pub(super) issuer: IssuerSettings,
    /// Scopes of a token that names none.
    pub(super) default_scopes: Scopes,
    /// Longest life of a token.
    pub(super) longest: Duration,
}

/// Course of a change of a project that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// The project is created.
    Create,
    /// The change fails with [`AuthError::NoProject`].
    Refuse,
}

/// Project after a change.
#[derive(Debug)]
pub struct ChangedProject {
    /// Project as it is stored now.
    pub project: Project,
    /// True if the change created the project.
    pub created: bool,
}

impl Projects {
    pub(super) fn new(store: DynStore, removals: Arc<Removals>) -> Self {
        Self { store, known: Arc::default(), looking: Arc::default(), removals, reads: Arc::default() }
    }

    /// Number of times that the projects were read. What was read is in effect before it is counted.
    pub(super) fn reads(&self) -> u64 {
        self.reads.load(Ordering::SeqCst)
    }

    fn known(&self) -> Arc<CachedProjects> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn remember(
        &self,
        all: BTreeMap<ProjectId, Project>,
        unreadable: BTreeSet<ProjectId>,
        at: Instant,
    ) -> Arc<CachedProjects> {
        let known = Arc::new(CachedProjects { all, unreadable, at: Some(at) });
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known.clone();
        self.reads.fetch_add(1, Ordering::SeqCst);
        known
    }

    async fn load(&self) -> Result<Arc<CachedProjects>, AuthError> {
        let (mut all, mut unreadable) = (BTreeMap::new(), BTreeSet::new());
        // Changes made while the store answers may be missing.
        let at = Instant::now();
        for stored in self.store.projects().await? {
            let id = stored.id.clone();
            match Project::read(stored) {
                Ok(project) => drop(all.insert(id, project)),
                // A newer release may have written these settings; the other projects must stay available.
                Err(error) => {
                    tracing::error!(project = %id, %error, "cannot read a project: its tokens are rejected, and it has no limits or retention of its own");
                    unreadable.insert(id);
                }
            }
        }
        Ok(self.remember(all, unreadable, at))
    }

    /// Returns the projects, read no longer ago than `age`; or, while another reader is running or the store is
    /// unavailable, as last read.
    async fn fresh(&self, age: Duration) -> Result<Arc<CachedProjects>, AuthError> {
        let known = self.known();
        if !known.is_older_than(age) {
            return Ok(known);
        }
        let _looking = match self.looking.try_lock() {
            Ok(looking) => looking,
            Err(_) if known.at.is_some() => return Ok(known),
            Err(_) => self.looking.lock().await,
        };
        let known = self.known();
        if !known.is_older_than(age) {
            return Ok(known);
        }
        self.loaded(&known).await
    }

    /// Reads the projects if they are older than [`KEY_MEMORY`], so that their limits are known. Failures are ignored.
    pub(super) async fn look(&self) {
        if let Err(error) = self.fresh(KEY_MEMORY).await {
            tracing::debug!(%error, "cannot read the projects");
        }
    }

    /// Own limits of a project, as last read.
    pub fn limits(&self, id: &ProjectId) -> Option<ProjectLimits> {
        self.known().all.get(id).map(|project| project.settings.limits)
    }

    /// True if the threads of a project are named; false if its settings cannot be read, since they may forbid it.
    pub async fn generates_names(&self, id: &ProjectId) -> bool {
        let Ok(known) = self.fresh(KEY_MEMORY).await else { return false };
        let wanted = known.all.get(id).and_then(|project| project.settings.generate_thread_names);
        wanted.unwrap_or(!known.unreadable.contains(id))
    }

    /// Reads all projects from the store, ordered by id.
    pub async fn all(&self) -> Result<Vec<Project>, AuthError> {
        Ok(self.load().await?.all.values().cloned().collect())
    }

    /// Looks up a project by its id.
    pub(super) async fn get(&self, id: &ProjectId) -> Result<Option<Project>, AuthError> {
        if let Some(found) = self.fresh(KEY_MEMORY).await?.all.get(id) {
            return Ok(Some(found.clone()));
        }
        // The project may be new.
        Ok(self.reread().await?.all.get(id).cloned())
    }

    /// Reads a project again from the store, because another node may have changed it.
    pub(super) async fn now(&self, id: &ProjectId) -> Result<Option<Project>, AuthError> {
        Ok(self.reread().await?.all.get(id).cloned())
    }

    /// Reads the projects again. All requests that wait share one read, and two reads are at least [`PROJECT_MISS_PAUSE`] apart,
    /// however many untrusted clients ask.
    async fn reread(&self) -> Result<Arc<CachedProjects>, AuthError> {
        let asked = Instant::now();
        let _looking = self.looking.lock().await;
        let known = self.known();
        if known.at.is_some_and(|at| at >= asked) {
            return Ok(known);
        }
        if let Some(at) = known.at {
            time::sleep_until(at + PROJECT_MISS_PAUSE).await;
        }
        self.loaded(&known).await
    }

    /// Loads the projects, or keeps the known ones while the store is unavailable.
    async fn loaded(&self, known: &CachedProjects) -> Result<Arc<CachedProjects>, AuthError> {
        match self.load().await {
            // The failed attempt counts as a read: a store that hangs would otherwise delay every caller.
            Err(error) if known.at.is_some() => {
                tracing::warn!(%error, "cannot read the projects; using the cached ones");
                Ok(self.remember(known.all.clone(), known.unreadable.clone(), Instant::now()))
            }
            looked => looked,
        }
    }

    /// The project that a token names as its issuer, as last read, whether or not the token is sound.
    pub(super) fn named_by(&self, token: &str) -> Option<ProjectId> {
        let said = tokens::is_token(token).then(|| tokens::look(token).ok()).flatten()?;
        let id = ProjectId::new(said.iss?).ok()?;
        self.known().all.contains_key(&id).then_some(id)
    }

    /// True if a project has this id, as last read.
    pub(super) async fn is_project(&self, id: &str) -> Result<bool, AuthError> {
        Ok(self.fresh(KEY_MEMORY).await?.has(id))
    }

    /// Looks up the project that names this issuer with one of these audiences. The id of a project names that project, whatever the settings of another one say.
    pub(super) async fn of_issuer(&self, issuer: &str, audiences: &[String]) -> Result<Option<IssuedBy>, AuthError> {
        let fits = |found: &&IssuerSettings| found.issuer == issuer && audiences.contains(&found.audience);
        let known = self.fresh(KEY_MEMORY).await?;
        if known.has(issuer) {
            return Ok(None);
        }
        let mut named = known.all.values().filter_map(|project| Some((project, project.settings.issuer.as_ref()?)));
        let found = named.find(|(_, settings)| fits(settings));
        Ok(found.map(|(project, issuer)| IssuedBy {
            project: project.id.clone(),
            issuer: issuer.clone(),
            default_scopes: project.settings.default_scopes(),
            longest: project.settings.longest_token(),
        }))
    }

    /// Looks up the project of this id; creates it if absent.
    pub(super) async fn ensured(&self, id: &ProjectId) -> Result<Project, AuthError> {
        if let Some(found) = self.get(id).await? {
            return Ok(found);
        }
        self.change(id, Missing::Create, |_| Ok(()), |_| None).await.map(|changed| changed.project)
    }

    /// Settings of a project, as last read; the defaults for one that is not stored.
    pub async fn settings(&self, id: &ProjectId) -> Result<ProjectSettings, AuthError> {
        Ok(self.fresh(KEY_MEMORY).await?.all.get(id).map(|project| project.settings.clone()).unwrap_or_default())
    }

    /// Validation of what producers of a project append, unless they ask for more.
    pub async fn validation(&self, id: &ProjectId) -> Result<EventValidation, AuthError> {
        let known = self.fresh(KEY_MEMORY).await?;
        Ok(known.all.get(id).and_then(|project| project.settings.validation).unwrap_or_default())
    }

    /// Changes a project, and retries if concurrent changes overtake it. `entry` makes the entry in the audit; its parameter
    /// is the project before, if it exists. A change that leaves a project as it is stores nothing.
    pub(super) async fn change(
        &self,
        id: &ProjectId,
        missing: Missing,
        change: impl Fn(&mut Project) -> Result<(), AuthError>,
        entry: impl Fn(Option<&Project>) -> Option<AuditEntry>,
    ) -> Result<ChangedProject, AuthError> {
        for _ in 0..TRIES {
            let known = self.load().await?;
            let found = known.all.get(id).cloned();
            let created = found.is_none();
            let mut project = match found.clone() {
                Some(found) => found,
                None if missing == Missing::Create => Project {
                    id: id.clone(),
                    settings: ProjectSettings::default(),
                    secrets: vec![secret::generate("")?],
                    sealed: false,
                    version: 0,
                },
                None => return Err(AuthError::NoProject),
            };
            change(&mut project)?;
            let taken = |other: &&Project| other.id != *id && shares_issuer(&project, other);
            if known.all.values().any(|other| taken(&other)) {
                let reason = "another project has this issuer and audience: choose another audience";
                return Err(AuthError::Invalid(reason.into()));
            }
            let stored = project.stored()?;
            let before = found;
            if before.as_ref() == Some(&project) {
                // The answer of the change that made it so may have been lost.
                self.removals.note(Removal::Project(StoredProject { version: project.version, ..stored }));
                return Ok(ChangedProject { project, created });
            }
            if self.store.put_project(&stored, entry(before.as_ref()).as_ref()).await? {
                project.version = stored.version;
                self.removals.note(Removal::Project(stored));
                project.sealed = self.load().await?.all.get(id).is_some_and(|stored| stored.sealed);
                return Ok(ChangedProject { project, created });
            }
        }
        Err(StoreError::Unavailable("too many concurrent changes of the project: try again".into()).into())
    }

    /// Replaces the secret of a project, and returns the new one. The previous secret stays valid until the next
    /// renewal.
    pub(super) async fn renew_secret(&self, id: &ProjectId, entry: &AuditEntry) -> Result<String, AuthError> {
        let fresh = secret::generate("")?;
        let change = |project: &mut Project| {
            project.secrets.insert(0, fresh.clone());
            project.secrets.truncate(MAX_TOKEN_SECRETS);
            Ok(())
        };
        self.change(id, Missing::Refuse, change, |_| Some(entry.clone())).await?;
        Ok(fresh)
    }
}

fn shares_issuer(one: &Project, other: &Project) -> bool {
    match (&one.settings.issuer, &other.settings.issuer) {
        (Some(one), Some(other)) => one.issuer == other.issuer && one.audience == other.audience,
        _ => false,
    }
}
