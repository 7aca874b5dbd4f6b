//! Tool calls that wait for the front end: calls of tools that it had supplied to the run which made the call.
//!
//! The RUN_STARTED of a run names these tools: in its metadata, if the server drives the run, and else in `input.tools`, as
//! AG-UI has it. A run without them has no tools of the front end.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{
    event::{elements, members},
    list::List,
    text::Wtf8,
};
use crate::event::SERVER_MEMBER;

/// Member of [`SERVER_MEMBER`] that notes what a run's agent was given.
pub const GIVEN: &str = "given";

/// Tools and open calls of the front end.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct FrontEnd {
    /// Names of the tools that it supplied to the run in progress.
    tools: BTreeSet<Box<str>>,
    /// Calls without a result, of tools that it had supplied to the run which made the call: id and tool.
    calls: BTreeMap<Box<str>, Box<str>>,
}

impl FrontEnd {
    /// True if a call of this tool waits for the front end. A call that was renamed since calls another tool.
    pub(super) fn awaits(&self, call: &str, tool: &str) -> bool {
        self.calls.get(call).is_some_and(|called| **called == *tool)
    }

    /// Notes the tools of a run that begins, by the metadata and the input of its RUN_STARTED. Open calls of earlier runs
    /// stay.
    pub(super) fn run_started(&mut self, metadata: Option<&str>, input: Option<&str>) {
        let given = metadata.and_then(|metadata| last(last(metadata, SERVER_MEMBER)?, GIVEN));
        // Tools that a key has supplied are the application's own.
        let given = given.filter(|given| last(given, "trust") == Some("\"client\""));
        let names = given.and_then(|given| elements(last(given, "tools")?)).into_iter().flatten();
        let brought = input.and_then(|input| elements(last(input, "tools")?)).into_iter().flatten();
        let names = names.chain(brought.filter_map(|tool| last(tool, "name"))).filter_map(Wtf8::of);
        self.tools = names.map(|name| name.into_string().into()).collect();
    }

    /// Forgets the tools of a run that has ended: events of another run may follow without a RUN_STARTED.
    pub(super) fn run_ended(&mut self) {
        self.tools.clear();
    }

    /// Notes a new call of a tool.
    pub(super) fn called(&mut self, call: &str, tool: &str) {
        if self.tools.contains(tool) {
            self.calls.insert(call.into(), tool.into());
        }
    }

    /// Notes the result of a call.
    pub(super) fn answered(&mut self, call: &str) {
        self.calls.remove(call);
    }

    /// Notes the calls and results of a list of messages that replaces `before`, the ids of its calls.
    pub(super) fn replaced(&mut self, before: &BTreeSet<Box<str>>, messages: &List) {
        let calls = || messages.iter().flat_map(|message| message.tool_calls.as_deref().unwrap_or_default());
        let known: BTreeSet<&str> = calls().map(|call| &*call.id).collect();
        self.calls.retain(|call, _| known.contains(&**call));
        for call in calls().filter(|call| !before.contains(&call.id)) {
            self.called(&call.id, &call.name);
        }
        let results = messages.iter().filter(|message| message.role() == "tool");
        results.filter_map(|message| message.member("toolCallId")).for_each(|call| self.answered(call));
    }
}

/// Member of an object; of several with one name the last counts.
fn last<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    members(object)?.0.into_iter().rev().find(|(found, _)| found == name).map(|(_, token)| token)
}
