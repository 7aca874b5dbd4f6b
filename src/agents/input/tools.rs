//! Tools of a front end that a client may supply.

use std::borrow::Cow;

use threadline_core::{
    agent::ClientMay,
    json::{self, plain},
};

use crate::agents::reading::{Object, items, whole};

/// True if an agent may take a name for that of its own tool.
fn same_tool(own: &str, name: &str) -> bool {
    let letters = |name: &str| plain(name).chars().filter(|letter| letter.is_alphanumeric()).collect::<String>();
    own == name || letters(own) == letters(name)
}

/// Beginning of a text, for an error.
fn cut(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Tools that the client may supply, and the number of the others. Fails for a tool that the agent has itself.
pub(super) fn keep_tools<'a>(
    list: Cow<'a, str>,
    may: &ClientMay,
    reserved: &[String],
) -> Result<(Cow<'a, str>, usize), String> {
    let readable = whole(&list).into_owned();
    let tools = items(&readable);
    let name = |tool: &Object<'_>| tool.text("name").unwrap_or_default();
    if let Some(found) = tools.iter().find_map(|tool| json::disguised(tool.0, &["name", "description", "parameters"])) {
        return Err(format!("a tool has a member {found:?} twice, or not written as AG-UI defines it"));
    }
    if let Some(other) = tools.iter().find(|tool| !tool.0.starts_with('{') || name(tool).is_empty()) {
        return Err(format!("a tool is no object with a name: {}", cut(other.0)));
    }
    // Agents may read a name without blanks, in another case, or in the form of OpenAI's API.
    let is_reserved = |name: &str| reserved.iter().any(|own| same_tool(own, name));
    let nested = |tool: &Object<'_>| json::string_member(json::member(tool.0, "function")?, "name");
    let names = tools.iter().flat_map(|tool| [Some(name(tool)), nested(tool)]).flatten();
    if let Some(taken) = names.into_iter().find(|name| is_reserved(name)) {
        return Err(format!("tool {taken:?} is one of the agent's own tools"));
    }
    let kept: Vec<_> = tools.iter().filter(|tool| may.tools.allow(&name(tool))).map(|tool| tool.0).collect();
    match tools.len() - kept.len() {
        0 => Ok((list, 0)),
        dropped => Ok((Cow::Owned(format!("[{}]", kept.join(","))), dropped)),
    }
}
