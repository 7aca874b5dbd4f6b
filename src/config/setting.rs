//! What is known of a setting, read off the command line's definition.

use std::ffi::OsStr;

use clap::{Arg, ArgAction, Args, Command};

use super::settings::ServeArgs;

/// The table of the file that holds the limits.
pub(super) const LIMITS: &str = "limits";

/// A setting that the file may hold.
pub(super) struct Setting {
    pub arg: Arg,
    /// `[limits]`, or the top.
    pub table: Option<&'static str>,
    /// Its name in that table.
    pub name: String,
}

/// The definition, as a command of its own that knows no environment.
pub(super) fn command() -> Command {
    ServeArgs::augment_args(Command::new("threadline")).mut_args(|arg| arg.env(clap::builder::Resettable::Reset))
}

/// The definition, environment and all.
fn defined() -> Command {
    ServeArgs::augment_args(Command::new("threadline"))
}

/// All settings, in order. Not among them: which file it is, and agents, which have a form of their own there.
pub(super) fn all() -> Vec<Setting> {
    defined().get_arguments().filter(|arg| !["config", "agent"].contains(&flag(arg))).map(Setting::new).collect()
}

/// The name of a flag, without the dashes.
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

    /// Its name in the file, for people.
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

    /// Whether it holds several values.
    pub fn is_list(&self) -> bool {
        matches!(self.arg.get_action(), ArgAction::Append)
    }

    pub fn default(&self) -> Option<String> {
        self.arg.get_default_values().first().map(|value| value.to_string_lossy().into_owned())
    }

    /// Whether it is a number or a truth value, and stands in the file without quotation marks.
    pub fn is_bare(&self) -> bool {
        let is_bare =
            |value: &str| value.bytes().all(|byte| byte.is_ascii_digit()) || ["true", "false"].contains(&value);
        self.default().is_some_and(|default| is_bare(&default))
    }

    /// Whether its value is an address that may hold a password.
    pub fn holds_secrets(&self) -> bool {
        self.arg.get_value_names().is_some_and(|names| names.iter().any(|name| name == "URL"))
    }

    /// Checks a value as the command line would; what is wrong with it.
    pub fn check(&self, value: &OsStr) -> Result<(), String> {
        let mut flag = std::ffi::OsString::from(format!("--{}=", self.flag()));
        flag.push(value);
        let Err(error) = command().try_get_matches_from([OsStr::new("threadline"), &flag]) else { return Ok(()) };
        // The reason alone where there is one: the rest would show the value.
        let reason = std::error::Error::source(&error).map(ToString::to_string);
        Err(reason.unwrap_or_else(|| {
            let text = error.to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            text.split("\n\nFor more information").next().unwrap_or_default().trim().replace('\n', " ")
        }))
    }
}
