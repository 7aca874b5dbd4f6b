//! Log of a chat: the runs of its messages, and their chunks.

use threadline_core::{
    Principal, Run, Thread, ThreadId,
    limits::MAX_PAGE,
    projection::ui_message::{UiStream, continues},
};
use threadline_engine::LookupError;
use threadline_http::problem::Problem;

use crate::api::{ApiState, run_log::Log};

/// Thread of a chat: the listed branch of its conversation. `None` if the chat does not exist.
pub async fn thread_of(state: &ApiState, principal: &Principal, chat: &ThreadId) -> Result<Option<Thread>, Problem> {
    let thread = match state.service.threads.get(principal, chat).await {
        Err(LookupError::ThreadNotFound) => return Ok(None),
        thread => thread?,
    };
    if thread.branch.listed {
        return Ok(Some(thread));
    }
    let branches = state.service.forks.branches(principal, chat).await?;
    Ok(Some(branches.into_iter().find(|branch| branch.branch.listed).unwrap_or(thread)))
}

impl Log<'_> {
    /// Runs of the message that `newest` belongs to, oldest first, with `newest` at the end: at most a page of them.
    pub async fn message_of(&self, newest: &Run) -> Result<Vec<Run>, Problem> {
        let mut chain = vec![newest.clone()];
        if self.continues(newest).await? {
            let (runs, _) = self.runs(MAX_PAGE).await?;
            for run in runs.into_iter().filter(|run| run.fence < newest.fence && run.producer_seq > 0) {
                let continues = self.continues(&run).await?;
                chain.push(run);
                if !continues {
                    break;
                }
            }
        }
        chain.reverse();
        Ok(chain)
    }

    /// True if a run continues the message of the run before.
    async fn continues(&self, run: &Run) -> Result<bool, Problem> {
        let service = &self.state.service;
        let Some(first) = service.events.first_of(self.principal, self.thread, run, self.epoch).await? else {
            return Ok(false);
        };
        Ok(service.queue.process(self.principal, first.len(), || continues(&first)).await?)
    }

    /// Stream of a message after all runs of `chain` but the last: the client has these.
    pub async fn before(&self, chain: &[Run]) -> Result<UiStream, Problem> {
        let first = chain.first().map_or("", |run| run.id.as_str());
        let (mut stream, mut had) = (UiStream::new(first), Vec::new());
        if chain.len() < 2 {
            return Ok(stream);
        }
        let mut work = self.begin().await?;
        for pair in chain.windows(2) {
            let observe = |event: &[u8]| {
                stream.observe(event, &mut had);
                had.clear();
            };
            self.read(&mut work, &pair[0], observe).await?;
            stream.continued(pair[1].id.as_str(), true);
        }
        Ok(stream)
    }
}
