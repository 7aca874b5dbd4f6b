//! CopilotKit APIs: the published packages of CopilotKit use them unchanged.
//!
//! `intelligence` stands in for the platform of the Node runtime (`apiUrl`, `wsUrl`, `apiKey`). `runtime` stands in for
//! the Node runtime of the browser packages (`runtimeUrl`). `phoenix` is the transport of live data for both.

pub mod intelligence;
mod listing;
pub mod node;
pub mod phoenix;
pub mod runtime;
pub mod view;

use threadline_http::routes::Routes;

use crate::api::ApiState;

pub fn routes(routes: Routes<ApiState>) -> Routes<ApiState> {
    runtime::routes(intelligence::routes(routes))
}
