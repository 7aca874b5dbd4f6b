//! The effective configuration as TOML, with the source of each value, and without secrets.

use std::fmt::Write;

use super::{API_KEY_VARIABLE, Authentication, Chosen, Configuration, NAMING_KEY_VARIABLE, Source, setting::LIMITS};
use threadline_core::{
    agent::{Agent, AgentKind, Approvals, OnDisconnect},
    json,
};

const HIDDEN: &str = "(hidden)";

/// Removes user, password and parameters from an address, so that it may be shown.
pub fn without_secrets(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return HIDDEN.to_owned() };
    let (rest, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    // The question mark may then belong to a password, and the text before it as well.
    if parameters.contains('@') {
        return format!("{scheme}://{HIDDEN}");
    }
    let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
    format!("{scheme}://{place}")
}

/// A text as a TOML string.
fn quoted(text: &str) -> String {
    // DEL is legal in a JSON string and must be escaped in TOML.
    json::quoted(text).replace('\u{7f}', "\\u007f")
}

impl Source {
    fn comment(&self) -> String {
        match self {
            Self::Flag => "from the command line".to_owned(),
            Self::Environment(name) => format!("from the environment: {name}"),
            Self::File => "from the file".to_owned(),
            Self::Default => "default".to_owned(),
        }
    }
}

impl Configuration {
    /// Renders the complete configuration in the form of its file. Hidden values must be filled in before use as a
    /// file.
    pub fn to_toml(&self) -> String {
        let mut out = String::from("# The effective configuration; each comment is the source of a value.\n");
        if let Some(file) = &self.args.config {
            let _ = writeln!(out, "# The file: {}", file.display());
        }
        let is_set = matches!(self.authentication, Some(Authentication::OperatorKey(_)));
        let key = if is_set { "set" } else { "not set" };
        let _ = writeln!(out, "# {API_KEY_VARIABLE}, or the file named by api_key_file: {key}");
        let named = |agent: &Agent| matches!(&agent.kind, AgentKind::OpenAi { api_key: Some(_), .. });
        let key = if self.naming_endpoint.as_ref().is_some_and(named) { "set" } else { "not set" };
        let _ = writeln!(out, "# {NAMING_KEY_VARIABLE}, or the file named by naming_api_key_file: {key}\n");
        let (top, limits): (Vec<_>, Vec<_>) = self.chosen.iter().partition(|chosen| chosen.setting.table.is_none());
        for chosen in top {
            self.write(&mut out, chosen);
        }
        let _ = writeln!(out, "\n[{LIMITS}]");
        for chosen in limits {
            self.write(&mut out, chosen);
        }
        for agent in &self.agents {
            let flagged = self.flagged_agents.contains(agent.id.as_str());
            write_agent(&mut out, agent, if flagged { &Source::Flag } else { &Source::File });
        }
        out
    }

    fn write(&self, out: &mut String, Chosen { setting, source, values }: &Chosen) {
        let name = &setting.name;
        let mut comment = source.comment();
        let show = |text: String| {
            if setting.is_bare() {
                text
            } else if setting.holds_secrets() {
                quoted(&without_secrets(&text))
            } else {
                quoted(&text)
            }
        };
        let values: Vec<_> = values.iter().map(|value| value.to_string_lossy().into_owned()).collect();
        if setting.holds_secrets() && values.iter().any(|value| without_secrets(value) != *value) {
            comment.push_str("; user, password and parameters are hidden");
        }
        if self.args.development && *source == Source::Default && setting.flag().starts_with("limit-user-") {
            comment.push_str("; not applied in development mode");
        }
        let written = match (setting.is_list(), values.first().cloned()) {
            (true, _) => Some(format!("[{}]", values.into_iter().map(show).collect::<Vec<_>>().join(", "))),
            (false, value) => value.map(show),
        };
        let _ = match written {
            Some(written) => writeln!(out, "# {comment}\n{name} = {written}"),
            None => writeln!(out, "# not set: {name}"),
        };
    }
}

fn write_agent(out: &mut String, agent: &Agent, source: &Source) {
    let mut lines = Vec::new();
    match &agent.kind {
        AgentKind::AgUi { url, headers } => {
            lines.push(format!("url = {}", quoted(&without_secrets(url))));
            if !headers.is_empty() {
                let headers = headers.iter().map(|(name, _)| format!("{} = {}", quoted(name), quoted(HIDDEN)));
                let headers: Vec<_> = headers.collect();
                lines.push(format!("headers = {{ {} }}", headers.join(", ")));
            }
        }
        AgentKind::OpenAi { base_url, model, api_key, instructions } => {
            lines.push("kind = \"openai\"".to_owned());
            lines.push(format!("base_url = {}", quoted(&without_secrets(base_url))));
            lines.push(format!("model = {}", quoted(model)));
            lines.extend(api_key.as_ref().map(|_| format!("api_key = {}", quoted(HIDDEN))));
            lines.extend(instructions.as_ref().map(|text| format!("instructions = {}", quoted(text))));
        }
        AgentKind::Demo => lines.push("kind = \"demo\"".to_owned()),
    }
    if agent.on_disconnect == OnDisconnect::Stop {
        lines.push("on_disconnect = \"stop\"".to_owned());
    }
    lines.push(format!("idle_timeout_seconds = {}", agent.idle_timeout.as_secs()));
    lines.extend((agent.approvals == Approvals::Backend).then(|| "approvals = \"backend\"".to_owned()));
    lines.extend(agent.names_threads.then(|| "names_threads = true".to_owned()));
    let _ = writeln!(out, "\n# {}\n[agents.{}]\n{}", source.comment(), quoted(agent.id.as_str()), lines.join("\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_without_their_secrets() {
        for (url, shown) in [
            ("postgres://u:secret@db:5432/t?sslmode=require", "postgres://db:5432/t"),
            ("postgres://db/t?user=u&password=secret", "postgres://db/t"),
            ("postgres://u:sec@ret@db/t", "postgres://db/t"),
            ("postgres://u:sec/ret@db/t", "postgres://db/t"),
            ("postgres://u:sec?ret@db/t", "postgres://(hidden)"),
            ("postgres://db/t?password=sec@ret", "postgres://(hidden)"),
            ("redis://:secret@cache/0", "redis://cache/0"),
            ("secret", "(hidden)"),
        ] {
            assert_eq!(without_secrets(url), shown);
        }
    }
}
