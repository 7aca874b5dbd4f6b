//! Tool calls that wait for the front end: calls of tools that it had brought to the run which made the call.
//!
//! The server notes the names of a run's tools in its RUN_STARTED. A run without that note has no tools of the front end.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    event::{elements, members},
    list::List,
    text::Wtf8,
};

/// Member of [`SERVER_MEMBER`](crate::event::SERVER_MEMBER) that notes what a run's agent was given.
pub const GIVEN: &str = "given";

/// Tools and open calls of the front end.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct FrontEnd {
    /// Names of the tools that were brought to the run in progress.
    tools: BTreeSet<Box<str>>,
    /// Ids of calls without a result, of tools that were brought to the run which made the call.
    calls: BTreeSet<Box<str>>,
}

impl FrontEnd {
    /// True if a call waits for the front end.
    pub(super) fn awaits(&self, call: &str) -> bool {
        self.calls.contains(call)
    }

    /// Notes the tools of a run that begins: `given.tools` of the server's member. Open calls of earlier runs stay.
    pub(super) fn run_started(&mut self, server: Option<&str>) {
        let names = server.and_then(|server| elements(last(last(server, GIVEN)?, "tools")?));
        let names = names.into_iter().flatten().filter_map(Wtf8::of).map(|name| name.into_string().into());
        self.tools = names.collect();
    }

    /// Notes a new call of a tool.
    pub(super) fn called(&mut self, call: &str, tool: &str) {
        if self.tools.contains(tool) {
            self.calls.insert(call.into());
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
        self.calls.retain(|call| known.contains(&**call));
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
