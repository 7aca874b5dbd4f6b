//! Validation of the events of a run as AG-UI 1.0 defines them: each by itself (`shape`), and after those before it (`order`).
//!
//! Source: the schemas of `@ag-ui/core` and the verifier of `@ag-ui/client`, 1.0.0. `tests/agui` compares both verdicts.

mod order;
mod owners;
mod schema;
mod shape;

#[cfg(test)]
mod tests;

use order::Order;

use crate::{EventError, EventErrorKind, NewEvents, event::Flaw, lines};

/// Validation of one run, from its first event on.
#[derive(Debug, Clone, Default)]
pub struct Validation {
    order: Order,
}

impl Validation {
    /// Takes in the next event of the run, as JSON text, if it is as AG-UI has it. After a [`Flaw`] the next event may take the
    /// place of the refused one.
    pub fn check(&mut self, event: &str) -> Result<(), Flaw> {
        shape::check(event)?;
        self.order.check(event)
    }

    /// Takes in the events of a batch from the one at `skip` on, up to the first that is not as AG-UI has it.
    pub fn check_batch(&mut self, events: &NewEvents, skip: usize) -> Result<(), EventError> {
        let refused = |index, flaw| EventError { index, kind: EventErrorKind::NotAgUi(flaw) };
        let mut rest = lines(events.body()).enumerate().skip(skip);
        rest.try_for_each(|(index, line)| {
            let event = std::str::from_utf8(line).unwrap_or_default();
            self.check(event).map_err(|flaw| refused(index, flaw))
        })
    }

    /// Takes in an event that is stored already. What deviates from AG-UI was accepted then.
    pub fn observe(&mut self, event: &[u8]) {
        if let Ok(event) = std::str::from_utf8(event) {
            self.order.observe(event);
        }
    }

    /// Memory that it takes, in bytes (about).
    pub fn weight(&self) -> usize {
        self.order.weight()
    }
}
