//! Attempts that requests speak for.

use serde::Deserialize;
use threadline_core::{RunId, limits::MAX_ATTEMPT};
use threadline_engine::RunAt;
use threadline_http::problem::Problem;
use utoipa::IntoParams;

/// Attempt that a request speaks for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct AttemptParams {
    /// The number of the attempt that the request speaks for, as its start returned it. Without it, the first attempt. Another
    /// attempt than the present one is refused: 409 `run-fenced`.
    pub(super) attempt: Option<u64>,
}

/// The run of a request, with its attempt.
pub(super) fn run_at(run: &RunId, attempt: Option<u64>) -> Result<RunAt<'_>, Problem> {
    match attempt {
        Some(number) if !(1..=MAX_ATTEMPT).contains(&number) => {
            Err(Problem::invalid(format!("attempt is {number}, and must be from 1 to {MAX_ATTEMPT}")))
        }
        attempt => Ok(RunAt { id: run, attempt }),
    }
}
