//! Failures of commands, and their exit codes.

use std::{io, process::ExitCode};

use super::output;
use threadline_client::ClientError;

use crate::config::ConfigError;

/// Exit code for an error of a command.
pub const FAILED: u8 = 1;

/// Exit code for unusable input: arguments, variables or a file.
pub const MISUSED: u8 = 2;

/// Reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The server could not be reached, or refused the request.
    #[error("{0}")]
    Client(#[from] ClientError),
    /// The run ended in RUN_ERROR.
    #[error("the run failed: {0}")]
    Run(String),
    /// The thread has no open interrupt of an agent.
    #[error("thread {0} has no open interrupt of an agent (list the threads that wait with `threadline interrupts`)")]
    NothingWaits(String),
    /// The open interrupts of the thread are of several agents.
    #[error("the open interrupts of thread {0} are of several agents: answer them with POST /v1/threads/{0}/runs")]
    SeveralAgents(String),
    /// The queued turn was removed, or dropped, before its run began.
    #[error(
        "the turn {0} was removed from the queue before its run began: send the message again if it is still wanted"
    )]
    TurnGone(String),
    /// The run holds no evidence of its agent's input.
    #[error("{0}")]
    NoEvidence(String),
    /// Error in the configuration.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// An export or import failed, or refused some threads.
    #[error("{0}")]
    Transfer(String),
    /// The benchmark program could not be started.
    #[error("{0}")]
    Bench(String),
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Output(io::Error),
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Maps the result of a command to its exit code, and prints an error. An output that is closed early (`| head`) is a
/// success.
pub fn report(result: Result<(), CliError>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(CliError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            output::note(&format!("error: {error}"));
            ExitCode::from(if matches!(error, CliError::Config(_)) { MISUSED } else { FAILED })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_has_gone_is_a_good_end() {
        let gone = CliError::Output(io::ErrorKind::BrokenPipe.into());
        assert_eq!(report(Err(gone)), ExitCode::SUCCESS);
        assert_eq!(report(Err(CliError::Output(io::ErrorKind::StorageFull.into()))), ExitCode::FAILURE);
    }
}
