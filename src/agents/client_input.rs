//! Input that a client sends to start a run of an agent.

use std::{collections::HashSet, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor},
};
use serde_json::value::RawValue;
use threadline_core::{
    Principal, RunId, ThreadId,
    json::{AtMost, has_more_items},
    limits::{INPUT_COPIES, LONG_INPUT_BYTES, MAX_INPUT_ITEMS, MAX_INPUT_MESSAGES},
};
use threadline_engine::{
    Projections,
    limits::{BudgetPermit, Limited},
};

/// Members unknown to AG-UI's current schema, in their order, each byte for byte.
pub type Unknown = Vec<(String, Box<RawValue>)>;

/// AG-UI's RunAgentInput as a client sends it. Every member is optional. Of a member that occurs twice the last one
/// counts, as in `JSON.parse`. Source: <https://docs.ag-ui.com/sdk/js/core/types#runagentinput>.
#[derive(Debug, Default)]
pub struct ClientInput {
    /// Thread id; if present, it must be that of the request.
    pub thread_id: Option<ThreadId>,
    /// Id of the run; generated if absent.
    pub run_id: Option<RunId>,
    /// Id of the run that this one continues.
    pub parent_run_id: Option<String>,
    /// Messages: the complete conversation, or only the new ones.
    pub messages: Vec<Box<RawValue>>,
    /// State of the client; the thread's own applies if absent, null or empty.
    pub state: Option<Box<RawValue>>,
    /// JSON array of the front end's tools.
    pub tools: Option<Box<RawValue>>,
    /// JSON array of context entries for the agent.
    pub context: Option<Box<RawValue>>,
    /// JSON value that is forwarded to the agent and never stored.
    pub forwarded_props: Option<Box<RawValue>>,
    /// JSON array of answers to interrupts.
    pub resume: Option<Box<RawValue>>,
    /// All other members: forwarded to the agent and never stored.
    pub rest: Unknown,
    /// Memory of the input, and of what is built from it; `None` until some was taken.
    pub room: Option<BudgetPermit>,
}

/// Takes memory for an input of this many bytes as JSON, and waits for it. Held until the run has begun: its driver keeps
/// only the request to the agent. Small inputs take none.
pub async fn room_for(projections: &Projections, principal: &Principal, bytes: usize) -> Result<BudgetPermit, Limited> {
    projections.room(principal, if bytes < LONG_INPUT_BYTES { 0 } else { bytes * INPUT_COPIES }).await
}

impl ClientInput {
    /// Bytes of its JSON values.
    pub fn bytes(&self) -> usize {
        let values = [&self.state, &self.tools, &self.context, &self.forwarded_props, &self.resume];
        let messages = self.messages.iter().chain(values.into_iter().flatten());
        messages.map(|value| value.get().len()).sum::<usize>()
            + self.rest.iter().map(|(name, value)| name.len() + value.get().len()).sum::<usize>()
    }
}

// Implemented by hand: `#[serde(flatten)]` would parse unknown members, and lose numbers that no Rust type can hold.
impl<'de> Deserialize<'de> for ClientInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = ClientInput;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a RunAgentInput")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ClientInput, A::Error> {
        let mut input = ClientInput::default();
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "threadId" => input.thread_id = map.next_value()?,
                "runId" => input.run_id = map.next_value()?,
                "parentRunId" => input.parent_run_id = map.next_value()?,
                "messages" => input.messages = map.next_value::<AtMost<_, MAX_INPUT_MESSAGES>>()?.0,
                "state" => input.state = map.next_value()?,
                "tools" => input.tools = map.next_value()?,
                "context" => input.context = map.next_value()?,
                "forwardedProps" => input.forwarded_props = map.next_value()?,
                "resume" => input.resume = map.next_value()?,
                _ if input.rest.len() == MAX_INPUT_ITEMS => {
                    return Err(A::Error::custom(format_args!("more than {MAX_INPUT_ITEMS} unknown members")));
                }
                _ => input.rest.push((name, map.next_value()?)),
            }
        }
        for (name, list) in [("tools", &input.tools), ("context", &input.context), ("resume", &input.resume)] {
            if list.as_ref().is_some_and(|list| has_more_items(list.get(), MAX_INPUT_ITEMS)) {
                return Err(A::Error::custom(format_args!("{name} has more than {MAX_INPUT_ITEMS} items")));
            }
        }
        let mut later = HashSet::new();
        let counts: Vec<_> = input.rest.iter().rev().map(|(name, _)| later.insert(name.as_str())).collect();
        let mut counts = counts.into_iter().rev();
        input.rest.retain(|_| counts.next().unwrap_or(true));
        Ok(input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ClientInput, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn members_without_a_name_of_ours_are_kept_as_they_came() {
        let text = r#"{"b":1,"big":123456789012345678901234567890,"half":"\ud800","a":1e999,"b":{"x":1,"x":2},
            "parentRunId":null,"tools":null,"messages":[{"id":"\udfff"}]}"#;
        let input = read(text).expect("an input");
        let rest: Vec<_> = input.rest.iter().map(|(name, value)| (name.as_str(), value.get())).collect();
        let expected = [
            ("big", "123456789012345678901234567890"),
            ("half", r#""\ud800""#),
            ("a", "1e999"),
            ("b", r#"{"x":1,"x":2}"#),
        ];
        assert_eq!(rest, expected);
        assert!(input.parent_run_id.is_none() && input.tools.is_none());
        assert_eq!(input.messages[0].get(), r#"{"id":"\udfff"}"#);
    }

    #[test]
    fn the_numbers_of_items_are_bounded() {
        let list = |item: &str, count: usize| format!("[{}]", vec![item; count].join(","));
        for (name, most) in [
            ("messages", MAX_INPUT_MESSAGES),
            ("tools", MAX_INPUT_ITEMS),
            ("context", MAX_INPUT_ITEMS),
            ("resume", MAX_INPUT_ITEMS),
        ] {
            let text = |count| format!("{{\"{name}\":{}}}", list("{\"a\":[1,2]}", count));
            assert!(read(&text(most)).is_ok(), "{name}");
            assert!(read(&text(most + 1)).is_err(), "{name}");
        }
        let unknown = |count| format!("{{{}}}", vec!["\"x\":0"; count].join(","));
        assert!(read(&unknown(MAX_INPUT_ITEMS)).is_ok() && read(&unknown(MAX_INPUT_ITEMS + 1)).is_err());
        // A state may be a list of any length.
        assert!(read(&format!("{{\"state\":{}}}", list("0", 2 * MAX_INPUT_MESSAGES))).is_ok());
    }

    #[test]
    fn members_of_another_type_are_refused() {
        for bad in [
            r#"{"threadId":7}"#,
            r#"{"threadId":""}"#,
            r#"{"runId":["r"]}"#,
            r#"{"parentRunId":{}}"#,
            r#"{"messages":null}"#,
            r#"{"messages":{}}"#,
            r#"{"messages":"hi"}"#,
            "[]",
            "7",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
