//! The secrets as a whole: their forms, and the step to another key.

use async_trait::async_trait;
use threadline_core::{AgentId, ProjectId};
use threadline_secrets::{DigestKey, Place};

use super::{Tables, Value, export::AGENTS};
use crate::{
    SecretForm, SecretName, SecretStore, StoreResult,
    sql::{
        pages::{self, each},
        secrets::{ROOT, of_agent, of_project},
    },
};

pub(crate) const ROOT_VALUE: &str = "SELECT value FROM secrets WHERE name = 'digests'";
/// Stores the root if there is none.
pub(crate) const MAKE_ROOT: &str = "INSERT INTO secrets (name, value) VALUES ('digests', $1) ON CONFLICT DO NOTHING";
/// Replaces the root that is stored as `$2`.
pub(crate) const CHANGE_ROOT: &str =
    "UPDATE secrets SET value = $1 WHERE name = 'digests' AND value = $2 RETURNING name";
const PROJECTS: &str = "SELECT id, secrets FROM projects ORDER BY id";
const RESEAL_PROJECT: &str = "UPDATE projects SET secrets = $1 WHERE secrets = $2 AND id = $3 RETURNING id";
const RESEAL_AGENT: &str =
    "UPDATE agents SET definition = $1 WHERE definition = $2 AND project = $3 AND id = $4 RETURNING id";

/// A secret as it is stored.
struct Stored {
    name: SecretName,
    text: String,
}

impl Stored {
    fn place(&self) -> Place<'_> {
        match &self.name {
            SecretName::Root => ROOT,
            SecretName::Project(id) => of_project(id.as_str()),
            SecretName::Agent(project, id) => of_agent(project.as_str(), id.as_str()),
        }
    }

    /// Statement that replaces the text, with its values: the new text, the old one, the key of the row.
    fn replacement(&self, text: String) -> (&'static str, Vec<Value>) {
        let (statement, row) = match &self.name {
            SecretName::Root => (CHANGE_ROOT, Vec::new()),
            SecretName::Project(id) => (RESEAL_PROJECT, vec![id.as_str()]),
            SecretName::Agent(project, id) => (RESEAL_AGENT, vec![project.as_str(), id.as_str()]),
        };
        let texts = [text.into(), self.text.as_str().into()];
        (statement, texts.into_iter().chain(row.into_iter().map(Value::from)).collect())
    }
}

/// Every secret as it is stored, the root first.
async fn stored<S: Tables>(store: &S) -> StoreResult<Vec<Stored>> {
    let root = store.found(ROOT_VALUE, Vec::new()).await?;
    let mut all = each(&root, |columns| Ok(Stored { name: SecretName::Root, text: columns.text()? }))?;
    let projects = store.found(PROJECTS, Vec::new()).await?;
    all.extend(each(&projects, |columns| {
        Ok(Stored { name: SecretName::Project(columns.id(ProjectId::new)?), text: columns.text()? })
    })?);
    let agents: Vec<(ProjectId, AgentId, String)> = pages::all_agents(&store.found(AGENTS, Vec::new()).await?)?;
    all.extend(agents.into_iter().map(|(project, id, text)| Stored { name: SecretName::Agent(project, id), text }));
    Ok(all)
}

#[async_trait]
impl<S: Tables> SecretStore for S {
    fn digest_key(&self, purpose: &str) -> StoreResult<DigestKey> {
        self.secrets().digest_key(purpose)
    }

    fn sealing_key(&self) -> Option<String> {
        self.secrets().sealing_key()
    }

    async fn secret_forms(&self) -> StoreResult<Vec<(SecretName, SecretForm)>> {
        let all = stored(self).await?.into_iter();
        Ok(all.map(|stored| (stored.name.clone(), self.secrets().form(stored.place(), &stored.text))).collect())
    }

    async fn reseal(&self) -> StoreResult<u64> {
        let secrets = self.secrets();
        if !secrets.seals() {
            return Ok(0);
        }
        let mut done = 0;
        loop {
            let left = stored(self).await?.into_iter();
            let left = left.filter(|stored| secrets.form(stored.place(), &stored.text).is_to_be_sealed());
            let left: Vec<_> = left.collect();
            if left.is_empty() {
                return Ok(done);
            }
            for stored in left {
                let text = secrets.seal(stored.place(), &secrets.open(stored.place(), &stored.text)?)?;
                let (statement, values) = stored.replacement(text);
                // A row that was changed meanwhile is looked at again.
                done += self.changed(statement, values).await?.len() as u64;
            }
        }
    }
}
