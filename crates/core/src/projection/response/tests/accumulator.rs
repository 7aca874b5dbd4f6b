//! Rules by which OpenAI's clients accumulate a stream. A stream that breaks one ends them with an error.

use std::collections::HashSet;

use serde_json::{Value, json};

/// Client that takes in a stream.
#[derive(Debug, Default)]
pub struct Accumulator {
    next: u64,
    id: Option<Value>,
    /// Items by their places: as accumulated, and true for those that are done.
    items: Vec<(Value, bool)>,
    names: HashSet<String>,
    ended: Option<Value>,
}

impl Accumulator {
    /// Response of the terminal event.
    pub fn ended(&self) -> Option<&Value> {
        self.ended.as_ref()
    }

    /// Items as accumulated so far.
    pub fn items(&self) -> Value {
        self.items.iter().map(|(item, _)| item.clone()).collect()
    }

    pub fn take(&mut self, event: &Value) {
        assert_eq!(event["sequence_number"], self.next, "numbers are dense");
        self.next += 1;
        assert!(self.ended.is_none(), "nothing follows the terminal event: {event}");
        let kind = event["type"].as_str().expect("a type");
        match kind {
            "response.created" | "response.in_progress" => self.lifecycle(event, kind),
            "response.completed" | "response.failed" | "response.incomplete" => self.terminal(event),
            "response.output_item.added" => self.added(event),
            "response.output_item.done" => self.done(event),
            "response.content_part.added" => {
                let item = self.item(event);
                let content = item["content"].as_array_mut().expect("a list");
                assert_eq!(event["content_index"], content.len());
                assert_eq!(event["part"]["text"], "");
                content.push(event["part"].clone());
            }
            "response.content_part.done" => {
                let item = self.item(event);
                assert_eq!(event["part"], item["content"][0], "the part is what was accumulated");
            }
            "response.mcp_call.in_progress" | "response.mcp_call.completed" => {
                assert_eq!(self.item(event)["type"], "mcp_call");
            }
            _ => self.piece(event, kind),
        }
    }

    fn lifecycle(&mut self, event: &Value, kind: &str) {
        let response = &event["response"];
        let place = if kind == "response.created" { 0 } else { 1 };
        assert_eq!(event["sequence_number"], place, "{kind} has its place");
        assert_eq!((&response["status"], &response["output"]), (&json!("in_progress"), &json!([])));
        assert_eq!(self.id.get_or_insert_with(|| response["id"].clone()), &response["id"]);
    }

    fn terminal(&mut self, event: &Value) {
        let response = &event["response"];
        assert_eq!(self.id.as_ref(), Some(&response["id"]), "the identity of the response does not change");
        assert!(self.items.iter().all(|(_, is_done)| *is_done), "all items are done");
        let items: Vec<&Value> = self.items.iter().map(|(item, _)| item).collect();
        assert_eq!(json!(items), response["output"]);
        let status = response["status"].as_str().expect("a status");
        let statuses: &[&str] = match event["type"].as_str().expect("a type") {
            "response.completed" => &["completed"],
            "response.failed" => &["failed"],
            _ => &["incomplete", "cancelled"],
        };
        assert!(statuses.contains(&status), "{event}");
        assert_eq!(response["completed_at"].is_number(), status == "completed");
        assert_eq!(response["error"].is_object(), status == "failed");
        assert_eq!(response["incomplete_details"].is_object(), status == "incomplete");
        self.ended = Some(response.clone());
    }

    fn added(&mut self, event: &Value) {
        let item = &event["item"];
        assert_eq!(event["output_index"], self.items.len(), "each place is added once, in order");
        assert!(item["id"].as_str().is_some_and(|id| id.len() > 3), "{item}");
        for name in [&item["id"], &item["call_id"]] {
            assert!(
                name.is_null() || self.names.insert(name.to_string()),
                "ids of items and of calls are unique: {item}"
            );
        }
        self.items.push((item.clone(), false));
    }

    fn done(&mut self, event: &Value) {
        let place = place_of(event);
        let (item, is_done) = self.items.get_mut(place).expect("an item that was added");
        assert!(!*is_done, "an item is done once");
        for member in ["type", "id", "call_id", "content", "arguments", "name"] {
            assert_eq!(item[member], event["item"][member], "{member} of a done item");
        }
        *item = event["item"].clone();
        *is_done = true;
    }

    fn piece(&mut self, event: &Value, kind: &str) {
        let item = self.item(event);
        let (of, text) = match kind.rsplit_once('.').expect("a kind") {
            ("response.output_text", _) => ("message", &mut item["content"][0]["text"]),
            ("response.reasoning_text", _) => ("reasoning", &mut item["content"][0]["text"]),
            ("response.function_call_arguments", _) => ("function_call", &mut item["arguments"]),
            ("response.mcp_call_arguments", _) => ("mcp_call", &mut item["arguments"]),
            _ => panic!("unknown to clients: {event}"),
        };
        let so_far = text.as_str().expect("a text").to_owned();
        if kind.ends_with(".delta") {
            *text = (so_far + event["delta"].as_str().expect("a delta")).into();
        } else {
            let whole = if of.ends_with("call") { &event["arguments"] } else { &event["text"] };
            assert_eq!(whole, &so_far, "the whole text is the sum of its pieces");
        }
        assert_eq!(item["type"], of);
        assert!(of.ends_with("call") || event["content_index"] == 0);
    }

    fn item(&mut self, event: &Value) -> &mut Value {
        let (item, is_done) = self.items.get_mut(place_of(event)).expect("an item that was added");
        assert!(!*is_done, "a done item does not change: {event}");
        assert_eq!(item["id"], event["item_id"]);
        item
    }
}

fn place_of(event: &Value) -> usize {
    usize::try_from(event["output_index"].as_u64().expect("a place")).expect("a small number")
}
