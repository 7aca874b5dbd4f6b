//! The native API: REST under `/v1`, SSE and long-poll on the same cursor, and the socket.

mod agent_data;
mod agents;
mod annotations;
mod attempts;
mod audit;
mod checkpoints;
pub mod events;
pub(super) mod feed;
mod forks;
mod identity;
mod interrupts;
mod items;
mod keys;
mod kv;
pub mod meta;
pub(super) mod projections;
mod queue;
mod run_leases;
pub mod runs;
mod starting;
mod subscriptions;
pub(super) mod threads;
mod tool_claims;
mod trash;

use threadline_core::Scope;
use threadline_http::routes::{Access, Routes};
use utoipa_axum::routes;

use crate::api::ApiState;

/// Adds the routes for monitoring, which the admin listener has as well.
pub fn monitoring(routes: Routes<ApiState>) -> Routes<ApiState> {
    routes
        .route(Access::Public, routes!(meta::live))
        .route(Access::Public, routes!(meta::ready))
        .route(Access::needs(Scope::Metrics), routes!(meta::metrics))
        .route(Access::Operator, routes!(meta::nodes))
}

/// Adds the routes and frames of this API.
pub fn routes(routes: Routes<ApiState>) -> Routes<ApiState> {
    monitoring(routes)
        .route(Access::Public, routes!(meta::problem))
        .route(Access::READ, routes!(threads::list))
        .route(Access::READ, routes!(interrupts::list))
        .route(Access::CHAT, routes!(threads::create))
        .route(Access::READ, routes!(threads::get))
        .route(Access::CHAT, routes!(threads::edit, threads::delete))
        .route(Access::CHAT, routes!(threads::mark_read))
        .route(Access::READ, routes!(events::read))
        .route(Access::READ, routes!(projections::messages))
        .route(Access::READ, routes!(projections::state))
        .route(Access::READ, routes!(annotations::list))
        .route(Access::READ, routes!(subscriptions::list))
        .route(Access::READ, routes!(runs::list))
        .route(Access::SAY_OR_PRODUCE, routes!(runs::start))
        .route(Access::READ, routes!(runs::get))
        .route(Access::SAY_OR_PRODUCE, routes!(runs::append_complete_run))
        .route(Access::PRODUCE, routes!(runs::append))
        .route(Access::PRODUCE, routes!(run_leases::heartbeat))
        .route(Access::PRODUCE, routes!(run_leases::finish))
        .route(Access::PRODUCE, routes!(run_leases::fail))
        .route(Access::CHAT, routes!(run_leases::stop))
        .route(Access::PRODUCE, routes!(run_leases::release))
        .route(Access::READ, routes!(queue::read))
        .route(Access::CHAT, routes!(queue::edit, queue::cancel))
        .route(Access::CHAT, routes!(queue::hold))
        .route(Access::CHAT, routes!(queue::release))
        .route(Access::CHAT, routes!(queue::start))
        .route(Access::CHAT, routes!(forks::fork))
        .route(Access::READ, routes!(forks::branches))
        .route(Access::CHAT, routes!(forks::list_branch))
        .route(Access::CHAT, routes!(tool_claims::claim, tool_claims::give_up))
        .route(Access::AGENT_DATA, routes!(kv::run))
        .route(Access::AGENT_DATA, routes!(items::read, items::append, items::replace))
        .route(Access::AGENT_DATA, routes!(items::pop))
        .route(Access::AGENT_DATA, routes!(items::copy))
        .route(Access::AGENT_DATA, routes!(checkpoints::get, checkpoints::put))
        .route(Access::AGENT_DATA, routes!(checkpoints::parts::blob, checkpoints::parts::put_blobs))
        .route(Access::AGENT_DATA, routes!(checkpoints::parts::write, checkpoints::parts::put_writes))
        .route(Access::AGENT_DATA, routes!(checkpoints::list))
        .route(Access::AGENT_DATA, routes!(checkpoints::list_all))
        .route(Access::AGENT_DATA, routes!(checkpoints::removal::delete_some))
        .route(Access::AGENT_DATA, routes!(checkpoints::removal::delete_run))
        .route(Access::AGENT_DATA, routes!(checkpoints::removal::copy))
        .route(Access::READ, routes!(agents::list))
        .route(Access::READ, routes!(agents::get))
        .route(Access::MANAGE_AGENTS, routes!(agents::put, agents::delete))
        .route(Access::READ, routes!(feed::read))
        .route(Access::ADMIN, routes!(keys::list_keys, keys::create_key))
        .route(Access::ADMIN, routes!(keys::revoke_key))
        .route(Access::ADMIN, routes!(keys::sign_out_key))
        .route(Access::ADMIN, routes!(keys::sign_out_user))
        .route(Access::ADMIN, routes!(keys::sign_out_project))
        .route(Access::needs(Scope::Tokens), routes!(identity::create_token))
        .route(Access::AnyOf(Access::SOCKET), routes!(identity::create_ticket))
        .route(Access::Operator, routes!(identity::list_projects))
        .route(Access::ADMIN, routes!(identity::get_project))
        .route(Access::Operator, routes!(identity::put_project))
        .route(Access::ADMIN, routes!(identity::renew_secret))
        .route(Access::ADMIN, routes!(audit::audit))
        .route(Access::ADMIN, routes!(identity::erase_user))
        .route(Access::ADMIN, routes!(trash::list))
        .route(Access::ADMIN, routes!(trash::restore))
        .route(Access::ADMIN, routes!(trash::approve))
}
