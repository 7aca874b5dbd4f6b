//! Tokens that a run has used, as the Responses API counts them.

use crate::{json, projection::reading::items};

/// Tokens that a run has used, summed over providers and models.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Usage {
    input: u64,
    cached: u64,
    written: u64,
    output: u64,
    reasoning: u64,
}

impl Usage {
    /// Reads AG-UI's `usage` of a terminal event; `None` if it counts nothing.
    pub fn read(usage: Option<&str>) -> Option<Self> {
        let (mut sum, mut counts) = (Self::default(), false);
        for entry in items(usage) {
            let members = [
                ("inputTokens", &mut sum.input),
                ("cachedInputTokens", &mut sum.cached),
                ("cacheWriteInputTokens", &mut sum.written),
                ("outputTokens", &mut sum.output),
                ("reasoningTokens", &mut sum.reasoning),
            ];
            for (name, total) in members {
                if let Some(count) = json::member(entry, name).and_then(|count| count.parse::<u64>().ok()) {
                    counts = true;
                    *total = total.saturating_add(count);
                }
            }
        }
        counts.then_some(sum)
    }

    pub fn to_json(self) -> String {
        let Self { input, cached, written, output, reasoning } = self;
        let total = input.saturating_add(output);
        format!(
            "{{\"input_tokens\":{input},\"input_tokens_details\":{{\"cached_tokens\":{cached},\"cache_write_tokens\":\
             {written}}},\"output_tokens\":{output},\"output_tokens_details\":{{\"reasoning_tokens\":{reasoning}}},\
             \"total_tokens\":{total}}}"
        )
    }
}
