//! Memory that JSON takes as a tree of values: estimated from a text, and counted in a tree.

use memchr::{memchr_iter, memchr2};
use serde_json::{Map, Value};

use super::string_end;
use crate::limits::MAX_TREE_BYTES;

/// Bytes of a value in an array, without what it points to.
const VALUE: usize = size_of::<Value>();
/// Bytes of a member in a map: its hash, its name and its value.
const MEMBER: usize = size_of::<(u64, String)>() + VALUE;
/// Elements for which an array makes room at first, and members for which a map does.
const FIRST_ELEMENTS: usize = 4;
const FIRST_MEMBERS: usize = 3;
/// Bytes by which an allocator rounds the text of a string up, at most.
const ROUNDED: usize = 16;
/// Shortest text whose tree can exceed [`MAX_TREE_BYTES`]: no three bytes add more than an empty object in an array.
const DENSEST: usize = MAX_TREE_BYTES / (2 * VALUE + FIRST_MEMBERS * (MEMBER + INDEX) + 3) * 3 - 1_024;
/// Bytes of the index of a map for each member.
const INDEX: usize = 20;

/// Memory that a JSON text may take as a tree of [`Value`]s, from above, in bytes. Found without a parse: brackets, commas
/// and colons are counted, so those in strings only make it larger.
pub fn weight(text: &[u8]) -> usize {
    let count = |byte| memchr_iter(byte, text).count();
    // Vectors double when they grow: each further element may have an empty place beside it.
    VALUE
        + text.len()
        + count(b'"') * ROUNDED / 2
        + count(b',') * 2 * VALUE
        + count(b':') * (2 * (MEMBER + INDEX) - 2 * VALUE)
        + count(b'[') * FIRST_ELEMENTS * VALUE
        + count(b'{') * FIRST_MEMBERS * (MEMBER + INDEX)
}

/// Memory that a JSON text takes as a tree of [`Value`]s, from above, in bytes: closer than [`weight`], and found by a walk over
/// all tokens. `text` must be valid JSON; for any other text the result is arbitrary.
pub fn close_weight(text: &[u8]) -> usize {
    struct Open {
        is_object: bool,
        commas: usize,
        is_empty: bool,
    }
    let (mut at, mut bytes, mut open) = (0, VALUE, Vec::<Open>::new());
    while at < text.len() {
        let byte = text[at];
        if let Some(around) = open.last_mut()
            && !matches!(byte, b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n')
        {
            around.is_empty = false;
        }
        match byte {
            b'"' => {
                let end = string_end(text, at);
                bytes += end - at + ROUNDED;
                at = end;
                continue;
            }
            b'{' | b'[' => open.push(Open { is_object: byte == b'{', commas: 0, is_empty: true }),
            b',' => {
                if let Some(around) = open.last_mut() {
                    around.commas += 1;
                }
            }
            b'}' | b']' => {
                if let Some(closed) = open.pop() {
                    let items = if closed.is_empty { 0 } else { closed.commas + 1 };
                    bytes += if closed.is_object { room_of_members(items) } else { room_of_elements(items) };
                }
            }
            _ => {}
        }
        at += 1;
    }
    bytes
}

/// Memory of an array that has grown to so many elements: vectors double.
fn room_of_elements(count: usize) -> usize {
    if count == 0 { 0 } else { count.next_power_of_two().max(FIRST_ELEMENTS) * VALUE }
}

/// Memory of the table of a map with so many members. The table has a power of two of places, of which seven eighths are used.
fn room_of_members(count: usize) -> usize {
    let room = match count {
        0 => 0,
        1..=FIRST_MEMBERS => FIRST_MEMBERS,
        4..=7 => 7,
        more => (more * 8).div_ceil(7).next_power_of_two() / 8 * 7,
    };
    room * (MEMBER + INDEX)
}

/// Memory that an event may take in a conversation, from above. An event without nested values brings only texts.
pub fn event_weight(event: &[u8]) -> usize {
    let is_nested = |rest: &[u8]| memchr2(b'{', b'[', rest).is_some();
    if event.get(1..).is_some_and(is_nested) { weight(event) } else { event.len() }
}

/// True if a text could exceed [`MAX_TREE_BYTES`] as a tree.
pub fn is_too_dense(text: &str) -> bool {
    text.len() > DENSEST && weight(text.as_bytes()) > MAX_TREE_BYTES
}

/// Memory that a value points to, in bytes (about): without the value itself.
pub fn memory(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.capacity(),
        Value::Array(values) => values.capacity() * VALUE + values.iter().map(memory).sum::<usize>(),
        Value::Object(members) => memory_of_members(members),
    }
}

/// Memory that the members of an object take; see [`memory`].
pub fn memory_of_members(members: &Map<String, Value>) -> usize {
    let texts = members.iter().map(|(name, value)| name.capacity() + memory(value));
    room_of_members(members.len()) + texts.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_takes_no_more_than_was_estimated() {
        let wide: Vec<String> = (0..5_000).map(|n| format!("\"k{n}\":{n}")).collect();
        let mut shapes = vec![format!("{{{}}}", wide.join(",")), "[".repeat(100) + &"]".repeat(100)];
        for item in
            ["0", "\"\"", "\"é\\u00e9\"", "{}", "[]", "[0]", "[[]]", "{\"a\":0}", "{\"a\":{\"b\":[null]}}", "-1.5e300"]
        {
            for count in [1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 1_000, 4_097] {
                let items = vec![item; count].join(",");
                let members: Vec<String> = (0..count).map(|n| format!("\"{n}\":{item}")).collect();
                shapes.extend([format!("[{items}]"), format!("[[{items}]]"), format!("{{{}}}", members.join(","))]);
            }
        }
        for text in shapes {
            let value: Value = serde_json::from_str(&text).expect("JSON");
            let (taken, estimate) = (VALUE + memory(&value), weight(text.as_bytes()));
            assert!(taken <= estimate, "{taken} of {estimate}: {}", &text[..text.len().min(60)]);
            assert!(estimate < 20 * taken + 2_000, "{estimate} for {taken}: {}", &text[..text.len().min(60)]);
            // Rounded texts and quotation marks are the only difference.
            let (close, strings) = (close_weight(text.as_bytes()), text.matches('"').count() / 2);
            assert!(
                close >= taken && close <= taken + strings * 24,
                "{close} for {taken}: {}",
                &text[..text.len().min(60)]
            );
        }
        assert_eq!(event_weight(b"{\"a\":\"b, c: d\"}"), 15);
        assert!(event_weight(b"{\"a\":[0]}") > 500);
    }

    #[test]
    fn only_dense_texts_are_too_dense() {
        let text = |item: &str, bytes: usize| format!("[{}]", vec![item; bytes / (item.len() + 1)].join(","));
        for item in ["0", "{}", "[]", "{\"a\":0}", "\"\""] {
            let dense = text(item, 8 << 20);
            assert!(is_too_dense(&dense) && weight(dense.as_bytes()) > MAX_TREE_BYTES, "{item}");
            let small = text(item, DENSEST - 8);
            assert!(!is_too_dense(&small) && weight(small.as_bytes()) <= MAX_TREE_BYTES, "{item}");
        }
        assert!(!is_too_dense(&text("\"Some words, and more of them: a sentence as people write it.\"", 16 << 20)));
    }
}
