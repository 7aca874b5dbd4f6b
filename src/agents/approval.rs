//! Answers to interrupts: who may give them.

use threadline_core::{
    Principal, Scope,
    agent::{Agent, Approvals},
};

use super::{client_input::ClientInput, reading::Object};

/// Reason why a principal may not answer an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ApprovalError {
    /// The principal lacks the scope `approve`.
    Forbidden,
    /// Only the application answers the interrupts of the agent.
    BackendApproves,
}

/// Refuses an input that answers an interrupt, from a principal that may not: one without the scope `approve`, or an
/// untrusted client of an agent whose interrupts the application answers.
pub(super) fn check(principal: &Principal, agent: &Agent, input: &ClientInput) -> Result<(), ApprovalError> {
    if !answers(input) {
        return Ok(());
    }
    if !principal.scopes.contains(Scope::Approve) {
        return Err(ApprovalError::Forbidden);
    }
    if agent.approvals == Approvals::Backend && principal.is_untrusted() {
        return Err(ApprovalError::BackendApproves);
    }
    Ok(())
}

/// True if the input has an answer: an entry of `resume`, or `forwardedProps.command.resume`, with which LangGraph's
/// clients answer (<https://docs.ag-ui.com/concepts/interrupts>).
fn answers(input: &ClientInput) -> bool {
    let entries = input.resume.as_ref().is_some_and(|resume| !matches!(resume.get().trim(), "null" | "[]"));
    let command = input.forwarded_props.as_ref().and_then(|props| Object(props.get()).raw("command"));
    entries || command.is_some_and(|command| Object(command).raw("resume").is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_an_answer_are_seen() {
        let input = |text: &str| answers(&serde_json::from_str(text).expect("an input"));
        for answer in [
            r#"{"resume":[{"interruptId":"i","status":"resolved"}]}"#,
            r#"{"forwardedProps":{"command":{"resume":"yes"}}}"#,
            r#"{"forwardedProps":{"command":{"resume":null,"\u0072esume":false}}}"#,
            r#"{"forwardedProps":{"command":{},"command":{"resume":{}}}}"#,
        ] {
            assert!(input(answer), "{answer}");
        }
        for other in [
            "{}",
            r#"{"resume":null}"#,
            r#"{"resume":[]}"#,
            r#"{"forwardedProps":{"resume":"yes"}}"#,
            r#"{"forwardedProps":{"command":{"resume":null}}}"#,
            r#"{"forwardedProps":["command"]}"#,
        ] {
            assert!(!input(other), "{other}");
        }
    }
}
