//! Reading of lists and messages in JSON text.

use serde_json::value::RawValue;

use crate::json;

/// Elements of a JSON array, as text; none for anything else.
pub(super) fn items(array: Option<&str>) -> impl Iterator<Item = &str> {
    let items: Vec<&RawValue> = array.and_then(|array| serde_json::from_str(array).ok()).unwrap_or_default();
    items.into_iter().map(RawValue::get)
}

/// True if a message has this role.
pub(super) fn has_role(message: &str, role: &str) -> bool {
    json::member(message, "role").is_some_and(|known| json::is_string(known, role))
}
