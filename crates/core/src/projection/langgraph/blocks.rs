//! Blocks of the message that is streamed: one after the other, although events may mix texts and calls.

use std::collections::VecDeque;

use serde_json::value::RawValue;

use crate::{
    json::{self, quoted},
    limits::MAX_BLOCK_BYTES,
};

/// Part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Reasoning,
    /// Call of a tool: its id, and the name of the tool.
    Call(String, String),
}

/// Block that is incomplete, or waits for the one before it.
#[derive(Debug)]
struct Block {
    kind: Kind,
    /// Content so far: that of a JSON string, still escaped.
    text: String,
    /// True if a piece of the arguments was left out, because the incomplete blocks of the message are too large together.
    cut: bool,
    ended: bool,
}

/// Call whose arguments are complete: its id, its tool and its input, as JSON.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Called {
    pub id: String,
    pub tool: String,
    pub input: String,
}

/// Data of an event of the channel `messages`, and the call that is complete with it.
pub(super) type Told = (String, Option<Called>);

/// Blocks of a message.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// Index of the first block of `open`, which is streamed; the others wait for it.
    index: usize,
    open: VecDeque<Block>,
    /// Bytes of the contents of all of `open`.
    bytes: usize,
}

impl Blocks {
    /// True if a call is incomplete.
    pub fn has_calls(&self) -> bool {
        self.open.iter().any(|block| matches!(block.kind, Kind::Call(..)))
    }

    /// Adds a piece of text, as a JSON token, to a block of this kind.
    pub fn text(&mut self, kind: Kind, delta: &str, told: &mut Vec<Told>) {
        let Some(piece) = content(delta).filter(|piece| !piece.is_empty()) else { return };
        let is_full = |block: &Block| block.text.len() + piece.len() > MAX_BLOCK_BYTES && !block.text.is_empty();
        if !self.open.back().is_some_and(|block| block.kind == kind && !block.ended && !is_full(block)) {
            self.begin(kind, told);
        }
        self.append(self.open.len() - 1, piece, told);
    }

    /// Begins the call of a tool.
    pub fn call(&mut self, id: String, tool: String, told: &mut Vec<Told>) {
        self.begin(Kind::Call(id, tool), told);
    }

    /// Adds a piece of arguments, as a JSON token.
    pub fn args(&mut self, id: &str, delta: &str, told: &mut Vec<Told>) {
        let Some(piece) = content(delta).filter(|piece| !piece.is_empty()) else { return };
        if let Some(at) = self.position(id) {
            if self.bytes + piece.len() > MAX_BLOCK_BYTES {
                self.open[at].cut = true;
            } else {
                self.append(at, piece, told);
            }
        }
    }

    /// Ends a call, whose arguments are complete.
    pub fn end_call(&mut self, id: &str, told: &mut Vec<Told>) {
        if let Some(at) = self.position(id) {
            self.open[at].ended = true;
            self.settle(told);
        }
    }

    /// Ends the texts: what follows them is another block.
    pub fn end_texts(&mut self, told: &mut Vec<Told>) {
        let texts = self.open.iter_mut().filter(|block| !matches!(block.kind, Kind::Call(..)));
        texts.for_each(|block| block.ended = true);
        self.settle(told);
    }

    /// Ends all blocks of the message.
    pub fn end_all(&mut self, told: &mut Vec<Told>) {
        self.open.iter_mut().for_each(|block| block.ended = true);
        self.settle(told);
    }

    fn position(&self, call: &str) -> Option<usize> {
        self.open.iter().position(|block| matches!(&block.kind, Kind::Call(id, _) if id == call))
    }

    fn begin(&mut self, kind: Kind, told: &mut Vec<Told>) {
        // A text continues in another block after the calls.
        self.end_texts(told);
        self.open.push_back(Block { kind, text: String::new(), cut: false, ended: false });
        if self.open.len() == 1 {
            self.announce(told);
        }
    }

    /// Adds the start of the first block to `told`, and its content so far.
    fn announce(&self, told: &mut Vec<Told>) {
        let Some(block) = self.open.front() else { return };
        let content = match &block.kind {
            Kind::Text => "{\"type\":\"text\",\"text\":\"\"}".to_owned(),
            Kind::Reasoning => "{\"type\":\"reasoning\",\"reasoning\":\"\"}".to_owned(),
            Kind::Call(id, tool) => {
                let (id, tool) = (quoted(id), quoted(tool));
                format!("{{\"type\":\"tool_call_chunk\",\"id\":{id},\"name\":{tool},\"args\":\"\"}}")
            }
        };
        let index = self.index;
        told.push((format!("{{\"event\":\"content-block-start\",\"index\":{index},\"content\":{content}}}"), None));
        if !block.text.is_empty() {
            told.push((self.delta(&block.kind, &block.text), None));
        }
    }

    fn delta(&self, kind: &Kind, piece: &str) -> String {
        let (name, member) = match kind {
            Kind::Text => ("text-delta", "text"),
            Kind::Reasoning => ("reasoning-delta", "reasoning"),
            Kind::Call(..) => ("tool-call-delta", "args"),
        };
        let index = self.index;
        format!(
            "{{\"event\":\"content-block-delta\",\"index\":{index},\"delta\":{{\"type\":\"{name}\",\"{member}\":\"{piece}\"}}}}"
        )
    }

    fn append(&mut self, at: usize, piece: &str, told: &mut Vec<Told>) {
        self.open[at].text.push_str(piece);
        self.bytes += piece.len();
        if at == 0 {
            told.push((self.delta(&self.open[0].kind, piece), None));
        }
    }

    /// Adds the ends of complete blocks to `told`, from the first one on.
    fn settle(&mut self, told: &mut Vec<Told>) {
        while self.open.front().is_some_and(|block| block.ended)
            && let Some(block) = self.open.pop_front()
        {
            self.bytes -= block.text.len();
            let (content, called) = block.finished();
            let index = self.index;
            told.push((
                format!("{{\"event\":\"content-block-finish\",\"index\":{index},\"content\":{content}}}"),
                called,
            ));
            self.index += 1;
            self.announce(told);
        }
    }
}

impl Block {
    fn finished(self) -> (String, Option<Called>) {
        let text = self.text;
        let (id, tool) = match self.kind {
            Kind::Text => return (format!("{{\"type\":\"text\",\"text\":\"{text}\"}}"), None),
            Kind::Reasoning => return (format!("{{\"type\":\"reasoning\",\"reasoning\":\"{text}\"}}"), None),
            Kind::Call(id, tool) => (id, tool),
        };
        let (call, name) = (quoted(&id), quoted(&tool));
        let input =
            if self.cut { None } else { json::string(&format!("\"{text}\"")).and_then(|args| arguments(&args)) };
        let Some(input) = input else {
            let reason = if self.cut { "The arguments are too large." } else { "The arguments are not a JSON object." };
            let content = format!(
                "{{\"type\":\"invalid_tool_call\",\"id\":{call},\"name\":{name},\"args\":\"{text}\",\"error\":\"{reason}\"}}"
            );
            return (content, None);
        };
        let content = format!("{{\"type\":\"tool_call\",\"id\":{call},\"name\":{name},\"args\":{input}}}");
        (content, Some(Called { id, tool, input }))
    }
}

/// Arguments of a call as a JSON object on one line; `None` for any other text. No text is an empty object.
pub(super) fn arguments(args: &str) -> Option<String> {
    let args = args.trim();
    if args.is_empty() {
        return Some("{}".to_owned());
    }
    // In JSON, line breaks stand only between tokens.
    let value = RawValue::from_string(args.replace(['\n', '\r'], " ")).ok()?;
    value.get().starts_with('{').then(|| value.get().to_owned())
}

/// Content of a JSON string token, still escaped.
fn content(token: &str) -> Option<&str> {
    token.strip_prefix('"')?.strip_suffix('"')
}
