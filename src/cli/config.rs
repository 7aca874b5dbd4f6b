//! `threadline config`: the effective configuration, a check of it, and the reference.

use std::io::{self, Write};

use clap::{ArgMatches, Args};

use super::CliError;
use crate::config::{self, ServeArgs};

/// What to show.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Takes the flags of `threadline serve`, and prints what the server would run with: TOML, each value with where it comes from.
Keys and passwords are hidden.

Examples:
  threadline config --config threadline.toml
  THREADLINE_LISTEN=0.0.0.0:80 threadline config | grep -B1 listen
  threadline config --check --config threadline.toml
  threadline config --reference > docs/configuration.md")]
pub struct ConfigArgs {
    /// Only check it: exit code 2 and the reason if it is wrong
    #[arg(long)]
    pub check: bool,
    /// Print the reference of all settings, as Markdown
    #[arg(long, conflicts_with = "check")]
    pub reference: bool,
    /// The settings.
    #[command(flatten)]
    pub serve: ServeArgs,
}

/// Carries it out; `matches` are those of the command.
pub fn run(args: &ConfigArgs, matches: &ArgMatches) -> Result<(), CliError> {
    let text = if args.reference {
        config::reference()
    } else {
        let configuration = config::load(matches)?;
        if args.check { "The configuration is good.\n".to_owned() } else { configuration.to_toml() }
    };
    Ok(io::stdout().write_all(text.as_bytes())?)
}
