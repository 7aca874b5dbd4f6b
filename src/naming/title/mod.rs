//! What a model answers when it is asked for a name: cleaned, and judged.
//!
//! A model answers anything: with quotes, with its thoughts, with a refusal, with the conversation gone on. What is not
//! clearly a name is none, since the thread has one already in its user's own words.

use serde_json::Value;

use super::{
    asking::INSTRUCTIONS,
    phrases::{ABOUT, ANNOUNCEMENTS, GENERIC, LABELS, REFUSALS, of},
    plain,
    words::{count, cut, is_mark, is_spaceless, is_treacherous, is_word, tidy},
};
use crate::domain::limits::{NAME_CHARACTERS, NAME_WORDS_TOLERATED, NAMING_SHOWN_BYTES};

/// Why an answer is no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Flaw {
    /// It says nothing.
    #[error("it is empty")]
    Empty,
    /// It says more than a name does.
    #[error("it is too long for a name")]
    TooLong,
    /// The model does not want to.
    #[error("it is a refusal")]
    Refusal,
    /// It fits every conversation.
    #[error("it says nothing about the conversation")]
    Generic,
    /// It is what the model was told.
    #[error("it repeats the instructions")]
    Echo,
    /// HTML, JSON of another kind, an error: it is for a program.
    #[error("it is markup")]
    Markup,
    /// Characters that could make it look like what it is not.
    #[error("it holds characters that are not for names")]
    Characters,
}

/// The members of an object that a name may stand in.
const MEMBERS: &[&str] = &[
    "title",
    "name",
    "threadName",
    "thread_name",
    "threadTitle",
    "thread_title",
    "conversation_name",
    "conversation_title",
];

/// The name that an answer holds.
pub(super) fn name(answer: &str) -> Result<String, Flaw> {
    let said = without_thoughts(answer).trim();
    if said.is_empty() {
        return Err(Flaw::Empty);
    }
    let said = from_json(said)?;
    let line = line(&said).ok_or(Flaw::Empty)?;
    if line.len() > NAMING_SHOWN_BYTES {
        return Err(Flaw::TooLong);
    }
    if line.chars().any(is_treacherous) {
        return Err(Flaw::Characters);
    }
    if is_markup(line) {
        return Err(Flaw::Markup);
    }
    let name = bare(&plain::inline(line));
    judge(&name)?;
    match count(&name) {
        0 => Err(Flaw::Empty),
        words if words > NAME_WORDS_TOLERATED || name.chars().count() > 2 * NAME_CHARACTERS => Err(Flaw::TooLong),
        _ => Ok(cut(&name)).and_then(|name| if is_word(&name) { Ok(name) } else { Err(Flaw::Empty) }),
    }
}

/// What was said aloud. Models that think write it down in front; one that never comes to an end says nothing.
fn without_thoughts(answer: &str) -> &str {
    const TAGS: [(&str, &str); 4] = [
        ("<think>", "</think>"),
        ("<thinking>", "</thinking>"),
        ("<thought>", "</thought>"),
        ("<reasoning>", "</reasoning>"),
    ];
    let mut rest = answer.trim_start();
    for (open, close) in TAGS {
        // The opening mark is often part of the question already.
        if let Some(end) = rest.rfind(close) {
            rest = &rest[end + close.len()..];
        } else if rest.starts_with(open) {
            return "";
        }
    }
    rest
}

/// The name in a JSON value, with or without a fence around it; what is no JSON stays.
fn from_json(said: &str) -> Result<String, Flaw> {
    let fenced = said.strip_prefix("```").and_then(|rest| rest.trim_end().strip_suffix("```"));
    let inner = match fenced {
        // Behind the fence stands its language.
        Some(block) => block.split_once('\n').map_or(block, |(_, inner)| inner).trim(),
        None => said,
    };
    if !inner.starts_with(['{', '[', '"']) {
        return Ok(inner.to_owned());
    }
    match serde_json::from_str::<Value>(inner) {
        // The call of a tool has a name as well.
        Ok(Value::Object(object)) if object.contains_key("arguments") || object.contains_key("parameters") => {
            Err(Flaw::Markup)
        }
        Ok(value) => text_of(&value).map(str::to_owned).ok_or(Flaw::Markup),
        Err(_) if inner.starts_with('{') || inner.starts_with("[{") => Err(Flaw::Markup),
        Err(_) => Ok(inner.to_owned()),
    }
}

fn text_of(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text),
        Value::Array(items) => items.first().and_then(Value::as_str),
        Value::Object(object) => MEMBERS.iter().find_map(|name| object.get(*name)?.as_str()),
        _ => None,
    }
}

/// The line that holds the name: the first one, unless it only announces it.
fn line(said: &str) -> Option<&str> {
    let mut lines = said.lines().map(str::trim).filter(|line| is_word(line)).peekable();
    while let Some(line) = lines.next() {
        let announces = line.trim_end_matches(['*', '_', ' ']).ends_with([':', '：']) || is_assent(line);
        if !announces || lines.peek().is_none() {
            return Some(line);
        }
    }
    None
}

fn is_assent(line: &str) -> bool {
    line.ends_with(['!', '.', ':']) && assents(line)
}

fn assents(line: &str) -> bool {
    let first = letters(line.split([',', '!', '.', ' ']).next().unwrap_or_default());
    ["sure", "certainly", "okay", "ok", "absolutely", "gerne", "natürlich"].contains(&first.as_str())
}

/// Whether what stands before a colon only says that the name comes, as "Sure! Here is a title" does.
fn announces(label: &str) -> bool {
    assents(label) || of(ANNOUNCEMENTS).any(|begin| begins(&label.replace('’', "'"), begin))
}

/// A line without a label and quotation marks, however they are nested.
fn bare(line: &str) -> String {
    let mut rest = tidy(line);
    loop {
        let before = rest;
        if let Some((label, after)) = rest.split_once([':', '：']) {
            let label = tidy(label).to_lowercase();
            if of(LABELS).any(|known| known == label) || announces(&label) {
                rest = tidy(after);
            }
        }
        // Of a list of proposals the first.
        if let Some((number, after)) = rest.split_once([' ', '.', ')'])
            && number == "1"
            && rest[1..].starts_with(['.', ')'])
        {
            rest = tidy(after);
        }
        if rest == before {
            return rest.to_owned();
        }
    }
}

fn is_markup(line: &str) -> bool {
    let tag = line.split_once('<').is_some_and(|(_, rest)| {
        rest.starts_with(|c: char| c.is_ascii_alphabetic() || "/!?|".contains(c)) && rest.contains('>')
    });
    tag || line.contains("://") || line.contains("\\u") || line.contains("{\"") || line.contains("&lt;")
}

fn judge(name: &str) -> Result<(), Flaw> {
    let lower = name.to_lowercase().replace('’', "'");
    if of(REFUSALS).any(|begin| begins(&lower, begin)) {
        return Err(Flaw::Refusal);
    }
    let letters = letters(name);
    if letters.is_empty() {
        return Err(Flaw::Empty);
    }
    if of(GENERIC).any(|generic| generic == letters) || of(ABOUT).any(|begin| begins(&lower, begin)) {
        return Err(Flaw::Generic);
    }
    // A sentence behind a sentence is talk.
    let ends = |(at, c): (usize, char)| {
        matches!(c, '.' | '!' | '?')
            && name[at + 1..].starts_with(' ')
            && count(&name[at + 1..]) > 2
            && count(&name[..at]) > 2
    };
    if name.char_indices().any(ends) {
        return Err(Flaw::TooLong);
    }
    if count(name) > 2 && self::letters(INSTRUCTIONS).contains(&letters) {
        return Err(Flaw::Echo);
    }
    // Nothing but one character again and again.
    let mut characters = letters.chars();
    let first = characters.next();
    if letters.chars().count() > 3 && characters.all(|c| Some(c) == first) {
        return Err(Flaw::Generic);
    }
    Ok(())
}

/// Whether a text begins with these words, and not only with these letters.
fn begins(text: &str, words: &str) -> bool {
    let has_no_spaces = words.contains(is_spaceless);
    text.strip_prefix(words).is_some_and(|rest| {
        has_no_spaces || !words.ends_with(char::is_alphanumeric) || !rest.starts_with(char::is_alphanumeric)
    })
}

/// Letters and digits alone, in small letters.
fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric() && !is_mark(*c)).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests;
