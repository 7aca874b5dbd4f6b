//! Answer of a model that was asked for a name: cleaned, and validated.
//!
//! A model may answer with anything: with quotes, its reasoning, a refusal, or a continued conversation. An answer that
//! is not clearly a name is rejected, since the thread already has a name in its user's own words.

use serde_json::Value;
use threadline_core::limits::{NAME_CHARACTERS, NAME_WORDS_TOLERATED, NAMING_SHOWN_BYTES};

use super::{
    greetings::{ABOUT, ANNOUNCEMENTS, GENERIC, LABELS, REFUSALS, of},
    markup,
    model_request::INSTRUCTIONS,
    words::{count, cut, is_mark, is_spaceless, is_treacherous, is_word, tidy},
};

/// Reason why an answer is not a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum TitleError {
    /// The answer contains no words.
    #[error("the title is empty")]
    Empty,
    /// The answer is longer than a name.
    #[error("the title is too long")]
    TooLong,
    /// The answer is a refusal.
    #[error("the title is a refusal")]
    Refusal,
    /// The answer would fit every conversation.
    #[error("the title is generic")]
    Generic,
    /// The answer repeats the instructions.
    #[error("the title repeats the instructions")]
    Echo,
    /// The answer is meant for a program: HTML, JSON of another kind, or an error.
    #[error("the title is markup")]
    Markup,
    /// The answer contains characters that could disguise it.
    #[error("the title contains invalid characters")]
    Characters,
}

/// Members of a JSON object that may hold the name.
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

/// Extracts the name from an answer.
pub(super) fn name(answer: &str) -> Result<String, TitleError> {
    let said = without_thoughts(answer).trim();
    if said.is_empty() {
        return Err(TitleError::Empty);
    }
    let said = from_json(said)?;
    let line = line(&said).ok_or(TitleError::Empty)?;
    if line.len() > NAMING_SHOWN_BYTES {
        return Err(TitleError::TooLong);
    }
    if line.chars().any(is_treacherous) {
        return Err(TitleError::Characters);
    }
    if is_markup(line) {
        return Err(TitleError::Markup);
    }
    let name = bare(&markup::inline(line));
    judge(&name)?;
    match count(&name) {
        0 => Err(TitleError::Empty),
        words if words > NAME_WORDS_TOLERATED || name.chars().count() > 2 * NAME_CHARACTERS => Err(TitleError::TooLong),
        _ => Ok(cut(&name)).and_then(|name| if is_word(&name) { Ok(name) } else { Err(TitleError::Empty) }),
    }
}

/// Answer without the reasoning in front of it. Reasoning that does not end leaves no answer.
fn without_thoughts(answer: &str) -> &str {
    const TAGS: [(&str, &str); 4] = [
        ("<think>", "</think>"),
        ("<thinking>", "</thinking>"),
        ("<thought>", "</thought>"),
        ("<reasoning>", "</reasoning>"),
    ];
    let mut rest = answer.trim_start();
    for (open, close) in TAGS {
        // The opening tag is often part of the prompt.
        if let Some(end) = rest.rfind(close) {
            rest = &rest[end + close.len()..];
        } else if rest.starts_with(open) {
            return "";
        }
    }
    rest
}

/// Extracts the name from a JSON value, with or without a fence around it; other text stays unchanged.
fn from_json(said: &str) -> Result<String, TitleError> {
    let fenced = said.strip_prefix("```").and_then(|rest| rest.trim_end().strip_suffix("```"));
    let inner = match fenced {
        // The language of the block follows the fence.
        Some(block) => block.split_once('\n').map_or(block, |(_, inner)| inner).trim(),
        None => said,
    };
    if !inner.starts_with(['{', '[', '"']) {
        return Ok(inner.to_owned());
    }
    match serde_json::from_str::<Value>(inner) {
        // A tool call has a name as well.
        Ok(Value::Object(object)) if object.contains_key("arguments") || object.contains_key("parameters") => {
            Err(TitleError::Markup)
        }
        Ok(value) => text_of(&value).map(str::to_owned).ok_or(TitleError::Markup),
        Err(_) if inner.starts_with('{') || inner.starts_with("[{") => Err(TitleError::Markup),
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

/// Line that holds the name: the first one, unless it only announces the name.
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

/// True if the text before a colon only announces the name, as in "Sure! Here is a title".
fn announces(label: &str) -> bool {
    assents(label) || of(ANNOUNCEMENTS).any(|begin| begins(&label.replace('’', "'"), begin))
}

/// Line without a label and quotation marks, in any nesting.
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
        // The first of a list of proposals is used.
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

fn judge(name: &str) -> Result<(), TitleError> {
    let lower = name.to_lowercase().replace('’', "'");
    if of(REFUSALS).any(|begin| begins(&lower, begin)) {
        return Err(TitleError::Refusal);
    }
    let letters = letters(name);
    if letters.is_empty() {
        return Err(TitleError::Empty);
    }
    if of(GENERIC).any(|generic| generic == letters) || of(ABOUT).any(|begin| begins(&lower, begin)) {
        return Err(TitleError::Generic);
    }
    // A second sentence is an explanation, not a name.
    let ends = |(at, c): (usize, char)| {
        matches!(c, '.' | '!' | '?')
            && name[at + 1..].starts_with(' ')
            && count(&name[at + 1..]) > 2
            && count(&name[..at]) > 2
    };
    if name.char_indices().any(ends) {
        return Err(TitleError::TooLong);
    }
    if count(name) > 2 && self::letters(INSTRUCTIONS).contains(&letters) {
        return Err(TitleError::Echo);
    }
    // A repetition of one character is not a name.
    let mut characters = letters.chars();
    let first = characters.next();
    if letters.chars().count() > 3 && characters.all(|c| Some(c) == first) {
        return Err(TitleError::Generic);
    }
    Ok(())
}

/// True if a text begins with these complete words.
fn begins(text: &str, words: &str) -> bool {
    let has_no_spaces = words.contains(is_spaceless);
    text.strip_prefix(words).is_some_and(|rest| {
        has_no_spaces || !words.ends_with(char::is_alphanumeric) || !rest.starts_with(char::is_alphanumeric)
    })
}

/// Letters and digits only, in lower case.
fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric() && !is_mark(*c)).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests;
