//! Pages of a stream, as one JSON array each.

use axum::body::Bytes;
use threadline_core::{
    Epoch, LogSlice, Principal, ReadFrom, RunId, Seq, ThreadId,
    limits::{MAX_EVENT_PAGE, MAX_PAGE_BYTES, STREAM_WAIT},
};
use threadline_engine::{PageRequest, ReadError};
use threadline_http::problem::Problem;

use super::{headers::End, offset::Offset};
use crate::api::ApiState;

/// The stream of a thread, or of a run.
#[derive(Debug, Clone)]
pub struct Source {
    pub thread: ThreadId,
    pub run: Option<RunId>,
}

/// Messages of a log slice as a JSON array: the events as their producers sent them.
fn array(slice: &LogSlice) -> Vec<u8> {
    let mut out = Vec::with_capacity(slice.bytes() + slice.count() as usize + 2);
    out.push(b'[');
    for (_, event, _) in slice.events() {
        if out.len() > 1 {
            out.push(b',');
        }
        out.extend_from_slice(event);
    }
    out.push(b']');
    out
}

impl Source {
    fn request(&self, after: Seq, epoch: Option<Epoch>, limit: usize) -> PageRequest {
        PageRequest { from: ReadFrom::After(after), limit, epoch, run: self.run.clone(), wait: None }
    }

    /// The current end of the stream.
    pub async fn end(&self, state: &ApiState, principal: &Principal) -> Result<End, Problem> {
        let run = match &self.run {
            Some(run) => Some(state.service.runs.get(principal, &self.thread, run).await?),
            None => None,
        };
        let page = state.service.events.page(principal, &self.thread, self.request(0, None, 1)).await?;
        let closed = run.as_ref().is_some_and(|run| run.ended_at.is_some());
        let seq = run.map_or(page.tail, |run| run.last_seq());
        Ok(End { next: Offset { seq, epoch: page.epoch }, up_to_date: true, closed })
    }

    /// Waits until there is an event after the position, the stream is closed, or [`STREAM_WAIT`] is over.
    pub async fn wait(
        &self,
        state: &ApiState,
        principal: &Principal,
        after: Seq,
        epoch: Option<Epoch>,
    ) -> Result<(), ReadError> {
        let request = PageRequest { wait: Some(STREAM_WAIT), ..self.request(after, epoch, 1) };
        state.service.events.page(principal, &self.thread, request).await.map(drop)
    }

    /// Reads the page after a position, within the memory for responses. Returns its body, the position where it begins, and its end.
    pub async fn held_page(
        &self,
        state: &ApiState,
        principal: &Principal,
        after: Seq,
        epoch: Option<Epoch>,
    ) -> Result<(Bytes, Seq, End), Problem> {
        let make = || self.page(state, principal, after, epoch);
        let (body, (start, end)) = state.http.responses.page_chunk(principal, MAX_PAGE_BYTES, make).await?;
        Ok((body, start, end))
    }

    async fn page(
        &self,
        state: &ApiState,
        principal: &Principal,
        after: Seq,
        epoch: Option<Epoch>,
    ) -> Result<(Vec<u8>, (Seq, End)), Problem> {
        let request = self.request(after, epoch, MAX_EVENT_PAGE);
        let page = state.service.events.page(principal, &self.thread, request).await?;
        let start = page.slice.first_seq().map_or(page.cursor, |first| first - 1);
        let next = Offset { seq: page.cursor, epoch: page.epoch };
        Ok((array(&page.slice), (start, End { next, up_to_date: !page.has_more, closed: page.ends_run })))
    }
}
