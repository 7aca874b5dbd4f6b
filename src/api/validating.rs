//! Requests that ask for validation of their events, or whose project does.

use serde::Deserialize;
use threadline_core::{EventValidation, Principal};
use threadline_http::problem::Problem;

use super::ApiState;

/// Validation that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Validate {
    AgUi,
}

/// True if the events of a request are validated.
pub async fn validates(state: &ApiState, principal: &Principal, asked: Option<Validate>) -> Result<bool, Problem> {
    if asked.is_some() {
        return Ok(true);
    }
    let projects = state.http.auth.projects();
    Ok(projects.validation(&principal.project).await? == EventValidation::AgUi)
}
