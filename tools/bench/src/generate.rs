//! Generated events of an agent: streamed text and tool calls, token by token, from a seed.

use std::fmt::Write;

/// Common English words, for the text of messages.
const WORDS: &str = "the of and to a in is it you that he was for on are with as I his they be at one have this from \
    or had by hot but some what there we can out other were all your when up use word how said an each she which do \
    their time if will way about many then them would write like so these her long make thing see him two has look \
    more day could go come did my sound no most number who over know water than call first people may down side been \
    now find any new work part take get place made live where after back little only round man year came show every \
    good me give our under name very through just form much great think say help low line before turn cause same mean \
    differ move right boy old too does tell sentence set three want air well also play small end put home read hand \
    port large spell add even land here must big high such follow act why ask men change went light kind off need \
    house picture try us again animal point mother world near build self earth father head stand own page should \
    country found answer school grow study still learn plant cover food sun four thought let keep eye never last door \
    between city tree cross since hard start might story saw far sea draw left late run while press close night real \
    life few stop open seem together next white children begin got walk example ease paper often always music those \
    both mark book letter until mile river car feet care second group carry took rain eat room friend began idea fish \
    mountain north once base hear horse cut sure watch color face wood main enough plain girl usual young ready above \
    ever red list though feel talk bird soon body dog family direct pose leave song measure state product black short \
    numeral class wind question happen complete ship area half rock order fire south problem piece told knew pass farm \
    top whole king size heard best hour better true during hundred remember step early hold west ground interest reach \
    fast five sing listen six table travel less morning ten simple several vowel toward war lay against pattern slow \
    center love person money serve appear road map science rule govern pull cold notice voice fall power town fine \
    certain fly unit lead cry dark machine note wait plan figure star box noun field rest correct able pound done \
    beauty drive stood contain front teach week final gave green quick develop sleep warm free minute strong special \
    mind behind clear tail produce fact street inch lot nothing course stay wheel full force blue object decide surface \
    deep moon island foot yet busy test record boat common gold possible plane age dry wonder laugh thousand ago ran \
    check game shape yes hot miss brought heat snow bed bring sit perhaps fill east weight language among";

/// Endings that tokenisers split off.
const PIECES: [&str; 12] = [",", ".", "ing", "ed", "ly", "s", "tion", "er", "ment", "\\n", " -", ":"];

/// Small generator of random numbers (SplitMix64): the same seed gives the same numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Starts from this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Random number below `end`, which must not be 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    fn id(&mut self, prefix: &str) -> String {
        let (a, b) = (self.number(), self.number());
        format!(
            "{prefix}{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            a >> 32,
            a & 0xffff,
            (a >> 16) & 0xfff,
            b >> 48,
            b & 0xffff_ffff_ffff
        )
    }
}

/// Part that is being streamed.
#[derive(Debug, Clone)]
enum Open {
    Nothing,
    Text { left: u64 },
    Tool { left: u64, id: String },
}

/// Endless run of an agent: messages of some dozens of tokens, an occasional tool call, a token every few milliseconds,
/// about 190 bytes an event. Ids are random, one per message and call, as real agents have them.
#[derive(Debug, Clone)]
pub struct Events {
    random: Random,
    words: Vec<&'static str>,
    open: Open,
    message: String,
    completion: String,
    at: u64,
}

impl Events {
    /// Starts from this seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let at = 1_795_255_875_000 + random.below(86_400_000);
        Self {
            random,
            words: WORDS.split_ascii_whitespace().collect(),
            open: Open::Nothing,
            message: String::new(),
            completion: String::new(),
            at,
        }
    }

    fn word(&mut self) -> &'static str {
        let count = self.words.len() as u64;
        // The square of a fraction: frequent words are first in the list and are chosen more often.
        let (a, b) = (self.random.below(count), self.random.below(count));
        self.words.get((a * b / count) as usize).copied().unwrap_or("the")
    }

    fn token(&mut self, out: &mut String) {
        if self.random.below(6) == 0 {
            out.push_str(PIECES[self.random.below(PIECES.len() as u64) as usize]);
        } else {
            out.push(' ');
            let word = self.word();
            out.push_str(word);
        }
    }

    fn start(&mut self, kind: &str, id: &str, rest: &str) -> String {
        self.at += 5 + self.random.below(40);
        format!("{{\"type\":\"{kind}\",\"timestamp\":{},{id}{rest}", self.at)
    }

    fn finish(&mut self, event: &mut String) {
        // Writing to a String cannot fail.
        let _ = write!(event, ",\"rawEvent\":{{\"id\":\"{}\",\"choice\":0}}}}", self.completion);
    }
}

impl Iterator for Events {
    type Item = String;

    /// Next event, as JSON. The event contains `"type":"` exactly once.
    fn next(&mut self) -> Option<String> {
        let open = std::mem::replace(&mut self.open, Open::Nothing);
        let (mut event, open) = match open {
            Open::Nothing if self.message.is_empty() || self.random.below(4) > 0 => {
                self.message = self.random.id("");
                self.completion = format!("chatcmpl-{:016x}{:08x}", self.random.number(), self.random.below(1 << 32));
                let id = format!("\"messageId\":\"{}\"", self.message);
                let event = self.start("TEXT_MESSAGE_START", &id, ",\"role\":\"assistant\"");
                let left = 20 + self.random.below(120);
                (event, Open::Text { left })
            }
            Open::Nothing => {
                let id = self.random.id("call_");
                let (tool, parent) = (self.word(), self.message.clone());
                let fields = format!("\"toolCallId\":\"{id}\"");
                let rest = format!(",\"toolCallName\":\"{tool}_{}\",\"parentMessageId\":\"{parent}\"", self.word());
                let left = 5 + self.random.below(25);
                (self.start("TOOL_CALL_START", &fields, &rest), Open::Tool { left, id })
            }
            Open::Text { left: 0 } => {
                let id = format!("\"messageId\":\"{}\"", self.message);
                (self.start("TEXT_MESSAGE_END", &id, ""), Open::Nothing)
            }
            Open::Text { left } => {
                let id = format!("\"messageId\":\"{}\"", self.message);
                let mut event = self.start("TEXT_MESSAGE_CONTENT", &id, ",\"delta\":\"");
                self.token(&mut event);
                event.push('"');
                (event, Open::Text { left: left - 1 })
            }
            Open::Tool { left: 0, id } => {
                let fields = format!("\"toolCallId\":\"{id}\"");
                (self.start("TOOL_CALL_END", &fields, ""), Open::Nothing)
            }
            Open::Tool { left, id } => {
                let fields = format!("\"toolCallId\":\"{id}\"");
                let mut event = self.start("TOOL_CALL_ARGS", &fields, ",\"delta\":\"");
                if left % 4 == 0 {
                    let _ = write!(event, "\\\"{}\\\":", self.word());
                } else {
                    self.token(&mut event);
                }
                event.push('"');
                (event, Open::Tool { left: left - 1, id })
            }
        };
        self.open = open;
        self.finish(&mut event);
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadline_core::NewEvents;

    #[test]
    fn the_same_seed_gives_the_same_events_and_they_look_real() {
        let events: Vec<_> = Events::new(7).take(5_000).collect();
        assert_eq!(events, Events::new(7).take(5_000).collect::<Vec<_>>());
        assert_ne!(events, Events::new(8).take(5_000).collect::<Vec<_>>());
        let mean = events.iter().map(String::len).sum::<usize>() / events.len();
        assert!((180..=200).contains(&mean), "{mean} bytes");
        assert!(events.iter().all(|event| event.matches("\"type\":\"").count() == 1));
        let checked = NewEvents::from_ndjson(events.join("\n").as_bytes()).expect("valid events");
        assert!(checked.terminal().is_none());
    }
}
