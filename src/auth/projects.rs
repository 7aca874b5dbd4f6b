//! The projects, as the store has them: looked at often, changed rarely.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use tokio::{sync::Mutex, time::Instant};

use super::{AuthError, secret};
use crate::{
    domain::{
        IssuerSettings, ProjectId, ProjectLimits, ProjectSettings,
        limits::{KEY_MEMORY, MAX_TOKEN_SECRETS, PROJECT_MISS_PAUSE},
    },
    store::{DynStore, StoreError, StoredProject},
};

/// A change may be overtaken by another this often before it is given up.
const TRIES: usize = 16;

/// A project.
#[derive(Debug, Clone, PartialEq)]
pub struct Project {
    /// Its id.
    pub id: ProjectId,
    /// Its settings.
    pub settings: ProjectSettings,
    /// The secrets that its tokens are signed with, the newest first.
    pub secrets: Vec<String>,
    version: i64,
}

impl Project {
    fn read(stored: StoredProject) -> Result<Self, AuthError> {
        let broken = |error| StoreError::Corrupt(format!("the project {}: {error}", stored.id));
        Ok(Self {
            settings: serde_json::from_str(&stored.settings).map_err(broken)?,
            secrets: serde_json::from_str(&stored.secrets).map_err(broken)?,
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
            secrets: serde_json::to_string(&self.secrets).map_err(text)?,
        })
    }
}

/// All projects, as they were at a moment.
#[derive(Default)]
struct Known {
    all: BTreeMap<ProjectId, Project>,
    /// Those whose settings cannot be read.
    unreadable: BTreeSet<ProjectId>,
    /// When they were looked at, or were to be.
    at: Option<Instant>,
}

impl Known {
    fn is_older_than(&self, age: Duration) -> bool {
        self.at.is_none_or(|at| at.elapsed() > age)
    }
}

/// The projects. Cheap to clone. What other nodes have changed is seen [`KEY_MEMORY`] later.
#[derive(Clone)]
pub struct Projects {
    store: DynStore,
    known: Arc<RwLock<Arc<Known>>>,
    /// One look at a time.
    looking: Arc<Mutex<()>>,
}

impl Projects {
    pub(super) fn new(store: DynStore) -> Self {
        Self { store, known: Arc::default(), looking: Arc::default() }
    }

    fn known(&self) -> Arc<Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn remember(&self, all: BTreeMap<ProjectId, Project>, unreadable: BTreeSet<ProjectId>) -> Arc<Known> {
        let known = Arc::new(Known { all, unreadable, at: Some(Instant::now()) });
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known.clone();
        known
    }

    async fn load(&self) -> Result<Arc<Known>, AuthError> {
        let (mut all, mut unreadable) = (BTreeMap::new(), BTreeSet::new());
        for stored in self.store.projects().await? {
            let id = stored.id.clone();
            match Project::read(stored) {
                Ok(project) => drop(all.insert(id, project)),
                // Written by a newer release, perhaps: the other projects are not to suffer.
                Err(error) => {
                    tracing::error!(project = %id, %error, "a project cannot be read: its tokens are not let in, and it has no limits or retention of its own");
                    unreadable.insert(id);
                }
            }
        }
        Ok(self.remember(all, unreadable))
    }

    /// The projects as they were not longer ago than this; or, while somebody is looking or the store is away, as they
    /// were seen last.
    async fn fresh(&self, age: Duration) -> Result<Arc<Known>, AuthError> {
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
        match self.load().await {
            // Not asked again by each who comes: a store that hangs would hold them all up.
            Err(error) if known.at.is_some() => {
                tracing::warn!(%error, "the projects cannot be looked at; going by what is known");
                Ok(self.remember(known.all.clone(), known.unreadable.clone()))
            }
            looked => looked,
        }
    }

    /// Looks at them if that was long ago, so that their limits are known. A failure is no matter.
    pub(super) async fn look(&self) {
        if let Err(error) = self.fresh(KEY_MEMORY).await {
            tracing::debug!(%error, "the projects cannot be looked at");
        }
    }

    /// The limits that a project has of its own, as last seen.
    pub fn limits(&self, id: &ProjectId) -> Option<ProjectLimits> {
        self.known().all.get(id).map(|project| project.settings.limits)
    }

    /// Whether the threads of a project are to be named. Not, if its settings cannot be read: they may say so.
    pub async fn generates_names(&self, id: &ProjectId) -> bool {
        let Ok(known) = self.fresh(KEY_MEMORY).await else { return false };
        let wanted = known.all.get(id).and_then(|project| project.settings.generate_thread_names);
        wanted.unwrap_or(!known.unreadable.contains(id))
    }

    /// All of them, by id.
    pub async fn all(&self) -> Result<Vec<Project>, AuthError> {
        Ok(self.load().await?.all.values().cloned().collect())
    }

    /// The project of this id.
    pub(super) async fn get(&self, id: &ProjectId) -> Result<Option<Project>, AuthError> {
        if let Some(found) = self.fresh(KEY_MEMORY).await?.all.get(id) {
            return Ok(Some(found.clone()));
        }
        // It may be new. Another look is taken, but not for each stranger who asks.
        Ok(self.fresh(PROJECT_MISS_PAUSE).await?.all.get(id).cloned())
    }

    /// The project that names this issuer, with one of these audiences.
    pub(super) async fn of_issuer(
        &self,
        issuer: &str,
        audiences: &[String],
    ) -> Result<Option<(ProjectId, IssuerSettings)>, AuthError> {
        let fits = |found: &&IssuerSettings| found.issuer == issuer && audiences.contains(&found.audience);
        let known = self.fresh(KEY_MEMORY).await?;
        let mut named = known.all.values().filter_map(|project| Some((project, project.settings.issuer.as_ref()?)));
        let found = named.find(|(_, settings)| fits(settings));
        Ok(found.map(|(project, settings)| (project.id.clone(), settings.clone())))
    }

    /// The project of this id, made if there is none.
    pub(super) async fn ensured(&self, id: &ProjectId) -> Result<Project, AuthError> {
        if let Some(found) = self.get(id).await? {
            return Ok(found);
        }
        self.change(id, true, |_| Ok(())).await.map(|(project, _)| project)
    }

    /// Changes a project, however many others do so at once; with `make`, it is made if there is none. Answers the
    /// project, and whether it was made.
    pub(super) async fn change(
        &self,
        id: &ProjectId,
        make: bool,
        change: impl Fn(&mut Project) -> Result<(), AuthError>,
    ) -> Result<(Project, bool), AuthError> {
        for _ in 0..TRIES {
            let known = self.load().await?;
            let found = known.all.get(id).cloned();
            let made = found.is_none();
            let mut project = match found {
                Some(found) => found,
                None if make => Project {
                    id: id.clone(),
                    settings: ProjectSettings::default(),
                    secrets: vec![secret::generate("")?],
                    version: 0,
                },
                None => return Err(AuthError::NoProject),
            };
            change(&mut project)?;
            let taken = |other: &&Project| other.id != *id && shares_issuer(&project, other);
            if known.all.values().any(|other| taken(&other)) {
                let reason = "another project has this issuer with this audience; choose another audience";
                return Err(AuthError::Invalid(reason.into()));
            }
            let stored = project.stored()?;
            if self.store.put_project(&stored).await? {
                project.version = stored.version;
                self.load().await?;
                return Ok((project, made));
            }
        }
        Err(StoreError::Unavailable("the project is changing too fast; try again".into()).into())
    }

    /// Gives a project a new secret, and answers it. The one before it is good until the next time.
    pub(super) async fn renew_secret(&self, id: &ProjectId) -> Result<String, AuthError> {
        let fresh = secret::generate("")?;
        self.change(id, false, |project| {
            project.secrets.insert(0, fresh.clone());
            project.secrets.truncate(MAX_TOKEN_SECRETS);
            Ok(())
        })
        .await?;
        Ok(fresh)
    }
}

fn shares_issuer(one: &Project, other: &Project) -> bool {
    match (&one.settings.issuer, &other.settings.issuer) {
        (Some(one), Some(other)) => one.issuer == other.issuer && one.audience == other.audience,
        _ => false,
    }
}
