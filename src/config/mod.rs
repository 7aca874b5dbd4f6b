//! Configuration of the server: flags, environment, file and defaults, in this order of precedence.
//!
//! ```toml
//! listen = "127.0.0.1:7420"
//! lock_ttl_seconds = 20
//!
//! [limits]
//! user_requests_per_second = 50
//!
//! [agents.trips]
//! url = "http://127.0.0.1:8000/"
//! headers = { Authorization = "Bearer …" }
//! on_disconnect = "stop"
//!
//! [agents.chat]
//! kind = "openai"
//! base_url = "https://api.example.com/v1"
//! model = "some-model"
//! api_key_env = "CHAT_API_KEY"
//! ```

mod effective;
mod error;
mod file;
mod limits;
mod machine;
mod reference;
mod setting;
mod settings;
mod urls;

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    path::Path,
    sync::Arc,
};

use clap::{ArgMatches, FromArgMatches, builder::Resettable, parser::ValueSource};

pub use effective::without_secrets;
pub use error::ConfigError;
pub use limits::LimitArgs;
pub use reference::reference;
pub use settings::{DrainTimes, ListenAddress, LogFormat, ServeArgs, StoreUrl};
pub use urls::{redis_url, store_url};

use crate::agents::{Definition, definition::Kind};
use setting::Setting;
use threadline_core::{
    AgentId, AllowedOrigins, Limits,
    agent::Agent,
    limits::{MIN_OPERATOR_KEY_CHARS, MIN_OPERATOR_KEY_DIFFERENT},
};
use threadline_secrets::Keyring;
use threadline_store::private::read_key_file;

/// Variable that holds the API key. Arguments never do, since other users of the machine can see them.
pub const API_KEY_VARIABLE: &str = "THREADLINE_API_KEY";
const API_KEY_FILE_VARIABLE: &str = "THREADLINE_API_KEY_FILE";
/// Variables with paths of files that hold secrets. Blank, each is most likely a path that came out empty: a node without its
/// file would be another one than was meant.
const SECRET_FILE_VARIABLES: [&str; 4] =
    [API_KEY_FILE_VARIABLE, "THREADLINE_SECRET_KEY_FILE", "THREADLINE_STORE_FILE", "THREADLINE_REDIS_FILE"];
/// Setting that `threadline dev` sets.
const DEVELOPMENT: &str = "development";
/// Variable that holds the key of the naming endpoint.
pub const NAMING_KEY_VARIABLE: &str = "THREADLINE_NAMING_API_KEY";

/// Origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Flag,
    /// Environment variable, by its name.
    Environment(String),
    File,
    /// Default of the setting.
    Default,
}

/// A setting with the origin of its value and the value as text: several values for a list, none if it is not set.
struct Chosen {
    setting: Setting,
    source: Source,
    values: Vec<OsString>,
}

/// Authentication of the server's clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authentication {
    /// None: development mode. Every client is authenticated, and all must be on this machine.
    Development,
    /// By keys and tokens, this key being the operator's.
    OperatorKey(String),
}

impl Authentication {
    /// Operator's key, if there is one.
    pub fn operator_key(&self) -> Option<&str> {
        match self {
            Self::Development => None,
            Self::OperatorKey(key) => Some(key),
        }
    }
}

/// Command that starts the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartCommand {
    /// `threadline serve`: all settings are as chosen.
    Serve,
    /// `threadline dev`: development mode, unless a flag of this command says otherwise.
    Dev,
}

/// Effective configuration, from all sources.
pub struct Configuration {
    /// Values of all settings.
    pub args: ServeArgs,
    /// Agents of the file and of the command line.
    pub agents: Vec<Agent>,
    /// Authentication of clients; `None` if it was not chosen, and no server starts.
    authentication: Option<Authentication>,
    /// Keys under which stored secrets are sealed; without them, those of the data directory, or none.
    pub secret_keys: Option<Arc<Keyring>>,
    /// Endpoint that makes names of threads.
    pub naming_endpoint: Option<Agent>,
    pub limits: Limits,
    /// Origins of web pages that may send requests from browsers.
    pub origins: AllowedOrigins,
    chosen: Vec<Chosen>,
    flagged_agents: BTreeSet<String>,
}

/// Prepares a command line: an empty variable counts as not set, and `--help` shows no values of variables, which may
/// be secret.
pub fn tidy(command: clap::Command) -> clap::Command {
    let arg = |arg: clap::Arg| {
        let empty = arg.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty());
        let arg = arg.hide_env_values(true);
        if empty { arg.env(Resettable::Reset) } else { arg }
    };
    command.mut_args(arg).mut_subcommands(tidy)
}

impl Configuration {
    /// Authentication of clients, which a server cannot start without.
    pub fn authentication(&self) -> Result<&Authentication, ConfigError> {
        self.authentication.as_ref().ok_or(ConfigError::NoAuthentication)
    }
}

/// Loads the effective configuration from a command line that has the settings, and from the file that it names.
pub fn load(matches: &ArgMatches, command: StartCommand) -> Result<Configuration, ConfigError> {
    load_with(matches, command, |name| std::env::var_os(name))
}

fn load_with(
    matches: &ArgMatches,
    command: StartCommand,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<Configuration, ConfigError> {
    let given = ServeArgs::from_arg_matches(matches)?;
    let known = setting::all();
    let mut file = given.config.as_deref().map(|path| file::read(path, &known)).transpose()?.unwrap_or_default();
    let mut chosen = Vec::with_capacity(known.len());
    let mut line = vec![OsString::from("threadline")];
    for setting in known {
        let raw = || matches.get_raw(setting.id()).into_iter().flatten().map(ToOwned::to_owned).collect::<Vec<_>>();
        let (source, values) = match (matches.value_source(setting.id()), file.settings.remove(setting.id())) {
            (Some(ValueSource::CommandLine), _) => (Source::Flag, raw()),
            _ if command == StartCommand::Dev && setting.id() == DEVELOPMENT => (Source::Flag, vec!["true".into()]),
            (Some(ValueSource::EnvVariable), _) => (Source::Environment(setting.variable().unwrap_or_default()), raw()),
            (_, Some(values)) => (Source::File, values),
            _ => (Source::Default, raw()),
        };
        for value in &values {
            let mut flag = OsString::from(format!("--{}=", setting.flag()));
            flag.push(value);
            line.push(flag);
        }
        chosen.push(Chosen { setting, source, values });
    }
    let mut args = ServeArgs::from_arg_matches(&setting::command().try_get_matches_from(line)?)?;
    (args.config, args.agents) = (given.config, given.agents);
    for name in SECRET_FILE_VARIABLES {
        if environment(name).is_some_and(|value| is_blank(&value)) {
            return Err(ConfigError::BlankKeyFile(name));
        }
    }
    args.store = store_url(args.store.as_deref(), args.store_file.as_deref())?;
    args.redis = redis_url(args.redis.as_deref(), args.redis_file.as_deref())?;
    let secret_keys = args.secret_key_file.as_deref().map(secret_keys).transpose()?;
    let key = operator_key(environment(API_KEY_VARIABLE), args.api_key_file.as_deref())?;
    let authentication = match (args.development, key) {
        (true, Some(OperatorKey { place, .. })) => return Err(ConfigError::KeyInDevelopment(place)),
        (true, None) => Some(Authentication::Development),
        (false, key) => key.map(|key| Authentication::OperatorKey(key.text)),
    };
    let naming_key =
        || api_key_of(NAMING_KEY_VARIABLE, environment(NAMING_KEY_VARIABLE), args.naming_api_key_file.as_deref());
    let naming_endpoint = naming_endpoint(&args, naming_key)?;
    let text = |name: &str| environment(name).and_then(|value| value.into_string().ok());
    let agents = agents(file.agents, &args.agents, text)?;
    let on_purpose =
        |flag: &str| chosen.iter().any(|chosen| chosen.setting.flag() == flag && chosen.source != Source::Default);
    let limits = args.limits.limits(on_purpose);
    // Each origin was checked before.
    let origins = AllowedOrigins::parse(&args.allowed_origins).unwrap_or_default();
    let flagged_agents = args.agents.iter().map(|(name, _)| name.clone()).collect();
    Ok(Configuration {
        args,
        agents,
        authentication,
        secret_keys,
        naming_endpoint,
        limits,
        origins,
        chosen,
        flagged_agents,
    })
}

/// Builds the naming endpoint, if one is configured; only then is its key read.
fn naming_endpoint(
    args: &ServeArgs,
    key: impl FnOnce() -> Result<Option<String>, ConfigError>,
) -> Result<Option<Agent>, ConfigError> {
    let given = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
    let wrong = |what: &str| Err(ConfigError::TitleSettings(what.to_owned()));
    let (base_url, model) = match (given(&args.naming_base_url), given(&args.naming_model)) {
        (Some(base_url), Some(model)) => (base_url, model),
        (Some(_), None) => {
            return wrong("naming_base_url is set without naming_model: set the model");
        }
        (None, Some(_)) => {
            return wrong("naming_model is set without naming_base_url: set the URL of the endpoint");
        }
        (None, None) if args.naming_api_key_file.is_some() => {
            return wrong("naming_api_key_file is set without naming_base_url: set the URL of the endpoint");
        }
        (None, None) => return Ok(None),
    };
    let definition = Definition {
        kind: Kind::OpenAi,
        base_url: Some(base_url),
        model: Some(model),
        api_key: key()?,
        ..Definition::default()
    };
    let id = AgentId::new("thread-names").map_err(|error| ConfigError::Name("thread-names".to_owned(), error))?;
    definition.into_agent(id, |_| None).map(Some).map_err(ConfigError::TitleSettings)
}

/// Operator's key, and the variable or file that holds it.
struct OperatorKey {
    text: String,
    place: String,
}

/// Reads the operator's key. A blank variable is an error, and so is a key that can be guessed.
fn operator_key(variable: Option<OsString>, file: Option<&Path>) -> Result<Option<OperatorKey>, ConfigError> {
    if variable.as_deref().is_some_and(is_blank) {
        return Err(ConfigError::BlankKey(API_KEY_VARIABLE));
    }
    let of_file = file.filter(|_| variable.is_none());
    let place = of_file.map_or_else(|| API_KEY_VARIABLE.to_owned(), |file| file.display().to_string());
    let Some(text) = api_key_of(API_KEY_VARIABLE, variable, file)? else { return Ok(None) };
    let (chars, different) = (text.chars().count(), text.chars().collect::<BTreeSet<_>>().len());
    if chars < MIN_OPERATOR_KEY_CHARS {
        return Err(ConfigError::ShortKey { place, chars });
    }
    if different < MIN_OPERATOR_KEY_DIFFERENT {
        return Err(ConfigError::UniformKey { place, different });
    }
    Ok(Some(OperatorKey { text, place }))
}

/// Reads the keys under which stored secrets are sealed.
pub fn secret_keys(path: &Path) -> Result<Arc<Keyring>, ConfigError> {
    let keys = read_key_file(path)?.parse();
    keys.map(Arc::new).map_err(|error| ConfigError::SecretKeys(path.to_owned(), error))
}

fn is_blank(value: &OsStr) -> bool {
    value.to_str().is_some_and(|text| text.trim().is_empty())
}

/// Reads a key, without the newline at the end of a file.
fn api_key_of(
    name: &'static str,
    variable: Option<OsString>,
    file: Option<&Path>,
) -> Result<Option<String>, ConfigError> {
    let trimmed = |key: String| Some(key.trim().to_owned()).filter(|key| !key.is_empty());
    if let Some(key) = variable {
        let key = trimmed(key.into_string().map_err(|_| ConfigError::KeyNotText(name))?);
        if key.is_some() {
            return Ok(key);
        }
    }
    let Some(file) = file else { return Ok(None) };
    trimmed(read_key_file(file)?).map(Some).ok_or_else(|| ConfigError::NoKey(file.to_owned()))
}

/// Merges the agents of the file with those of the command line (`(name, url)` of AG-UI endpoints), which take
/// precedence.
fn agents(
    mut found: BTreeMap<String, Definition>,
    named: &[(String, String)],
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Vec<Agent>, ConfigError> {
    let mut flags = BTreeMap::new();
    for (name, url) in named {
        if flags.insert(name.clone(), Definition::ag_ui(url)).is_some() {
            return Err(ConfigError::Twice(name.clone()));
        }
    }
    found.extend(flags);
    let mut agents = Vec::with_capacity(found.len());
    for (name, definition) in found {
        let id = AgentId::new(&name).map_err(|error| ConfigError::Name(name, error))?;
        let agent = definition.into_agent(id.clone(), &environment);
        agents.push(agent.map_err(|wrong| ConfigError::Agent(id, wrong))?);
    }
    Ok(agents)
}

#[cfg(test)]
mod tests;
