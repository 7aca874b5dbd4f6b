//! A setting, derived from the definition of the command line.

use std::ffi::OsStr;

use clap::{Arg, ArgAction, Args, Command};

use super::settings::ServeArgs;

/// Name of the table that holds the limits.
pub(super) const LIMITS: &str = "limits";

/// Setting that the file may hold.
pub(super) struct Setting {
    pub arg: Arg,
    /// Table of the file: `[limits]`, or none for the top level.
    pub table: Option<&'static str>,
    /// Name within that table.
    pub name: String,
}

/// Definition as a separate command that ignores the environment.
pub(super) fn command() -> Command {
    ServeArgs::augment_args(Command::new("threadline")).mut_args(|arg| arg.env(clap::builder::Resettable::Reset))
}

/// Definition with its environment variables.
fn defined() -> Command {
    ServeArgs::augment_args(Command::new("threadline"))
}

/// All settings, in order, without `config` and `agent`: the file does not name itself, and agents have tables of their
/// own there.
pub(super) fn all() -> Vec<Setting> {
    defined().get_arguments().filter(|arg| !["config", "agent"].contains(&flag(arg))).map(Setting::new).collect()
}

/// Name of a flag, without the dashes.
pub(super) fn flag(arg: &Arg) -> &str {
    arg.get_long().unwrap_or_default()
}

impl Setting {
    fn new(arg: &Arg) -> Self {
        let name = flag(arg).replace('-', "_");
        match name.strip_prefix("limit_") {
            Some(name) => Self { arg: arg.clone(), table: Some(LIMITS), name: name.to_owned() },
            None => Self { arg: arg.clone(), table: None, name },
        }
    }

    /// Name in the file, with its table, for messages.
    pub fn key(&self) -> String {
        self.table.map_or_else(|| self.name.clone(), |table| format!("[{table}] {}", self.name))
    }

    pub fn id(&self) -> &str {
        self.arg.get_id().as_str()
    }

    pub fn flag(&self) -> &str {
        flag(&self.arg)
    }

    pub fn variable(&self) -> Option<String> {
        self.arg.get_env().map(|name| name.to_string_lossy().into_owned())
    }

    /// True if the setting holds several values.
    pub fn is_list(&self) -> bool {
        matches!(self.arg.get_action(), ArgAction::Append)
    }

    pub fn default(&self) -> Option<String> {
        self.arg.get_default_values().first().map(|value| value.to_string_lossy().into_owned())
    }

    /// True if the value is a number or a boolean, which the file holds without quotation marks.
    pub fn is_bare(&self) -> bool {
        let is_bare =
            |value: &str| value.bytes().all(|byte| byte.is_ascii_digit()) || ["true", "false"].contains(&value);
        self.default().is_some_and(|default| is_bare(&default))
    }

    /// True if the value is an address that may hold a password.
    pub fn holds_secrets(&self) -> bool {
        self.arg.get_value_names().is_some_and(|names| names.iter().any(|name| name == "URL"))
    }

    /// Checks a value as the command line would. Returns the reason of a refusal.
    pub fn check(&self, value: &OsStr) -> Result<(), String> {
        let mut flag = std::ffi::OsString::from(format!("--{}=", self.flag()));
        flag.push(value);
        let Err(error) = command().try_get_matches_from([OsStr::new("threadline"), &flag]) else { return Ok(()) };
        // The reason alone, if there is one: the complete message would show the value.
        let reason = std::error::Error::source(&error).map(ToString::to_string);
        Err(reason.unwrap_or_else(|| {
            let text = error.to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            text.split("\n\nFor more information").next().unwrap_or_default().trim().replace('\n', " ")
        }))
    }
}
