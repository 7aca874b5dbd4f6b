//! Configuration file: every setting under its flag's name with underscores, the limits in `[limits]`, and agents.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    fs,
    path::Path,
};

use serde::Deserialize;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    ConfigError,
    setting::{LIMITS, Setting},
};
use crate::agents::Definition;

/// Name of the table that holds the agents.
const AGENTS: &str = "agents";
/// Least similarity (Jaro, 0 to 1) at which a known name is suggested for a misspelt one.
const ALIKE: f64 = 0.75;

/// Content of a file.
#[derive(Debug, Default)]
pub(super) struct FileValues {
    /// Values by the id of the setting.
    pub settings: HashMap<String, Vec<OsString>>,
    pub agents: BTreeMap<String, Definition>,
}

/// Table of agents; the settings are read separately.
#[derive(Deserialize)]
struct Agents {
    #[serde(default)]
    agents: BTreeMap<String, Definition>,
}

/// State of the reader of one file.
struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    known: &'a [Setting],
    found: FileValues,
}

/// Reads a file, and checks every setting in it.
pub(super) fn read(path: &Path, known: &[Setting]) -> Result<FileValues, ConfigError> {
    let text = fs::read_to_string(path).map_err(|error| ConfigError::Read(path.to_owned(), error))?;
    let mut reader = Reader { path, text: &text, known, found: FileValues::default() };
    let table = DeTable::parse(&text).map_err(|error| reader.syntax(&error))?;
    for (key, value) in table.get_ref().iter() {
        match (key.get_ref().as_ref(), value.get_ref()) {
            (AGENTS, _) => {}
            (LIMITS, DeValue::Table(limits)) => {
                for (key, value) in limits.iter() {
                    reader.take(Some(LIMITS), key.get_ref(), key.span().start, value)?;
                }
            }
            (name, _) => reader.take(None, name, key.span().start, value)?,
        }
    }
    let agents: Agents = toml::from_str(&text).map_err(|error| reader.syntax(&error))?;
    reader.found.agents = agents.agents;
    Ok(reader.found)
}

impl Reader<'_> {
    fn line(&self, at: usize) -> usize {
        1 + self.text.get(..at).unwrap_or_default().matches('\n').count()
    }

    /// The message must not show the line, which may hold a key.
    fn syntax(&self, error: &toml::de::Error) -> ConfigError {
        let line = self.line(error.span().map_or(0, |span| span.start));
        ConfigError::Parse(self.path.to_owned(), line, error.message().to_owned())
    }

    fn wrong(&self, at: usize, reason: String) -> ConfigError {
        ConfigError::Parse(self.path.to_owned(), self.line(at), reason)
    }

    fn take(
        &mut self,
        table: Option<&'static str>,
        name: &str,
        at: usize,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), ConfigError> {
        let known = self.known;
        let Some(setting) = known.iter().find(|known| known.table == table && known.name == name) else {
            return Err(self.wrong(at, unknown(known, table, name)));
        };
        let values = match value.get_ref() {
            DeValue::Array(items) if setting.is_list() => items.iter().map(|item| scalar(item.get_ref())).collect(),
            DeValue::Array(_) => None,
            single => scalar(single).map(|value| vec![value]),
        };
        let Some(values) = values else {
            let what = if setting.is_list() { "a list of strings" } else { "one value" };
            return Err(self.wrong(at, format!("{}: expected {what}", setting.key())));
        };
        for value in &values {
            setting.check(value).map_err(|reason| self.wrong(at, format!("{}: {reason}", setting.key())))?;
        }
        self.found.settings.insert(setting.id().to_owned(), values);
        Ok(())
    }
}

fn scalar(value: &DeValue<'_>) -> Option<OsString> {
    match value {
        DeValue::String(text) => Some(text.as_ref().into()),
        DeValue::Integer(number) => Some(number.to_string().into()),
        DeValue::Boolean(yes) => Some(yes.to_string().into()),
        DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

/// Refusal of an unknown key, with the settings that may have been meant.
fn unknown(known: &[Setting], table: Option<&str>, name: &str) -> String {
    let place = |table: Option<&str>| table.map_or_else(String::new, |table| format!("[{table}] "));
    let wrong = format!("unknown setting {}{name}", place(table));
    if table.is_none() && name == "api_key" {
        return format!("{wrong}: set THREADLINE_API_KEY, or api_key_file to a file with the key");
    }
    if table.is_none() && ["agent", "config"].contains(&name) {
        return format!("{wrong}; agents are defined in tables like [agents.trips]");
    }
    let alike = |setting: &&Setting| strsim::jaro(&setting.name, name) > ALIKE || setting.flag() == name;
    let mut near: Vec<_> = known.iter().filter(alike).collect();
    near.sort_by(|a, b| strsim::jaro(&b.name, name).total_cmp(&strsim::jaro(&a.name, name)));
    near.truncate(3);
    if near.is_empty() {
        let here = known.iter().filter(|known| known.table == table);
        let names: Vec<_> = here.map(|setting| setting.name.as_str()).collect();
        let tables = if table.is_none() { "; and the tables [limits] and [agents.NAME]" } else { "" };
        return format!("{wrong}; the settings are {}{tables}", names.join(", "));
    }
    let names: Vec<_> = near.into_iter().map(Setting::key).collect();
    format!("{wrong}; did you mean {}?", names.join(" or "))
}
