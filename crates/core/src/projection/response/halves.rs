//! Halves of characters: JavaScript may cut a text inside a surrogate pair, and many clients read no JSON with a lone half.

use std::borrow::Cow;

use crate::projection::conversation::text::without_lone_halves;

/// Content of JSON strings without lone halves: U+FFFD stands in their place.
pub(super) fn whole(text: &str) -> Cow<'_, str> {
    if text.contains("\\u") { Cow::Owned(without_lone_halves(text)) } else { Cow::Borrowed(text) }
}

/// Next piece of a text, after the half that the pieces before have left. `held` then has the half that this piece leaves.
pub(super) fn join<'p>(held: &mut String, piece: &'p str) -> Cow<'p, str> {
    if held.is_empty() && !piece.contains("\\u") {
        return Cow::Borrowed(piece);
    }
    let joined = std::mem::take(held) + piece;
    let end = joined.len() - if ends_with_high(&joined) { 6 } else { 0 };
    joined[end..].clone_into(held);
    Cow::Owned(without_lone_halves(&joined[..end]))
}

/// True if the content of a JSON string ends with the escape of a first half.
fn ends_with_high(text: &str) -> bool {
    let Some((before, escape)) = text.len().checked_sub(6).and_then(|at| text.split_at_checked(at)) else {
        return false;
    };
    let unit = escape.strip_prefix("\\u").and_then(|digits| u16::from_str_radix(digits, 16).ok());
    let escaped = before.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1;
    !escaped && unit.is_some_and(|unit| (0xd800..0xdc00).contains(&unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_that_meet_are_a_character_and_others_are_replaced() {
        for (pieces, expected) in [
            (&["a", "b"][..], "a|b|"),
            (&["a\\ud83d", "\\ude00b"], "a|\\ud83d\\ude00b|"),
            (&["\\uD83d", "x"], "|\\ufffdx|"),
            (&["\\ud83d", "\\ud83d", "\\ude00"], "|\\ufffd|\\ud83d\\ude00|"),
            (&["\\ude00", "\\u00e4"], "\\ufffd|\\u00e4|"),
            (&["\\\\ud83d", "é\\n"], "\\\\ud83d|é\\n|"),
            (&["\\\\\\ud83d"], "\\\\|\\ud83d"),
        ] {
            let mut held = String::new();
            let mut told: String = pieces.iter().map(|piece| join(&mut held, piece).into_owned() + "|").collect();
            told.push_str(&held);
            assert_eq!(told, expected);
        }
        assert_eq!(whole("a\\ud83d"), "a\\ufffd");
    }
}
