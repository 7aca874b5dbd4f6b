//! Access to JSON text without building a tree: nesting depth, and the members of one object.
//!
//! Payloads are kept byte for byte, so they are never parsed into values and written again. `serde_json`'s raw values
//! are checked for syntax but not for depth, hence [`depth`].

mod items;
mod tree;

use memchr::memchr2;

pub use self::{
    items::{AtMost, has_more_items},
    tree::{close_weight, event_weight, is_too_dense, memory, memory_of_members, weight},
};

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
pub fn entries(object: &str) -> impl Iterator<Item = (&str, &str)> {
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
