//! Fuzz targets for the input of clients.

use axum::http::{HeaderMap, HeaderValue, Uri};

use serde_json::Value;
use threadline_core::{ListOrder, NewEvents};
use threadline_http::{
    cursor::{EventId, Start, read_position, write_position},
    extract::{parse_json, query},
    negotiation::{StreamFormat, wait_time},
};

use super::copilotkit::phoenix::frame::{Address, Frame};
use crate::{
    agents::Definition,
    api::{
        rest::{
            events::ReadParams,
            feed::FeedParams,
            projections::{MessagesParams, StateParams},
            runs::{AppendParams, RunsParams, StreamParams, WholeParams},
            threads::ListParams,
        },
        socket::frame_events,
    },
};

/// Parses a frame of the socket.
pub(crate) fn frames(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = frame_events(text).map(NewEvents::from_raw_array);
}

/// A frame of Phoenix channels: its reply goes to the sender, and contains the payload unchanged.
pub(crate) fn channels(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some(frame) = Frame::parse(text) else { return };
    let read = |text: &str| serde_json::from_str::<[Value; 5]>(text).unwrap_or_default();
    let named = |reference: &Option<String>| reference.as_deref().map_or(Value::Null, Value::from);
    let topic = Value::from(frame.topic.as_str());
    for result in [Ok(Value::Null), Err(Value::from("x"))] {
        let [join_ref, reference, to, event, _] = read(&frame.reply(&result));
        assert_eq!((join_ref, reference), (named(&frame.join_ref), named(&frame.reference)));
        assert_eq!((to, event), (topic.clone(), "phx_reply".into()));
    }
    let address = Address::of(&frame);
    assert!(address.is_of(&frame) && address.topic() == frame.topic);
    let pushed = address.push(&frame.event, frame.payload.get());
    assert_eq!(
        Frame::parse(&pushed).map(|pushed| pushed.payload.get().to_owned()),
        Some(frame.payload.get().to_owned())
    );
    for own in [address.closed(), address.crashed()] {
        assert_eq!(read(&own)[2], topic);
    }
}

/// A query string in the first line, header fields in the second, a JSON body behind them.
pub(crate) fn requests(data: &[u8]) {
    let mut parts = data.splitn(3, |byte| *byte == b'\n').chain([&[][..]; 2]);
    let [first, second, body] = [(); 3].map(|()| parts.next().unwrap_or_default());
    let path = [b"/v1/x?", first].concat();
    if let Ok(uri) = Uri::try_from(path) {
        if let Ok(params) = query::<ReadParams>(&uri) {
            let _ = wait_time(params.wait());
            let _ = params.start().in_log();
        }
        let _ = query::<AppendParams>(&uri);
        let _ = query::<RunsParams>(&uri);
        let _ = query::<StreamParams>(&uri);
        let _ = query::<WholeParams>(&uri);
        let _ = query::<ListParams>(&uri);
        let _ = query::<FeedParams>(&uri);
        let _ = query::<MessagesParams>(&uri);
        let _ = query::<StateParams>(&uri);
    }
    if let Ok(text) = std::str::from_utf8(first) {
        let start = Start { cursor: Some(text), ..Start::default() };
        let _ = (start.in_log(), start.in_feed());
        if let Ok(position) = read_position(text, ListOrder::Recent) {
            assert_eq!(write_position(&position, ListOrder::Recent), text, "a cursor has one form");
        }
    }
    if let Ok(value) = HeaderValue::from_bytes(second) {
        let fields = ["accept", "last-event-id"].map(|name| (name.parse().ok(), value.clone()));
        let headers = HeaderMap::from_iter(fields.into_iter().filter_map(|(name, value)| Some((name?, value))));
        let _ = StreamFormat::accepted(&headers);
        let _ = EventId::last_seen(&headers);
    }
    let _ = parse_json::<serde_json::Map<String, serde_json::Value>>(body);
    let _ = parse_json::<Definition>(body);
}
