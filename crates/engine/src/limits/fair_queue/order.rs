//! Order of the slices of work: a deficit round robin over projects, and over the clients of each.

use std::collections::{HashMap, VecDeque};

use threadline_core::{
    ProjectId, UserId,
    limits::{CLIENT_WORK, CLIENT_WORK_WAITING, KEY_WORK, PROJECT_WORK_WAITING, WORK_SLICE_BYTES},
};
use tokio::sync::oneshot;

use crate::limits::client::Client;

/// Repayment in each round: the cost of a slice of the usual size.
const SLICE: i64 = WORK_SLICE_BYTES as i64;

/// Limit that refuses new work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    Client,
    Project,
}

/// Number of a place in the queue, and the signal that its slice may be done.
pub(super) type Place = (u64, oneshot::Receiver<()>);

/// Length of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    Short,
    /// A step that cannot be cut, see [`LONG_STEP_BYTES`](threadline_core::limits::LONG_STEP_BYTES).
    Long,
}

/// Number of queued slices.
#[derive(Debug, Default, Clone, Copy)]
struct Queued {
    short: usize,
    long: usize,
}

impl Queued {
    fn of(&mut self, length: Length) -> &mut usize {
        match length {
            Length::Short => &mut self.short,
            Length::Long => &mut self.long,
        }
    }

    /// True if one of them may be done now.
    fn has_next(self, may_be_long: bool) -> bool {
        self.short > 0 || (may_be_long && self.long > 0)
    }
}

/// Queued slices of all projects. Only projects and clients that have work are in it.
#[derive(Default)]
pub(super) struct Order {
    /// Slices that may be done now.
    free: usize,
    /// Long slices among them: fewer, so that short ones wait for none.
    long_free: usize,
    queued: Queued,
    projects: HashMap<ProjectId, Project>,
    /// Projects with queued slices, the next one first.
    round: VecDeque<ProjectId>,
    newest: u64,
}

#[derive(Default)]
struct Project {
    balance: i64,
    /// Work of each untrusted client, and of all keys together.
    clients: HashMap<Option<UserId>, Works>,
    /// Clients with queued slices, the next one first.
    round: VecDeque<Option<UserId>>,
    queued: Queued,
    /// Work that has not begun.
    waiting: usize,
}

/// Work of one client.
#[derive(Default)]
struct Works {
    balance: i64,
    in_hand: usize,
    /// Next slices of work that has begun.
    queued: VecDeque<Ticket>,
    /// Work that waits until other work of the client has ended.
    waiting: VecDeque<Ticket>,
}

struct Ticket {
    number: u64,
    /// True before the first slice of the work.
    begins: bool,
    length: Length,
    grant: oneshot::Sender<()>,
}

/// Repays the cost of one slice. True if no debt is left; a balance is not saved up.
fn repay(balance: &mut i64) -> bool {
    *balance = balance.saturating_add(SLICE).min(SLICE);
    *balance > 0
}

impl Order {
    /// Empty queue in which so many slices may be done at once. Long ones leave one to the short ones.
    pub fn new(free: usize) -> Self {
        Self { free, long_free: free.saturating_sub(1).max(1), ..Self::default() }
    }

    /// Queues the first slice of new work, or refuses it.
    pub fn enter(&mut self, owner: &Client, length: Length) -> Result<Place, Full> {
        let (ticket, place) = self.ticket(true, length);
        let project = self.projects.entry(owner.project.clone()).or_default();
        let works = project.clients.entry(owner.user.clone()).or_default();
        let is_key = !owner.is_untrusted();
        // A client that has no work yet is not refused for what the others of its project have.
        let is_first = works.in_hand == 0;
        let refused = if !is_key && works.waiting.len() >= CLIENT_WORK_WAITING {
            Some(Full::Client)
        } else {
            (!is_first && project.waiting >= PROJECT_WORK_WAITING).then_some(Full::Project)
        };
        if let Some(full) = refused {
            return Err(full);
        }
        project.waiting += 1;
        if works.in_hand < if is_key { KEY_WORK } else { CLIENT_WORK } {
            works.in_hand += 1;
            self.queue(owner, ticket);
        } else {
            works.waiting.push_back(ticket);
        }
        Ok(place)
    }

    /// Queues the next slice of work that has begun.
    pub fn again(&mut self, owner: &Client, length: Length) -> Place {
        let (ticket, place) = self.ticket(false, length);
        self.queue(owner, ticket);
        place
    }

    /// Grants the next slices, as many as may be done now.
    pub fn grant(&mut self) {
        while self.free > 0
            && let Some(ticket) = self.next()
        {
            self.free -= 1;
            self.long_free -= usize::from(ticket.length == Length::Long);
            // The receiver is there: a wait that ends leaves the queue before it drops the receiver.
            let _ = ticket.grant.send(());
        }
    }

    /// Ends a slice, which another one may take.
    pub fn release(&mut self, length: Length) {
        self.free += 1;
        self.long_free += usize::from(length == Length::Long);
    }

    /// Removes a place whose slice was not begun: it waits, or was granted meanwhile.
    pub fn leave(&mut self, owner: &Client, number: u64, length: Length, begins: bool) {
        let Some(project) = self.projects.get_mut(&owner.project) else { return };
        let Some(works) = project.clients.get_mut(&owner.user) else { return };
        if let Some(at) = works.waiting.iter().position(|ticket| ticket.number == number) {
            works.waiting.remove(at);
            project.waiting -= 1;
            return;
        }
        if let Some(at) = works.queued.iter().position(|ticket| ticket.number == number) {
            works.queued.remove(at);
            *project.queued.of(length) -= 1;
            *self.queued.of(length) -= 1;
            if works.queued.is_empty() {
                project.round.retain(|client| *client != owner.user);
            }
            if project.round.is_empty() {
                self.round.retain(|project| *project != owner.project);
            }
            project.waiting -= usize::from(begins);
        } else {
            self.release(length);
        }
        if begins {
            self.ended(owner);
        }
    }

    /// Charges a slice that was done.
    pub fn charge(&mut self, owner: &Client, cost: usize) {
        let cost = i64::try_from(cost).unwrap_or(i64::MAX);
        let Some(project) = self.projects.get_mut(&owner.project) else { return };
        project.balance = project.balance.saturating_sub(cost);
        if let Some(works) = project.clients.get_mut(&owner.user) {
            works.balance = works.balance.saturating_sub(cost);
        }
    }

    /// Ends work that has begun: the client's next work takes its place.
    pub fn ended(&mut self, owner: &Client) {
        let Some(project) = self.projects.get_mut(&owner.project) else { return };
        let Some(works) = project.clients.get_mut(&owner.user) else { return };
        if let Some(next) = works.waiting.pop_front() {
            self.queue(owner, next);
            return;
        }
        works.in_hand -= 1;
        if works.in_hand == 0 {
            project.clients.remove(&owner.user);
        }
        if project.clients.is_empty() {
            self.projects.remove(&owner.project);
        }
    }

    fn ticket(&mut self, begins: bool, length: Length) -> (Ticket, Place) {
        self.newest += 1;
        let (number, (grant, granted)) = (self.newest, oneshot::channel());
        (Ticket { number, begins, length, grant }, (number, granted))
    }

    fn queue(&mut self, owner: &Client, ticket: Ticket) {
        let project = self.projects.entry(owner.project.clone()).or_default();
        let works = project.clients.entry(owner.user.clone()).or_default();
        *project.queued.of(ticket.length) += 1;
        *self.queued.of(ticket.length) += 1;
        works.queued.push_back(ticket);
        if works.queued.len() == 1 {
            project.round.push_back(owner.user.clone());
            if project.round.len() == 1 {
                self.round.push_back(owner.project.clone());
            }
        }
    }

    /// Takes the next ticket. Each round repays debts, so the loop ends.
    fn next(&mut self) -> Option<Ticket> {
        let may_be_long = self.long_free > 0;
        if !self.queued.has_next(may_be_long) {
            return None;
        }
        loop {
            let id = self.round.pop_front()?;
            let Some(project) = self.projects.get_mut(&id) else { continue };
            let is_next = project.queued.has_next(may_be_long) && repay(&mut project.balance);
            let ticket = if is_next { project.next(may_be_long) } else { None };
            if !project.round.is_empty() {
                self.round.push_back(id);
            }
            if let Some(ticket) = ticket {
                *self.queued.of(ticket.length) -= 1;
                return Some(ticket);
            }
        }
    }
}

impl Project {
    fn next(&mut self, may_be_long: bool) -> Option<Ticket> {
        loop {
            let client = self.round.pop_front()?;
            let Some(works) = self.clients.get_mut(&client) else { continue };
            let next = works.queued.iter().position(|ticket| may_be_long || ticket.length == Length::Short);
            let next = next.filter(|_| repay(&mut works.balance));
            let ticket = next.and_then(|next| works.queued.remove(next));
            if !works.queued.is_empty() {
                self.round.push_back(client);
            }
            if let Some(ticket) = ticket {
                *self.queued.of(ticket.length) -= 1;
                self.waiting -= usize::from(ticket.begins);
                return Some(ticket);
            }
        }
    }
}

#[cfg(test)]
impl Order {
    /// True if no project has work or a debt, and all slices are free.
    pub fn is_at_rest(&self, slots: usize) -> bool {
        let queued = self.queued.short + self.queued.long;
        let is_empty = self.projects.is_empty() && self.round.is_empty() && queued == 0;
        is_empty && self.free == slots && self.long_free == slots.saturating_sub(1).max(1)
    }
}
