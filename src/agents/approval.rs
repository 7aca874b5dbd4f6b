//! Answers to interrupts: who may give them.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::value::RawValue;
use threadline_core::{
    Principal, Scope,
    agent::{Agent, Approvals},
    json::plain,
};

use super::client_input::ClientInput;

/// Reason why a principal may not answer an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ApprovalError {
    /// The principal lacks the scope `approve`.
    Forbidden,
    /// Only the application answers the interrupts of the agent.
    BackendApproves,
}

/// Refuses an input that answers an interrupt, from a principal that may not: one without the scope `approve`, or an
/// untrusted client of an agent whose interrupts the application answers. True if the input has an answer.
pub(super) fn check(principal: &Principal, agent: &Agent, input: &ClientInput) -> Result<bool, ApprovalError> {
    if !answers(input) {
        return Ok(false);
    }
    if !principal.scopes.contains(Scope::Approve) {
        return Err(ApprovalError::Forbidden);
    }
    if agent.approvals == Approvals::Backend && principal.is_untrusted() {
        return Err(ApprovalError::BackendApproves);
    }
    Ok(true)
}

/// True if the input has an answer: an entry of `resume`, or `forwardedProps.command.resume`, with which LangGraph's
/// clients answer (<https://docs.ag-ui.com/concepts/interrupts>).
pub(super) fn answers(input: &ClientInput) -> bool {
    let entries = input.resume.as_ref().is_some_and(|resume| !matches!(resume.get().trim(), "null" | "[]"));
    let forwarded = input
        .forwarded_props
        .as_ref()
        .is_some_and(|props| named(props.get(), "command").iter().any(|command| !named(command, "resume").is_empty()));
    // Members that are handed on as they came: a decoder may take them for the ones that were looked at.
    let others = input.rest.iter().any(|(name, _)| matches!(&*plain(name), "resume" | "forwardedprops"));
    entries || forwarded || others
}

/// Values other than null of the members that tolerant decoders take for the one of this name. An object that cannot be
/// read has one, itself.
fn named<'a>(object: &'a str, name: &str) -> Vec<&'a str> {
    if !object.trim_ascii_start().starts_with('{') {
        return Vec::new();
    }
    let Ok(members) = serde_json::from_str::<BTreeMap<Cow<'a, str>, &'a RawValue>>(object) else { return vec![object] };
    let found = members.into_iter().filter(|(found, _)| plain(found) == name).map(|(_, value)| value.get());
    found.filter(|value| *value != "null").collect()
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
            r#"{"forwardedProps":{"command":{},"Command":{"Resume":"yes"}}}"#,
            r#"{"forwardedProps":{"command":{"\ud800":1}}}"#,
            r#"{"Resume":[{"interruptId":"i"}]}"#,
            r#"{"reſume":[{"interruptId":"i"}]}"#,
            r#"{"forwarded_props":{"command":{"resume":"yes"}}}"#,
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
