//! The frames of a WebSocket, followed only as far as a bound of messages needs: where a message begins and ends.

/// Longest header of a frame, in bytes: two, a length of eight, a mask of four.
const MAX_HEADER: usize = 14;

/// Position of the stream between the frames of RFC 6455, section 5.2. The library refuses violations of its rules.
#[derive(Debug, Default)]
pub(super) struct Frames {
    header: [u8; MAX_HEADER],
    /// Received bytes of the header.
    came: usize,
    /// Missing bytes of the payload.
    left: u64,
    /// A message has begun whose last frame has not.
    open: bool,
    /// Received bytes of the incomplete message.
    pub held: u64,
    /// Kind of the current frame: a control frame, or the last frame of its message.
    control: bool,
    last: bool,
}

impl Frames {
    /// True if no message and no frame is incomplete.
    pub fn is_at_rest(&self) -> bool {
        self.came == 0 && self.left == 0 && !self.open
    }

    /// Processes the next bytes. Returns true if the stream was idle at any point within them.
    pub fn observe(&mut self, mut bytes: &[u8]) -> bool {
        let mut rested = false;
        while let Some((first, rest)) = bytes.split_first() {
            if self.left > 0 {
                let taken = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
                self.left -= taken as u64;
                self.held += if self.control { 0 } else { taken as u64 };
                bytes = &bytes[taken..];
            } else {
                self.header[self.came] = *first;
                self.came += 1;
                bytes = rest;
                if self.came < self.header_bytes() {
                    continue;
                }
                self.begin();
            }
            if self.left == 0 {
                self.open = if self.control { self.open } else { !self.last };
                if self.is_at_rest() {
                    (rested, self.held) = (true, 0);
                }
            }
        }
        rested
    }

    /// Length of the header in bytes, as far as it is known.
    fn header_bytes(&self) -> usize {
        if self.came < 2 {
            return 2;
        }
        let length = match self.header[1] & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        2 + length + if self.header[1] & 0x80 == 0 { 0 } else { 4 }
    }

    /// Starts the frame of a complete header.
    fn begin(&mut self) {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        self.left = match self.header[1] & 0x7f {
            126 => number(&self.header[2..4]),
            127 => number(&self.header[2..10]),
            length => u64::from(length),
        };
        self.last = self.header[0] & 0x80 != 0;
        self.control = self.header[0] & 0x08 != 0;
        self.came = 0;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A masked frame: its first byte, and a payload of `length` bytes.
    pub fn frame(first: u8, length: usize) -> Vec<u8> {
        let mut frame = vec![first];
        match length {
            0..=125 => frame.push(0x80 | length as u8),
            126..=0xffff => {
                frame.push(0x80 | 126);
                frame.extend((length as u16).to_be_bytes());
            }
            _ => {
                frame.push(0x80 | 127);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        frame.extend([1, 2, 3, 4]);
        frame.resize(frame.len() + length, 0x81);
        frame
    }

    pub const TEXT: u8 = 0x81;
    pub const BEGIN: u8 = 0x01;
    pub const MORE: u8 = 0x00;
    pub const END: u8 = 0x80;
    pub const PING: u8 = 0x89;

    #[test]
    fn a_stream_is_idle_only_between_messages_however_it_is_split() {
        let frames = [
            (TEXT, 5, true),
            (PING, 0, true),
            (BEGIN, 200, false),
            (PING, 125, false),
            (MORE, 0, false),
            (END, 70_000, true),
            (TEXT, 0, true),
            (TEXT, 126, true),
        ];
        for cut in [1, 2, 3, 7, 64, 1_000, usize::MAX] {
            let mut stream = Frames::default();
            for (first, length, rests) in frames {
                let bytes = frame(first, length);
                let (body, last) = bytes.split_at(bytes.len() - 1);
                for piece in body.chunks(cut) {
                    assert!(!stream.observe(piece) && !stream.is_at_rest());
                }
                assert_eq!((stream.observe(last), stream.is_at_rest()), (rests, rests), "{first:x} {length} {cut}");
            }
        }
        let all: Vec<u8> = frames.iter().flat_map(|(first, length, _)| frame(*first, *length)).collect();
        let mut stream = Frames::default();
        assert!(stream.observe(&all) && stream.is_at_rest());
        assert!(stream.observe(&[&all[..], &frame(TEXT, 9)[..3]].concat()) && !stream.is_at_rest());
    }
}
