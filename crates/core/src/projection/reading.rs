//! Reading of lists and messages in JSON text.

use std::collections::HashSet;

use serde_json::value::RawValue;

use crate::{event::SERVER_MEMBER, json};

/// Elements of a JSON array, as text; none for anything else.
pub(super) fn items(array: Option<&str>) -> impl Iterator<Item = &str> {
    let items: Vec<&RawValue> = array.and_then(|array| serde_json::from_str(array).ok()).unwrap_or_default();
    items.into_iter().map(RawValue::get)
}

/// True if a message has this role.
pub(super) fn has_role(message: &str, role: &str) -> bool {
    json::member(message, "role").is_some_and(|known| json::is_string(known, role))
}

/// Names of the tools that the front end supplied to a run, by its RUN_STARTED: those that it brings, and those that the server noted.
pub(super) fn client_tools(started: &str) -> HashSet<String> {
    let given = json::member(started, "metadata").and_then(|metadata| json::member(metadata, SERVER_MEMBER));
    let given = given.and_then(|server| json::member(server, "given")).and_then(|given| json::member(given, "tools"));
    let given: Vec<String> = given.and_then(|names| serde_json::from_str(names).ok()).unwrap_or_default();
    let input = json::member(started, "input").unwrap_or("null");
    let brought = items(json::member(input, "tools")).filter_map(|tool| json::string_member(tool, "name"));
    given.into_iter().chain(brought).collect()
}
