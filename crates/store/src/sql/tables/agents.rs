//! Agents that were created over the API.

use async_trait::async_trait;
use threadline_core::{AgentId, ProjectId};

use super::Tables;
use crate::{AgentStore, StoreResult, sql::pages};

const PUT: &str = "\
    INSERT INTO agents (project, id, definition) VALUES ($1, $2, $3)
    ON CONFLICT (project, id) DO UPDATE SET definition = excluded.definition";
const LIST: &str = "SELECT id, definition FROM agents WHERE project = $1 ORDER BY id";
const DELETE: &str = "DELETE FROM agents WHERE project = $1 AND id = $2 RETURNING id";

#[async_trait]
impl<S: Tables> AgentStore for S {
    async fn put_agent(&self, project: &ProjectId, id: &AgentId, definition: &str) -> StoreResult<()> {
        let values = vec![project.as_str().into(), id.as_str().into(), definition.into()];
        self.changed(PUT, values).await.map(drop)
    }

    async fn agents(&self, project: &ProjectId) -> StoreResult<Vec<(AgentId, String)>> {
        pages::agents(&self.found(LIST, vec![project.as_str().into()]).await?)
    }

    async fn delete_agent(&self, project: &ProjectId, id: &AgentId) -> StoreResult<bool> {
        Ok(!self.changed(DELETE, vec![project.as_str().into(), id.as_str().into()]).await?.is_empty())
    }
}
