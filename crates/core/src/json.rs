//! Access to JSON text without building a tree: nesting depth, and the members of one object.
//!
//! Payloads are kept byte for byte, so they are never parsed into values and written again. `serde_json`'s raw values
//! are checked for syntax but not for depth, hence [`depth`].

use memchr::{memchr_iter, memchr2};
use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

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

/// Word of eight equal bytes.
const fn eight(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// High bit of the first byte of `word` that is `byte`; bits above it may be set as well.
fn where_is(word: u64, byte: u8) -> u64 {
    let zero_there = word ^ eight(byte);
    zero_there.wrapping_sub(eight(1)) & !zero_there & eight(0x80)
}

/// Text as a JSON string token, quotes included.
pub fn quoted(text: &str) -> String {
    if text.bytes().any(|byte| byte < b' ' || byte == b'"' || byte == b'\\') {
        return serde_json::Value::from(text).to_string();
    }
    let mut token = String::with_capacity(text.len() + 2);
    token.push('"');
    token.push_str(text);
    token.push('"');
    token
}

/// Index just behind the string token that starts at `start` (which holds its opening quote).
fn string_end(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    // Most strings are short: a look at a few words finds their end before memchr has begun.
    while at < start + 64
        && let Some(chunk) = text.get(at..).and_then(<[u8]>::first_chunk)
    {
        let word = u64::from_le_bytes(*chunk);
        let found = where_is(word, b'"') | where_is(word, b'\\');
        if found == 0 {
            at += 8;
            continue;
        }
        at += found.trailing_zeros() as usize / 8;
        if text[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    while let Some(found) = memchr2(b'"', b'\\', &text[at.min(text.len())..]) {
        let found = at + found;
        if text[found] == b'"' {
            return found + 1;
        }
        at = found + 2;
    }
    text.len()
}

/// Deepest nesting of arrays and objects, 0 for any other value. Works on any bytes; stops counting at `limit + 1`.
pub fn depth(text: &[u8], limit: usize) -> usize {
    let (mut at, mut depth, mut deepest) = (0, 0usize, 0usize);
    while at < text.len() {
        match text[at] {
            b'"' => {
                at = string_end(text, at);
                continue;
            }
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
                if deepest > limit {
                    return deepest;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    deepest
}

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
    if members.is_empty() {
        return 0;
    }
    // The table has a power of two of places, of which seven eighths are used.
    let room = match members.len() {
        0..=FIRST_MEMBERS => FIRST_MEMBERS,
        4..=7 => 7,
        more => (more * 8).div_ceil(7).next_power_of_two() / 8 * 7,
    };
    room * (MEMBER + INDEX) + members.iter().map(|(name, value)| name.capacity() + memory(value)).sum::<usize>()
}

/// True if an array has more than `most` items. `array` must be valid JSON; for any other text the result is arbitrary.
pub fn has_more_items(array: &str, most: usize) -> bool {
    let text = array.as_bytes();
    let (mut at, mut depth, mut commas) = (0, 0usize, 0);
    while at < text.len() && commas < most {
        match text[at] {
            b'"' => {
                at = string_end(text, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 1 => commas += 1,
            _ => {}
        }
        at += 1;
    }
    let is_empty = || array.trim_ascii().strip_prefix('[').is_some_and(|rest| rest.trim_ascii_start().starts_with(']'));
    commas >= most && !is_empty()
}

/// Items of an array, of which there are at most `N`: a longer array is refused while it is read.
#[derive(Debug, Default)]
pub struct AtMost<T, const N: usize>(pub Vec<T>);

impl<'de, T: Deserialize<'de>, const N: usize> Deserialize<'de> for AtMost<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<T, const N: usize>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for Items<T, N> {
            type Value = AtMost<T, N>;
            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("an array")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = items.next_element()? {
                    if all.len() == N {
                        return Err(A::Error::custom(format_args!("an array has more than {N} items")));
                    }
                    all.push(item);
                }
                Ok(AtMost(all))
            }
        }
        deserializer.deserialize_seq(Items(std::marker::PhantomData))
    }
}

fn skip_blank(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n')) {
        at += 1;
    }
    at
}

fn value_end(text: &[u8], start: usize) -> usize {
    match text.get(start) {
        Some(b'"') => string_end(text, start),
        Some(b'{' | b'[') => {
            let (mut at, mut depth) = (start, 0usize);
            while at < text.len() {
                match text[at] {
                    b'"' => {
                        at = string_end(text, at);
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => {
                        depth -= 1;
                        if depth == 0 {
                            return at + 1;
                        }
                    }
                    _ => {}
                }
                at += 1;
            }
            text.len()
        }
        _ => {
            let mut at = start;
            while text.get(at).is_some_and(|b| !matches!(b, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n')) {
                at += 1;
            }
            at
        }
    }
}

/// Value of a member of one object, as written in the text; `None` if there is no such member. `object` must be valid
/// JSON; for any other text the result is arbitrary. If a name occurs twice the last one counts, as `JSON.parse` has
/// it.
pub fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    members(object, name).last()
}

/// True if a string token says `text`, which must hold no character that has to be escaped.
pub fn is_string(token: &str, text: &str) -> bool {
    // A token with escapes is longer.
    if token.len() <= text.len() + 2 {
        return token.get(1..token.len().saturating_sub(1)) == Some(text);
    }
    token.contains('\\') && string(token).as_deref() == Some(text)
}

/// Result of one look at a value; see [`look`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look<'a> {
    /// The value, as written in the text.
    pub text: &'a str,
    /// Deepest nesting of the value; see [`depth`].
    pub depth: usize,
    /// Value of the requested member, if the value is an object that has it; see [`member`].
    pub member: Option<&'a str>,
}

/// Looks once at the value at the start of `text`, which must be valid JSON up to its end. Finds the same as [`depth`]
/// and [`member`], and the end of the value. Stops at a nesting deeper than `limit`.
pub fn look<'a>(text: &'a str, name: &str, limit: usize) -> Look<'a> {
    let bytes = text.as_bytes();
    let (mut at, mut depth, mut deepest) = (0, 0usize, 0usize);
    let is_object = bytes.first() == Some(&b'{');
    if !is_object && bytes.first() != Some(&b'[') {
        return Look { text: &text[..value_end(bytes, 0)], depth: 0, member: None };
    }
    let (mut found, mut value, mut key_is_next) = (None, None, is_object);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                let end = string_end(bytes, at);
                if depth == 1 && std::mem::replace(&mut key_is_next, false) && is_string(&text[at..end], name) {
                    value = Some(skip_blank(bytes, end) + 1);
                }
                at = end;
                continue;
            }
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
                if deepest > limit {
                    break;
                }
            }
            end @ (b',' | b'}' | b']') => {
                if depth == 1 {
                    found = value.take().and_then(|start| text.get(start..at)).map(str::trim_ascii).or(found);
                    key_is_next = is_object;
                }
                if end != b',' {
                    depth -= 1;
                    if depth == 0 {
                        at += 1;
                        break;
                    }
                }
            }
            _ => {}
        }
        at += 1;
    }
    Look { text: &text[..at], depth: deepest, member: found }
}

/// Text of a string token; `None` for any other token, and for one that no UTF-8 text can hold (lone surrogates).
pub fn string(token: &str) -> Option<String> {
    if !token.starts_with('"') {
        return None;
    }
    serde_json::from_str(token).ok()
}

/// Text of a string member; see [`member`] and [`string`].
pub fn string_member(object: &str, name: &str) -> Option<String> {
    member(object, name).and_then(string)
}

/// Name as tolerant decoders compare it: some ignore case, `_` and `-`, and Go's folds two letters beyond ASCII.
pub fn plain(name: &str) -> String {
    let letters = name.chars().filter(|letter| !matches!(letter, '_' | '-')).flat_map(char::to_lowercase);
    letters.map(|letter| if letter == 'ſ' { 's' } else { letter }).collect()
}

/// Member of an object that some decoders take for one of these names, and others do not: written in another case, or
/// there twice. Lone surrogates in names count as other letters.
pub fn disguised(object: &str, names: &[&str]) -> Option<String> {
    let mut seen = Vec::new();
    for key in keys(object) {
        let name = string(key).unwrap_or_default();
        let Some(meant) = names.iter().find(|known| plain(known) == plain(&name)) else { continue };
        if *meant != name || seen.contains(meant) {
            return Some(name);
        }
        seen.push(meant);
    }
    None
}

/// Values of all members of this name, in order: decoders differ in which one counts.
pub fn members<'a>(object: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    entries(object).filter(move |(key, _)| is_string(key, name)).map(|(_, value)| value)
}

/// Tokens of the names in an object, in order.
fn keys(object: &str) -> impl Iterator<Item = &str> {
    entries(object).map(|(key, _)| key)
}

/// Tokens of the names in an object, with the texts of their values, in order.
fn entries(object: &str) -> impl Iterator<Item = (&str, &str)> {
    let text = object.as_bytes();
    let begin = skip_blank(text, 0);
    let mut at = if text.get(begin) == Some(&b'{') { skip_blank(text, begin + 1) } else { text.len() };
    std::iter::from_fn(move || {
        if text.get(at) != Some(&b'"') {
            return None;
        }
        let end = string_end(text, at);
        let key = object.get(at..end)?;
        let start = skip_blank(text, skip_blank(text, end) + 1);
        let value_end = value_end(text, start);
        at = skip_blank(text, value_end);
        at = if text.get(at) == Some(&b',') { skip_blank(text, at + 1) } else { text.len() };
        Some((key, object.get(start..value_end)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_end_at_their_quote_wherever_it_stands() {
        for length in 0..150usize {
            for escape in [None, Some(length / 2), Some(length.saturating_sub(1))] {
                let mut text: Vec<u8> =
                    b"\"".iter().copied().chain((0..length).map(|n| b'a' + (n % 20) as u8)).collect();
                if let Some(at) = escape {
                    text.splice(at + 1..at + 1, *b"\\\"");
                }
                text.push(b'"');
                let end = text.len();
                assert_eq!(string_end(&text, 0), end);
                text.extend_from_slice(b",\"\":\"\\\\\"");
                assert_eq!(string_end(&text, 0), end);
                assert_eq!(string_end(&text[..end - 1], 0), end - 1, "without its quote it is all of the text");
            }
        }
    }

    #[test]
    fn one_look_finds_what_many_would() {
        let long = format!("{{\"{0}\":\"{0}\\\"\",\"type\":\"X\"}}", "k".repeat(40));
        for text in [
            "{}",
            "[]",
            "7",
            "\"type\"",
            "null",
            "{\"type\":\"A\"}",
            "{ \"a\" : {\"type\":[1,{}]} , \"type\" :  \"B\\\"\" , \"b\":[[]]}",
            "{\"type\":1,\"\\u0074ype\":{\"c\":[]} }",
            "{\"type\":[1,2],\"x\":\"type\",\"y\":\"}\"}",
            "[{\"type\":\"A\"}]",
            "{\"a\":\"\\\\\",\"type\":\"0123456789012345678901234567890\\\"\"}",
            &long,
        ] {
            let expected = Look { text, depth: depth(text.as_bytes(), 9), member: member(text, "type") };
            for rest in ["", ",{\"type\":\"Z\"}]", " ]"] {
                assert_eq!(look(&format!("{text}{rest}"), "type", 9), expected, "{text}{rest}");
            }
        }
        assert_eq!(look("{\"a\":[[[[]]]]}", "type", 2).depth, 3);
    }

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

    #[test]
    fn items_are_counted_up_to_a_limit() {
        for (array, items) in [("[]", 0), (" [ ] ", 0), ("[1]", 1), (r#"["a,b",[1,2],{"a":[3,4]}]"#, 3), ("[[],[]]", 2)]
        {
            for most in 0..5 {
                assert_eq!(has_more_items(array, most), items > most, "{array} {most}");
            }
        }
        assert_eq!(serde_json::from_str::<AtMost<u8, 2>>("[1,2]").map(|all| all.0).ok(), Some(vec![1, 2]));
        assert!(serde_json::from_str::<AtMost<u8, 2>>("[1,2,3]").is_err());
    }

    #[test]
    fn depth_ignores_brackets_in_strings() {
        assert_eq!(depth(br#"{"a":"[[[\"{{","b":[1,{"c":2}]}"#, 128), 3);
        assert_eq!(depth("[".repeat(500_000).as_bytes(), 128), 129);
        assert_eq!(depth(br#""unterminated \"#, 128), 0);
    }

    #[test]
    fn members_of_the_outer_object_only_and_the_last_one_counts() {
        let text = r#" { "a" : {"type":"inner"} , "type":"x", "s":"}\"," , "type" : "y" ,"n":-1.5e3,"t":true } "#;
        assert_eq!(member(text, "type"), Some("\"y\""));
        assert_eq!(member(text, "a"), Some(r#"{"type":"inner"}"#));
        assert_eq!(member(text, "n"), Some("-1.5e3"));
        assert_eq!(member(text, "t"), Some("true"));
        assert_eq!(member(text, "none"), None);
        assert_eq!(member("{}", "a"), None);
        assert_eq!(member("[1]", "a"), None);
    }

    #[test]
    fn names_that_decoders_read_differently_are_seen() {
        let names = ["role", "resume", "toolCallId"];
        for (object, found) in [
            (r#"{"role":"user","Role":"system"}"#, "Role"),
            (r#"{"role":null, "role" : "user"}"#, "role"),
            (r#"{"\u0072ole":1,"role":2}"#, "role"),
            (r#"{"a":{"role":1},"re\u017fume":[]}"#, "reſume"),
            (r#"{"tool_call_id":"c"}"#, "tool_call_id"),
        ] {
            assert_eq!(disguised(object, &names).as_deref(), Some(found), "{object}");
        }
        for object in [r#"{"role":"user","a":{"Role":1},"b":["resume"]}"#, "{}", "7", "[\"role\"]", r#"{"\ud800":1}"#] {
            assert_eq!(disguised(object, &names), None, "{object}");
        }
    }

    #[test]
    fn invalid_json_is_searched_without_harm() {
        for text in
            ["{\"type\"", "{\"type\"}", "{\"type\"é", "{\"type\":", "{\"type", "{\"type\":\"\\é", "{\"type\"]é}"]
        {
            member(text, "type");
            look(text, "type", 9);
        }
    }

    #[test]
    fn an_escaped_name_is_the_same_name() {
        assert_eq!(member(r#"{"\u0074ype":"RUN_ERROR"}"#, "type"), Some("\"RUN_ERROR\""));
        assert_eq!(member(r#"{"\ud800":1,"type":"x"}"#, "type"), Some("\"x\""));
    }
}
