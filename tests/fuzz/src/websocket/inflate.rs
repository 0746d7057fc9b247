//! [`Inflate`]: decompresses messages (RFC 7692 §7.2.2) by another library than the crate's.

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{
    TINFL_FLAG_HAS_MORE_INPUT, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

/// The state of one direction of a WebSocket.
#[derive(Clone)]
pub struct Inflate {
    /// Whether messages may refer to those before them.
    keeps: bool,
    state: DecompressorOxide,
    /// The octets that were decompressed so far, and where the stream begins, before which it cannot refer.
    out: Vec<u8>,
    stream: usize,
}

/// A message that is corrupt, or decompresses to more than it may.
#[derive(Debug)]
pub struct Corrupt {
    /// The octets that it decompresses to before that.
    pub before: Vec<u8>,
}

impl Inflate {
    pub fn new(keeps: bool) -> Inflate {
        Inflate { keeps, state: DecompressorOxide::new(), out: Vec::new(), stream: 0 }
    }

    /// Decompresses a message, or the beginning of one, to `most` octets at most.
    pub fn message(&mut self, content: &[u8], is_whole: bool, most: usize) -> Result<Vec<u8>, Corrupt> {
        if !self.keeps {
            *self = Inflate::new(false);
        }
        let start = self.out.len();
        // An empty last block ends the stream, unless the message stops within a block.
        let pieces: &[&[u8]] = match (is_whole, self.keeps) {
            (false, _) => &[content],
            (true, true) => &[content, &[0, 0, 0xff, 0xff]],
            (true, false) => &[content, &[0, 0, 0xff, 0xff], &[3, 0]],
        };
        let has_ended = pieces.iter().try_fold(false, |_, piece| self.feed(piece, start + most));
        let decompressed = self.out[start..].to_vec();
        match has_ended {
            Some(has_ended) if has_ended || self.keeps || !is_whole => Ok(decompressed),
            _ => Err(Corrupt { before: decompressed }),
        }
    }

    /// Decompresses `input`. Returns whether it ends with a final block; `None` if it is corrupt.
    fn feed(&mut self, input: &[u8], most: usize) -> Option<bool> {
        let (mut read, mut has_ended) = (0, false);
        loop {
            let len = self.out.len();
            self.out.resize(len + ROOM, 0);
            let out = &mut self.out[self.stream..];
            let (status, count, written) =
                decompress(&mut self.state, &input[read..], out, len - self.stream, FLAGS);
            self.out.truncate(len + written);
            read += count;
            if self.out.len() > most {
                return None;
            }
            match status {
                // Another stream may follow (RFC 7692 §7.2.3.4).
                TINFLStatus::Done => {
                    (self.state, self.stream, has_ended) =
                        (DecompressorOxide::new(), self.out.len(), read == input.len());
                    if has_ended {
                        return Some(true);
                    }
                }
                TINFLStatus::HasMoreOutput => {}
                TINFLStatus::NeedsMoreInput => return Some(has_ended),
                _ => return None,
            }
        }
    }
}

const FLAGS: u32 = TINFL_FLAG_HAS_MORE_INPUT | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;

const ROOM: usize = 16 << 10;
