//! Agents that were created over the API.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{AgentId, ProjectId};

use super::{SqliteStore, fetch};
use crate::{AgentStore, StoreResult, sql::pages};

const PUT: &str = "\
    INSERT INTO agents (project, id, definition) VALUES (?, ?, ?)
    ON CONFLICT (project, id) DO UPDATE SET definition = excluded.definition";

#[async_trait]
impl AgentStore for SqliteStore {
    async fn put_agent(&self, project: &ProjectId, id: &AgentId, definition: &str) -> StoreResult<()> {
        let (project, id, definition) = (project.clone(), id.clone(), definition.to_owned());
        self.transact(move |connection| {
            Box::pin(async move {
                fetch::run(connection, query(PUT).bind(project.as_str()).bind(id.as_str()).bind(definition)).await
            })
        })
        .await
    }

    async fn agents(&self, project: &ProjectId) -> StoreResult<Vec<(AgentId, String)>> {
        let list = query("SELECT id, definition FROM agents WHERE project = ? ORDER BY id");
        pages::agents(&self.read_rows(list.bind(project.as_str())).await?)
    }

    async fn delete_agent(&self, project: &ProjectId, id: &AgentId) -> StoreResult<bool> {
        let (project, id) = (project.clone(), id.clone());
        self.transact(move |connection| {
            Box::pin(async move {
                let delete = query("DELETE FROM agents WHERE project = ? AND id = ?");
                Ok(fetch::change(connection, delete.bind(project.as_str()).bind(id.as_str())).await? > 0)
            })
        })
        .await
    }
}
