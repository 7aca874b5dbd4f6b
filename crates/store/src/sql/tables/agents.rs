//! Agents that were created over the API.

use async_trait::async_trait;
use threadline_core::{AgentId, AuditEntry, ProjectId};

use super::Tables;
use crate::{
    AgentStore, StoreResult,
    sql::{pages, secrets::of_agent},
};

const PUT: &str = "\
    INSERT INTO agents (project, id, definition) VALUES ($1, $2, $3)
    ON CONFLICT (project, id) DO UPDATE SET definition = excluded.definition RETURNING id";
const LIST: &str = "SELECT id, definition FROM agents WHERE project = $1 ORDER BY id";
const DELETE: &str = "DELETE FROM agents WHERE project = $1 AND id = $2 RETURNING id";

#[async_trait]
impl<S: Tables> AgentStore for S {
    async fn put_agent(
        &self,
        project: &ProjectId,
        id: &AgentId,
        definition: &str,
        entry: Option<&AuditEntry>,
    ) -> StoreResult<()> {
        let sealed = self.secrets().seal(of_agent(project.as_str(), id.as_str()), definition)?;
        let values = vec![project.as_str().into(), id.as_str().into(), sealed.into()];
        self.recorded(PUT, values, entry).await.map(drop)
    }

    async fn agents(&self, project: &ProjectId) -> StoreResult<Vec<(AgentId, String)>> {
        let agents = pages::agents(&self.found(LIST, vec![project.as_str().into()]).await?)?.into_iter();
        let opened = agents.filter_map(|(id, stored)| {
            match self.secrets().open(of_agent(project.as_str(), id.as_str()), &stored) {
                Ok(definition) => Some((id, definition)),
                // The other agents of the project must stay available.
                Err(error) => {
                    tracing::error!(%error, agent = %id, %project, "cannot open the definition of an agent");
                    None
                }
            }
        });
        Ok(opened.collect())
    }

    async fn delete_agent(&self, project: &ProjectId, id: &AgentId, entry: Option<&AuditEntry>) -> StoreResult<bool> {
        let values = vec![project.as_str().into(), id.as_str().into()];
        Ok(!self.recorded(DELETE, values, entry).await?.is_empty())
    }
}
