//! Responses that are not stored: their thread is deleted after the run.

use threadline_core::{Principal, ThreadId, limits::WRITE_RETRY};
use threadline_engine::{
    DeleteThreadError, ReadError, Service, ThreadAt,
    subscription::{Delivery, FollowMethod, Subscription},
};
use tokio::time;

use super::ids::ResponseId;

/// Number of attempts to delete a thread.
const TRIES: usize = 20;

/// Thread of a response that is not stored. The drop deletes the thread once its run has ended: the client has the answer by then, or
/// has disconnected.
pub struct Forget {
    service: Service,
    principal: Principal,
    id: ResponseId,
}

impl Forget {
    pub fn new(service: &Service, principal: &Principal, id: &ResponseId) -> Self {
        Self { service: service.clone(), principal: principal.clone(), id: id.clone() }
    }
}

impl Drop for Forget {
    fn drop(&mut self) {
        let (service, principal, id) = (self.service.clone(), self.principal.clone(), self.id.clone());
        tokio::spawn(async move {
            for _ in 0..TRIES {
                match forget(&service, &principal, &id).await {
                    true => return,
                    false => time::sleep(WRITE_RETRY).await,
                }
            }
            tracing::warn!(thread = %id.thread, project = %principal.project, "cannot delete the thread of a response that is not stored");
        });
    }
}

/// Waits for the end of the run, and deletes the thread. False if the deletion has to be tried again.
async fn forget(service: &Service, principal: &Principal, id: &ResponseId) -> bool {
    match follow(service, principal, id).await {
        Ok(mut subscription) => until_end(&mut subscription).await,
        Err(ReadError::ThreadNotFound) => return true,
        Err(ReadError::RunNotFound) => {}
        Err(_) => return false,
    }
    delete(service, principal, &id.thread).await
}

/// Deletes a thread. True if it is gone.
pub async fn delete(service: &Service, principal: &Principal, thread: &ThreadId) -> bool {
    let deleted = service.threads.delete(principal, ThreadAt { id: thread, epoch: None }).await;
    matches!(deleted, Ok(()) | Err(DeleteThreadError::ThreadNotFound))
}

/// Follows a run, from its beginning.
pub async fn follow(service: &Service, principal: &Principal, id: &ResponseId) -> Result<Subscription, ReadError> {
    service.events.subscribe(principal, &id.thread, 0, None, Some(&id.run), FollowMethod::Openai).await
}

/// Waits until a run has ended, or cannot be followed any more.
pub async fn until_end(subscription: &mut Subscription) {
    while let Ok(Some(delivery)) = subscription.next().await {
        if matches!(delivery, Delivery::Ended(_)) {
            return;
        }
    }
}
