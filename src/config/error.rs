//! Reasons why a configuration cannot be used.

use std::{io, path::PathBuf};

use threadline_core::{
    AgentId, IdError,
    limits::{MIN_OPERATOR_KEY_CHARS, MIN_OPERATOR_KEY_DIFFERENT},
};
use threadline_secrets::KeyringError;
use threadline_store::private::KeyFileError;

/// Reason why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Failure to read the file.
    #[error("cannot read the configuration {path}: {1}", path = .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// Line of the file that is wrong. The line itself is not shown, since it may hold a key.
    #[error("invalid configuration {path}, line {1}: {2}", path = .0.display())]
    Parse(PathBuf, usize, String),
    /// Name that cannot be an agent's id.
    #[error("{0:?} is not a valid agent name: {1}")]
    Name(String, #[source] IdError),
    /// An agent is named by two flags.
    #[error("--agent names {0:?} twice")]
    Twice(String),
    /// An agent is not complete or contradicts itself.
    #[error("invalid agent {0}: {1}")]
    Agent(AgentId, String),
    /// A file of secrets cannot be read, or other users can read or change it.
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    /// The file of secret keys has none that can be used.
    #[error("invalid secret key file {path}: {1}", path = .0.display())]
    SecretKeys(PathBuf, #[source] KeyringError),
    /// Neither development mode nor an operator key: a server must not be open because a setting was forgotten.
    #[error(
        "neither an API key nor development mode: set THREADLINE_API_KEY to a random key (openssl rand -hex 32) for \
         `threadline serve`, or run `threadline dev`, which has no authentication and is for this machine only"
    )]
    NoAuthentication,
    /// Development mode and an operator key, which contradict each other.
    #[error(
        "development mode has no authentication, but {0} contains an API key: remove the key, or start `threadline serve` \
         without development mode (--development, THREADLINE_DEVELOPMENT)"
    )]
    KeyInDevelopment(String),
    /// Key variable that is set and blank, most likely a secret that came out empty.
    #[error("{0} is set but blank. Set it to a random key (openssl rand -hex 32), or unset it")]
    BlankKey(&'static str),
    /// Variable of a file with secrets that is set and blank, most likely a path that came out empty.
    #[error("{0} is set but blank. Set it to the path of the file, or unset it")]
    BlankKeyFile(&'static str),
    /// Key that is short enough to be guessed.
    #[error(
        "the API key in {place} has {chars} characters, but must have at least {MIN_OPERATOR_KEY_CHARS}: \
         generate one with openssl rand -hex 32"
    )]
    ShortKey {
        /// Variable or file that holds the key.
        place: String,
        /// Length of the key, in characters.
        chars: usize,
    },
    /// Key that repeats a few characters, and can therefore be guessed.
    #[error(
        "the API key in {place} has {different} different characters, but must have at least \
         {MIN_OPERATOR_KEY_DIFFERENT}: generate one with openssl rand -hex 32"
    )]
    UniformKey {
        /// Variable or file that holds the key.
        place: String,
        /// Number of different characters in the key.
        different: usize,
    },
    /// Key file that holds no key.
    #[error("{path} contains no API key: the file is empty", path = .0.display())]
    NoKey(PathBuf),
    /// A URL is set, and so is a file that holds one.
    #[error(
        "{0} and {0}-file (or their variables, or their keys in the configuration file) are both set: use one of them"
    )]
    TwoUrls(&'static str),
    /// File without a URL that can be used. The content is not shown, since it may hold a password.
    #[error("{path} does not hold one URL, like those of {flag}", path = .path.display())]
    NotUrl {
        /// File that was read.
        path: PathBuf,
        /// Setting whose URL the file should hold.
        flag: &'static str,
    },
    /// Key variable that is not valid Unicode.
    #[error("{0} is not text")]
    KeyNotText(&'static str),
    /// The naming endpoint is incomplete or invalid.
    #[error("invalid endpoint for thread names: {0}")]
    TitleSettings(String),
    /// Refusal of the command line by its parser.
    #[error("{0}")]
    Arguments(#[from] clap::Error),
}
