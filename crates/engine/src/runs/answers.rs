//! Answers to interrupts in the events of pushed runs.

use threadline_core::{NewEvents, Principal, RunId, ThreadKey};

use super::Runs;
use crate::errors::AnswerError;

impl Runs {
    /// Refuses events of an untrusted client that answer an interrupt of an agent which the server drives: the agent
    /// would not receive the answer, and the definition of the agent decides who gives it. Interrupts that the thread's
    /// row does not list count as such. Events of a run that has ended are compared with the stored ones, and change
    /// nothing; so does a start of a run that is stored.
    pub(super) async fn check_answers(
        &self,
        principal: &Principal,
        key: ThreadKey,
        run: &RunId,
        events: &NewEvents,
        starts: bool,
    ) -> Result<(), AnswerError> {
        let Some(answers) = events.answers().filter(|_| principal.is_untrusted()) else { return Ok(()) };
        let ids: Vec<String> = serde_json::from_str(answers).unwrap_or_default();
        let open = self.deps.store.open_interrupts(&[key]).await?.pop().map(|(_, open)| open).unwrap_or_default();
        let is_of_client = |id: &String| {
            let listed = open.iter().find(|interrupt| interrupt.id == *id);
            listed.is_some_and(|interrupt| interrupt.author.as_ref().is_some_and(|by| by.agent_id().is_none()))
        };
        if !ids.is_empty() && ids.iter().all(is_of_client) {
            return Ok(());
        }
        let stored = self.deps.store.run(key, run).await?;
        if stored.is_some_and(|run| starts || !run.status.is_active()) {
            Ok(())
        } else {
            Err(AnswerError::InterruptNotYours)
        }
    }
}
