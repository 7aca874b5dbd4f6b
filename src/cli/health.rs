//! `threadline health`: the readiness of a server, for containers and scripts that have no HTTP client.

use std::{io::Write, time::Duration};

use clap::Args;
use threadline_client::{Client, Readiness};
use tokio::time::{Instant, sleep};

use super::{connect::ConnectArgs, error::CliError, output::shown};

/// Kind of the check, and its timeout.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Exit code 0: the server is ready; its dependencies are shown. Without Redis it is `degraded`, and still accepts requests.
Exit code 1: the server is unreachable or shutting down, or its store does not respond.

Examples:
  threadline health                  Check readiness (GET /readyz)
  threadline health --live           Check liveness only; succeeds even without a store (GET /livez)
  threadline health --wait 30        Wait up to 30 seconds until a starting server is ready")]
pub struct HealthArgs {
    /// Check liveness only, not the dependencies
    #[arg(long)]
    pub live: bool,
    /// Retry until the check succeeds, for at most this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=3600))]
    pub wait: u64,
}

/// Time between two checks of `--wait`.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Checks the server until a check succeeds or `--wait` has expired. Reports the last error.
pub async fn run(connect: &ConnectArgs, args: &HealthArgs) -> Result<(), CliError> {
    let client = connect.client()?;
    let deadline = Instant::now() + Duration::from_secs(args.wait);
    loop {
        let checked = ask(&client, args, &mut std::io::stdout().lock()).await;
        if checked.is_ok() || Instant::now() + CHECK_INTERVAL > deadline {
            return checked;
        }
        sleep(CHECK_INTERVAL).await;
    }
}

/// Does one check, with its output to `out`.
pub async fn ask(client: &Client, args: &HealthArgs, out: &mut impl Write) -> Result<(), CliError> {
    if args.live {
        client.health().await?;
        writeln!(out, "alive")?;
        return Ok(());
    }
    let Readiness { status, dependencies } = client.ready().await?;
    writeln!(out, "{}", shown(&status, 40))?;
    for (name, state) in dependencies {
        writeln!(out, "  {:<8}{}", shown(&name, 40), shown(&state, 40))?;
    }
    Ok(())
}
