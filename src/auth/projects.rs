//! The projects, as the store has them: looked at often, changed rarely.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, PoisonError, RwLock},
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

#[derive(Default)]
struct Known {
    all: Arc<BTreeMap<ProjectId, Project>>,
    at: Option<Instant>,
}

/// The projects. Cheap to clone. What other nodes have changed is seen [`KEY_MEMORY`] later.
#[derive(Clone)]
pub struct Projects {
    store: DynStore,
    known: Arc<Mutex<Known>>,
    /// Of those that have limits of their own: asked for with every request.
    limits: Arc<RwLock<HashMap<ProjectId, ProjectLimits>>>,
}

impl Projects {
    pub(super) fn new(store: DynStore) -> Self {
        Self { store, known: Arc::default(), limits: Arc::default() }
    }

    async fn load(&self, known: &mut Known) -> Result<(), AuthError> {
        let mut all = BTreeMap::new();
        for stored in self.store.projects().await? {
            let project = Project::read(stored)?;
            all.insert(project.id.clone(), project);
        }
        let own = |project: &Project| (project.id.clone(), project.settings.limits);
        let own = all.values().map(own).filter(|(_, limits)| *limits != ProjectLimits::default()).collect();
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = own;
        *known = Known { all: Arc::new(all), at: Some(Instant::now()) };
        Ok(())
    }

    /// The limits that a project has of its own, as last seen.
    pub fn limits(&self, id: &ProjectId) -> Option<ProjectLimits> {
        self.limits.read().unwrap_or_else(PoisonError::into_inner).get(id).copied()
    }

    /// All of them, by id.
    pub async fn all(&self) -> Result<Arc<BTreeMap<ProjectId, Project>>, AuthError> {
        let known = &mut *self.known.lock().await;
        if known.at.is_none_or(|at| at.elapsed() > KEY_MEMORY) {
            self.load(known).await?;
        }
        Ok(known.all.clone())
    }

    /// What is found in them. One that is missing may be new: another look is taken, but not for each stranger who asks.
    async fn find<T>(&self, pick: impl Fn(&BTreeMap<ProjectId, Project>) -> Option<T>) -> Result<Option<T>, AuthError> {
        if let Some(found) = pick(&*self.all().await?) {
            return Ok(Some(found));
        }
        let known = &mut *self.known.lock().await;
        if known.at.is_none_or(|at| at.elapsed() > PROJECT_MISS_PAUSE) {
            self.load(known).await?;
        }
        Ok(pick(&known.all))
    }

    /// The project of this id.
    pub(super) async fn get(&self, id: &ProjectId) -> Result<Option<Project>, AuthError> {
        self.find(|all| all.get(id).cloned()).await
    }

    /// The project that names this issuer, with one of these audiences.
    pub(super) async fn of_issuer(
        &self,
        issuer: &str,
        audiences: &[String],
    ) -> Result<Option<(ProjectId, IssuerSettings)>, AuthError> {
        let fits = |found: &&IssuerSettings| found.issuer == issuer && audiences.contains(&found.audience);
        let pick = |all: &BTreeMap<ProjectId, Project>| {
            let mut named = all.values().filter_map(|project| Some((project, project.settings.issuer.as_ref()?)));
            named.find(|(_, settings)| fits(settings)).map(|(project, settings)| (project.id.clone(), settings.clone()))
        };
        // Not `find`: most tokens are signed with a project's secret, and their issuer is no miss.
        Ok(pick(&*self.all().await?))
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
            let known = &mut *self.known.lock().await;
            self.load(known).await?;
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
                self.load(known).await?;
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
