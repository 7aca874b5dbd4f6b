//! `threadline config`: the effective configuration, a check of it, and the reference.

use std::io::{self, Write};

use clap::{ArgMatches, Args};

use super::error::CliError;
use crate::config::{self, ServeArgs, StartCommand};

/// Form of the output, and the settings.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Accepts the flags of `threadline serve`, and prints the effective configuration: TOML, each value with its source.
Keys and passwords are hidden.

Examples:
  threadline config --config threadline.toml
  THREADLINE_LISTEN=0.0.0.0:80 threadline config | grep -B1 listen
  threadline config --check --config threadline.toml
  threadline config --reference > docs/configuration.md")]
pub struct ConfigArgs {
    /// Only check the configuration: exit code 2 and the reason if it is invalid
    #[arg(long)]
    pub check: bool,
    /// Print the reference of all settings, as Markdown
    #[arg(long, conflicts_with = "check")]
    pub reference: bool,
    /// Settings, as `threadline serve` takes them.
    #[command(flatten)]
    pub serve: ServeArgs,
}

/// Runs the command; `matches` must be those of the subcommand.
pub fn run(args: &ConfigArgs, matches: &ArgMatches) -> Result<(), CliError> {
    let text = if args.reference {
        config::reference()
    } else {
        let configuration = config::load(matches, StartCommand::Serve)?;
        if args.check {
            configuration.authentication()?;
            "The configuration is valid.\n".to_owned()
        } else {
            configuration.to_toml()
        }
    };
    Ok(io::stdout().write_all(text.as_bytes())?)
}
