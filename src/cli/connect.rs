//! Connection of the client commands.

use clap::Args;
use threadline_client::{Client, ClientConfig, ClientError};

use crate::config::API_KEY_VARIABLE;

/// Server that a command connects to, the user to act as, and the project to act in.
#[derive(Debug, Clone, Args)]
pub struct ConnectArgs {
    /// Address of the server to talk to
    #[arg(
        long,
        global = true,
        env = "THREADLINE_URL",
        default_value = "http://127.0.0.1:7420",
        value_name = "URL",
        help_heading = "Server to talk to"
    )]
    pub url: String,
    /// User to act as [default: the server's default user; with an API key: the whole project]
    #[arg(long, global = true, env = "THREADLINE_USER", value_name = "ID", help_heading = "Server to talk to")]
    pub user: Option<String>,
    /// Project to act in, with the operator's key [default: the key's own]; for `verify`, the only project to verify
    #[arg(long, global = true, env = "THREADLINE_PROJECT", value_name = "ID", help_heading = "Server to talk to")]
    pub project: Option<String>,
}

impl ConnectArgs {
    /// Makes a client for the selected server, with the API key from the environment.
    pub fn client(&self) -> Result<Client, ClientError> {
        let mut config = ClientConfig::new(&self.url);
        config.user.clone_from(&self.user);
        config.project.clone_from(&self.project);
        config.api_key = match std::env::var(API_KEY_VARIABLE) {
            // A key from a file often ends in a newline.
            Ok(key) => Some(key.trim().to_owned()).filter(|key| !key.is_empty()),
            Err(std::env::VarError::NotPresent) => None,
            Err(std::env::VarError::NotUnicode(_)) => {
                return Err(ClientError::Config(format!("{API_KEY_VARIABLE} is not text")));
            }
        };
        Client::new(config)
    }
}
