//! The shape of one event: a known `type`, the members that the type requires, and the kinds of their values. Members that AG-UI
//! does not name pass.

use super::schema::{Kind, Member, event};
use crate::{event::Flaw, json};

/// Largest whole number that every JSON reader keeps.
const MAX_SAFE: f64 = 9_007_199_254_740_991.0;

/// Refuses an event that is not of the shape of its type.
pub(super) fn check(text: &str) -> Result<(), Flaw> {
    let name = json::string_member(text, "type").unwrap_or_default();
    let Some(members) = event(&name) else {
        let expected = "a type of AG-UI 1.0; events of your own are CUSTOM".to_owned();
        return Err(Flaw { path: "/type".to_owned(), expected });
    };
    let mut path = String::new();
    object(text, members, &mut path)
}

/// Checks the members of an object; each of a name that occurs twice, as readers differ in which one counts.
fn object(text: &str, members: &[Member], path: &mut String) -> Result<(), Flaw> {
    for member in members {
        let mut found = json::members(text, member.name).peekable();
        if found.peek().is_none() && member.required {
            return Err(at(path, Some(member.name), format!("{}, which is missing", member.kind.name())));
        }
        for value in found {
            let length = path.len();
            step(path, member.name);
            check_value(value, &member.kind, path)?;
            path.truncate(length);
        }
    }
    Ok(())
}

fn step(path: &mut String, name: &str) {
    path.push('/');
    path.push_str(name);
}

fn at(path: &str, name: Option<&str>, expected: String) -> Flaw {
    let path = name.map_or_else(|| path.to_owned(), |name| format!("{path}/{name}"));
    Flaw { path, expected }
}

fn check_value(value: &str, kind: &Kind, path: &mut String) -> Result<(), Flaw> {
    let begins = |with: &str| value.starts_with(with);
    let fits = match kind {
        Kind::Any => true,
        Kind::Present => value != "null",
        Kind::Text => begins("\""),
        Kind::Bool => matches!(value, "true" | "false"),
        Kind::Whole => whole(value).is_some(),
        Kind::Count => whole(value).is_some_and(|number| number >= 0.0),
        Kind::Open => begins("{"),
        Kind::Word(words) => words.iter().any(|word| json::is_string(value, word)),
        Kind::Pointer => begins("\"") && is_pointer(value),
        Kind::Nullable(kind) => return if value == "null" { Ok(()) } else { check_value(value, kind, path) },
        Kind::List(item) | Kind::Filled(item) if begins("[") => {
            let items = items(value);
            for (index, value) in items.iter().enumerate() {
                let length = path.len();
                step(path, &index.to_string());
                check_value(value, item, path)?;
                path.truncate(length);
            }
            !matches!(kind, Kind::Filled(_)) || !items.is_empty()
        }
        Kind::Object(members) if begins("{") => return object(value, members, path),
        Kind::Either(one) if begins("\"") => matches!(one, Kind::List(_)),
        Kind::Either(one) => {
            let own = path.len();
            return check_value(value, one, path).map_err(|flaw| widened(flaw, own, kind));
        }
        Kind::Tagged(tag, forms) if begins("{") => {
            let word = json::string_member(value, tag);
            let form = word.and_then(|word| forms.iter().find(|(name, _)| *name == word));
            let Some((_, members)) = form else {
                let names: Vec<&str> = forms.iter().map(|(name, _)| *name).collect();
                return Err(at(path, Some(tag), format!("one of {}", names.join(", "))));
            };
            return object(value, members, path);
        }
        Kind::List(_) | Kind::Filled(_) | Kind::Object(_) | Kind::Tagged(..) => false,
    };
    if fits { Ok(()) } else { Err(at(path, None, kind.name())) }
}

/// The flaw of a value that is neither of two kinds; one inside of the second kind stays as it is. `own` is the length of the path of
/// the value.
fn widened(flaw: Flaw, own: usize, kind: &Kind) -> Flaw {
    if flaw.path.len() == own { Flaw { expected: kind.name(), ..flaw } } else { flaw }
}

/// Items of an array, each as it is written.
fn items(array: &str) -> Vec<&str> {
    let items: Result<Vec<&serde_json::value::RawValue>, _> = serde_json::from_str(array);
    items.unwrap_or_default().into_iter().map(serde_json::value::RawValue::get).collect()
}

/// A whole number that every reader keeps, written in any form.
fn whole(token: &str) -> Option<f64> {
    let number: f64 =
        token.parse().ok().filter(|_| token.starts_with(|first: char| first == '-' || first.is_ascii_digit()))?;
    (number.fract() == 0.0 && number.abs() <= MAX_SAFE).then_some(number)
}

/// True for a string that is a JSON Pointer: empty, or `/` and the rest, with `~` only in `~0` and `~1`.
fn is_pointer(token: &str) -> bool {
    // A text with half of a surrogate pair has no other `/` and `~` than its token.
    let text = json::string(token).unwrap_or_else(|| token.trim_matches('"').to_owned());
    let tildes = text.match_indices('~').all(|(at, _)| matches!(text.as_bytes().get(at + 1), Some(b'0' | b'1')));
    (text.is_empty() || text.starts_with('/')) && tildes
}
