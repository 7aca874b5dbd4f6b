//! Export: all of a store, page by page.

use async_trait::async_trait;
use threadline_core::{AgentId, ApiKey, Digest, ProjectId, RunId, ThreadKey, UserId};

use super::{Tables, Value, identity};
use crate::{
    AnnotatedThread, ExportStore, FeedImage, MovedThread, StoreResult,
    sql::{annotations, columns::Columns, limit as count, pages, secrets::of_agent},
};

const COUNT: &str = "SELECT count(*) FROM heads WHERE key > 0";
const TURNS: &str = "SELECT key, run FROM turns WHERE key > $1 AND place IS NULL ORDER BY key, run LIMIT $2";
pub(super) const AGENTS: &str = "SELECT project, id, definition FROM agents ORDER BY project, id";

#[async_trait]
impl<S: Tables> ExportStore for S {
    async fn count_threads(&self) -> StoreResult<u64> {
        let rows = self.found(COUNT, Vec::new()).await?;
        rows.first().map_or(Ok(0), |row| Columns::new(row).count())
    }

    async fn all_threads(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<MovedThread>> {
        pages::moved_threads(&self.found(S::STATEMENTS.all_threads, page(after, limit)).await?)
    }

    async fn turns(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<(ThreadKey, RunId)>> {
        let rows = self.found(TURNS, page(after, limit)).await?;
        pages::each(&rows, |columns| Ok((ThreadKey(columns.int()?), columns.id(RunId::new)?)))
    }

    async fn annotated_threads(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<AnnotatedThread>> {
        annotations::threads(&self.found(S::STATEMENTS.annotated_threads, page(after, limit)).await?)
    }

    async fn all_agents(&self) -> StoreResult<Vec<(ProjectId, AgentId, String)>> {
        let agents = pages::all_agents(&self.found(AGENTS, Vec::new()).await?)?.into_iter();
        let opened = agents.map(|(project, id, stored)| {
            let definition = self.secrets().open(of_agent(project.as_str(), id.as_str()), &stored)?;
            Ok((project, id, definition))
        });
        opened.collect()
    }

    async fn all_keys(&self) -> StoreResult<Vec<(ApiKey, Digest)>> {
        identity::all_keys(&self.found(identity::ALL_KEYS, Vec::new()).await?)
    }

    async fn all_feeds(
        &self,
        after: Option<&(ProjectId, UserId)>,
        limit: usize,
    ) -> StoreResult<Vec<(ProjectId, UserId)>> {
        // No id is empty, so an empty pair comes before all others.
        let (project, user) = after.map_or(("", ""), |(project, user)| (project.as_str(), user.as_str()));
        let values = vec![project.into(), user.into(), count(limit).into()];
        pages::feeds(&self.found(S::STATEMENTS.all_feeds, values).await?)
    }

    async fn feed_image(&self, project: &ProjectId, user: &UserId) -> StoreResult<FeedImage> {
        let values = vec![project.as_str().into(), user.as_str().into()];
        pages::feed_image(&self.found(S::STATEMENTS.feed_image, values).await?)
    }
}

pub(crate) fn page(after: Option<ThreadKey>, limit: usize) -> Vec<Value> {
    vec![after.map_or(i64::MIN, |key| key.0).into(), count(limit).into()]
}
