//! Agents that must not be called a second time in silence.

use threadline_core::agent::{Agent, Recovery};

/// End of a run whose agent was called, and must not be called a second time in silence: its code and message; `None` if the
/// agent allows it.
pub(super) fn second_call(agent: &Agent, answers: bool) -> Option<(&'static str, &'static str)> {
    if agent.recovery == Recovery::None {
        let message = "The server that ran the agent was lost, and the agent is called once at most.";
        return Some(("agent-lost", message));
    }
    let message =
        "The server that ran the agent was lost after an interrupt was answered: what was approved may have been done.";
    (answers && !agent.tools_repeatable).then_some(("recovery-unsafe", message))
}
