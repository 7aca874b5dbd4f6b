//! A producer on the socket: several appends under way at once, sent again in order after a break.

use std::{collections::VecDeque, time::Duration};

use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::{net::TcpStream, time::sleep};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, tungstenite::Message};

use crate::{
    api::Api,
    producers::{Producer, Step},
    record::Fate,
    reply::slug,
};

pub type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Connects to whichever server is up, as often as it takes.
pub async fn connect(api: &Api) -> Socket {
    loop {
        let url = api.up().await.replacen("http", "ws", 1);
        match tokio_tungstenite::connect_async(format!("{url}/v1/socket")).await {
            Ok((socket, _)) => return socket,
            Err(_) => sleep(Duration::from_millis(10)).await,
        }
    }
}

/// The next frame of text; `None` if the socket is broken.
pub async fn frame(socket: &mut Socket) -> Option<String> {
    loop {
        match socket.next().await?.ok()? {
            Message::Text(text) => return Some(text.as_str().to_owned()),
            Message::Close(_) => return None,
            _ => {}
        }
    }
}

/// Appends that have no answer yet: `(batch, frame)`.
type Pending = VecDeque<(usize, String)>;

impl Producer {
    pub async fn socket(&mut self, id: &str) {
        if !self.start(id).await {
            return;
        }
        let mut left = self.rng.between(1, 12);
        let terminal = self.rng.chance(60);
        let mut pending = Pending::new();
        let mut socket = connect(&self.api).await;
        while left > 0 || !pending.is_empty() {
            let step = self.turn(id, &mut socket, &mut left, terminal, &mut pending).await;
            match step {
                Some(Step::Goes) => {}
                Some(Step::Over) => return,
                None if self.rng.chance(30) => return,
                None => {
                    self.tally.retried(pending.len() as u32);
                    socket = connect(&self.api).await;
                    for (_, text) in &pending {
                        // A break shows with the next answer.
                        let _ = socket.feed(Message::text(text.clone())).await;
                    }
                    let _ = socket.flush().await;
                }
            }
        }
        if terminal {
            self.lane.with(id, |run| run.ended = true);
        } else {
            self.end(id).await;
        }
        let _ = socket.close(None).await;
    }

    /// Sends up to 8 ahead, then takes one answer. `None`: the socket broke.
    async fn turn(
        &mut self,
        id: &str,
        socket: &mut Socket,
        left: &mut u64,
        terminal: bool,
        pending: &mut Pending,
    ) -> Option<Step> {
        while *left > 0 && pending.len() < 8 {
            *left -= 1;
            let (batch, events, seq) = self.prepare(id, terminal && *left == 0);
            let thread = &self.lane.thread;
            let text = format!(
                r#"{{"id":"{batch}","append":{{"threadId":"{thread}","runId":"{id}","producerSeq":{seq},"events":{events}}}}}"#
            );
            pending.push_back((batch, text.clone()));
            socket.send(Message::text(text)).await.ok()?;
            self.breathe().await;
        }
        loop {
            let answer: Value = serde_json::from_str(&frame(socket).await?).expect("JSON");
            let batch = answer["id"].as_str().and_then(|id| id.parse::<usize>().ok());
            let Some(batch) = batch else { continue };
            if let Some(receipt) = answer.get("appended") {
                let fate = Fate::Acked(receipt["firstSeq"].as_u64().unwrap_or(0));
                self.settle(id, batch, fate, receipt);
                pending.retain(|(other, _)| *other != batch);
                return Some(Step::Goes);
            }
            let problem = &answer["error"];
            return match slug(problem).as_str() {
                "draining" | "store-unavailable" => None,
                slug => {
                    self.settle(id, batch, Fate::Refused, problem);
                    self.expect_over(id, slug, problem);
                    Some(Step::Over)
                }
            };
        }
    }
}
