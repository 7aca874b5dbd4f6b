//! Agents that were created over the API.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{AgentId, ProjectId};

use super::PgStore;
use crate::{AgentStore, StoreResult, sql::pages};

const PUT: &str = "\
    INSERT INTO agents (project, id, definition) VALUES ($1, $2, $3)
    ON CONFLICT (project, id) DO UPDATE SET definition = excluded.definition";

#[async_trait]
impl AgentStore for PgStore {
    async fn put_agent(&self, project: &ProjectId, id: &AgentId, definition: &str) -> StoreResult<()> {
        self.write(query(PUT).bind(project.as_str()).bind(id.as_str()).bind(definition)).await?;
        Ok(())
    }

    async fn agents(&self, project: &ProjectId) -> StoreResult<Vec<(AgentId, String)>> {
        let list = query("SELECT id, definition FROM agents WHERE project = $1 ORDER BY id");
        pages::agents(&self.read_rows(list.bind(project.as_str())).await?)
    }

    async fn delete_agent(&self, project: &ProjectId, id: &AgentId) -> StoreResult<bool> {
        let delete = query("DELETE FROM agents WHERE project = $1 AND id = $2 RETURNING id");
        Ok(!self.write(delete.bind(project.as_str()).bind(id.as_str())).await?.is_empty())
    }
}
