//! Parts of a request that cannot be read, and why.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use threadline_core::{json as text, limits::MAX_JSON_DEPTH};

/// Depth down to which the part is named. A deeper one is named by what it is in.
const DEPTH: usize = 8;

/// Reason for which a JSON text cannot be read, with the place in it, for the text of a part with this name.
pub fn reason(name: &str, part: &str) -> String {
    match half_of_a_pair(part, DEPTH) {
        Some(path) => format!(
            "{name}{path} has half of a surrogate pair (such as \\ud83d without its second half), which no UTF-8 text can have: \
             a string was cut within a character. Remove the half, for example with toWellFormed()"
        ),
        None => match serde_json::from_str::<serde_json::Value>(part) {
            Ok(_) => format!("{name} cannot be read"),
            Err(error) => format!("{name} cannot be read: {error}"),
        },
    }
}

/// JSON pointer to the first text that has half of a surrogate pair.
fn half_of_a_pair(part: &str, depth: usize) -> Option<String> {
    let part = part.trim_start();
    let inside = |name: &str, value: &RawValue| {
        let path = half_of_a_pair(value.get(), depth - 1)?;
        Some(format!("/{}{path}", name.replace('~', "~0").replace('/', "~1")))
    };
    match part.as_bytes().first() {
        Some(b'"') => text::string(part).is_none().then(String::new),
        // A deeper text is refused for its depth.
        Some(_) if depth == 0 && text::depth(part.as_bytes(), MAX_JSON_DEPTH) >= MAX_JSON_DEPTH => None,
        Some(_) if depth == 0 => serde_json::from_str::<serde_json::Value>(part).is_err().then(String::new),
        Some(b'{') => match serde_json::from_str::<BTreeMap<String, &RawValue>>(part) {
            Ok(members) => members.iter().find_map(|(name, value)| inside(name, value)),
            // The name of a member.
            Err(_) => Some(String::new()),
        },
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(part).ok()?;
            items.iter().enumerate().find_map(|(at, value)| inside(&at.to_string(), value))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_with_half_of_a_pair_is_named() {
        let of = |part: &str| half_of_a_pair(part, DEPTH);
        assert_eq!(of(r#"{"a":[1,{"b~/c":"x\ud83d"}],"d":"\ud83d\ude00"}"#).as_deref(), Some("/a/1/b~0~1c"));
        assert_eq!(of(r#"{"a":{"\udc00":1}}"#).as_deref(), Some("/a"), "the name of a member");
        assert_eq!(of(r#"{"a":["\ud83d\ude00",null,1.5]}"#), None);
        let deep = format!("{}\"\\ud83d\"{}", "[".repeat(20), "]".repeat(20));
        assert_eq!(of(&deep), Some("/0".repeat(DEPTH)));
        assert!(reason("messages/0", r#""\ud83d""#).starts_with("messages/0 has half of a surrogate pair"));
        let deeper = format!("{}{}", "[".repeat(200), "]".repeat(200));
        assert!(reason("messages/0", &deeper).contains("cannot be read: recursion limit exceeded"));
    }
}
