//! `threadline health`: whether the server takes requests. For containers and scripts that have no HTTP client.

use super::{CliError, ConnectArgs};

/// Asks once. A server that is shutting down is not well.
pub async fn run(connect: &ConnectArgs) -> Result<(), CliError> {
    Ok(connect.client()?.health().await?)
}
