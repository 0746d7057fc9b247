//! [`Coding`]: the content codings, and [`Decode`]: the interface of decoders, one step at a time (RFC 9110 §8.4).

use std::error::Error;
use std::fmt;
use std::io;

use crate::message::Status;

/// A content coding (RFC 9110 §8.4.1).
///
/// # Examples
///
/// ```
/// use corehttp::coding::Coding;
///
/// assert_eq!(Coding::parse(b"X-GZIP"), Some(Coding::Gzip));
/// assert_eq!(Coding::parse(b"compress"), None);
/// assert_eq!(Coding::Br.as_str(), "br");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Coding {
    /// `br`: RFC 7932. With feature `compress`.
    Br,
    /// `zstd`: RFC 8878, RFC 9659. With feature `zstd`.
    Zstd,
    /// `gzip`, formerly `x-gzip`: RFC 1952. With feature `compress`.
    Gzip,
    /// `deflate`: RFC 1950, or bare RFC 1951, which some send. With feature `compress`.
    Deflate,
}

impl Coding {
    /// Returns the coding with this name, in any case.
    pub fn parse(name: &[u8]) -> Option<Coding> {
        let names: [(&[u8], Coding); 5] = [
            (b"br", Coding::Br),
            (b"zstd", Coding::Zstd),
            (b"gzip", Coding::Gzip),
            (b"x-gzip", Coding::Gzip),
            (b"deflate", Coding::Deflate),
        ];
        names.into_iter().find(|(known, _)| name.eq_ignore_ascii_case(known)).map(|(_, coding)| coding)
    }

    /// Whether a peer may determine that a decoder takes megabytes. The others have windows of 32 KiB at most.
    pub(super) const fn has_large_window(self) -> bool {
        self.window_max() > 32 << 10
    }

    /// How many bytes of content a decoder keeps at most, to which later content may refer.
    pub(super) const fn window_max(self) -> usize {
        match self {
            Coding::Br => 16 << 20,
            Coding::Zstd => 8 << 20,
            Coding::Gzip | Coding::Deflate => 32 << 10,
        }
    }

    /// How many bytes the state of a decoder takes, beside its window.
    pub(super) const fn state_len(self) -> usize {
        match self {
            Coding::Br => 64 << 10,
            // With a block of input.
            Coding::Zstd => (94 + 128) << 10,
            Coding::Gzip | Coding::Deflate => 16 << 10,
        }
    }

    /// Returns its name in fields.
    pub const fn as_str(self) -> &'static str {
        match self {
            Coding::Br => "br",
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
            Coding::Deflate => "deflate",
        }
    }
}

/// Whether the encoder must write all content read so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// Content may be held back until there is more.
    Later,
    /// All content must be written, since the peer waits for it.
    Now,
    /// All content must be written, and nothing follows.
    End,
}

/// The result of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    /// How many bytes were read from the front of the input.
    pub(super) read: usize,
    /// How many bytes were written to the front of the room.
    pub(super) written: usize,
    /// When encoding: whether the [`Flush`] is complete. When decoding: whether the content may end here.
    pub(super) is_whole: bool,
}

/// The state of a decoder.
pub(super) trait Decode: Send {
    /// Makes the next step. There is room for [`DECODER_ROOM_MIN`] bytes. Without input, output that was held back is written.
    fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<Step, CodingError>;

    /// Sets how many bytes the content may become, before its first step. A decoder may take no more memory than that
    /// needs, and may fail with [`CodingError::TooLarge`] beyond it.
    fn set_content_max(&mut self, _content_max: usize) {}

    /// Ignores what follows the end of the content, if the decoder can.
    fn ignore_junk(&mut self) {}

    /// How many bytes of content the decoder may keep once it has read `next`, to which later content may refer, if its
    /// first octets fill all of that at once.
    fn window_len(&self, _next: &[u8]) -> usize {
        0
    }

    /// Makes the decoder equal to a new one, but keeps the memory that usual content needs.
    fn reset(&mut self);

    /// How many bytes of memory it takes, to within a few KB.
    fn memory(&self) -> usize;
}

/// The least room that a decoder is offered.
pub(super) const DECODER_ROOM_MIN: usize = 4 << 10;

/// Why content cannot be decoded or encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CodingError {
    /// The content does not follow its coding, or its checksum is wrong.
    Corrupt,
    /// The content does not begin as this coding does. It is perhaps coded otherwise, or not any more: some intermediaries
    /// decode content, and leave `content-encoding`.
    NotCoded(Coding),
    /// The content refers to the dictionary with this id, which only its sender has (RFC 8878 §5, RFC 1950 §2.2).
    Dictionary(u32),
    /// The content refers back further than a sender may rely on. In zstd, its window is larger than 8 MiB (RFC 9659 §3): a
    /// sender keeps to that with a window log of 23 at most, as without `--long` and `--ultra`. In br, it is of a kind outside
    /// RFC 7932: a sender does without `--large_window`.
    Window(Coding),
    /// The content was cut short.
    Incomplete,
    /// The content has a coding that this build does not support.
    Unknown,
    /// The content has more codings than are ever used: more than four, or more than one of `br` and `zstd`.
    TooMany,
    /// The decoded content is larger than this many bytes, the most that the application allows.
    TooLarge(usize),
    /// The encoder failed, for lack of memory.
    Encoder,
}

impl CodingError {
    /// Returns the status for a peer that sent such content.
    pub fn status(self) -> Status {
        match self {
            CodingError::Corrupt
            | CodingError::NotCoded(_)
            | CodingError::Dictionary(_)
            | CodingError::Window(_)
            | CodingError::Incomplete => Status::BAD_REQUEST,
            CodingError::Unknown | CodingError::TooMany => Status::UNSUPPORTED_MEDIA_TYPE,
            CodingError::TooLarge(_) => Status::CONTENT_TOO_LARGE,
            CodingError::Encoder => Status::INTERNAL_SERVER_ERROR,
        }
    }

    /// The kind of the [`io::Error`] that this error becomes. Truncated content is
    /// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof), as to the readers of flate2.
    pub(crate) fn kind(self) -> io::ErrorKind {
        match self {
            CodingError::Incomplete => io::ErrorKind::UnexpectedEof,
            CodingError::Encoder => io::ErrorKind::OutOfMemory,
            CodingError::Corrupt
            | CodingError::NotCoded(_)
            | CodingError::Dictionary(_)
            | CodingError::Window(_)
            | CodingError::Unknown
            | CodingError::TooMany
            | CodingError::TooLarge(_) => io::ErrorKind::InvalidData,
        }
    }
}

impl fmt::Display for CodingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            CodingError::Corrupt => "the coded content is corrupt",
            CodingError::NotCoded(coding) => {
                let coding = coding.as_str();
                return write!(
                    f,
                    "the content does not begin as {coding} does: it is coded otherwise, or not at all"
                );
            }
            CodingError::Dictionary(id) => {
                return write!(
                    f,
                    "the coded content needs the dictionary {id}: its sender has to do without"
                );
            }
            CodingError::Window(Coding::Br) => {
                "the coded content has a window that br does not have over HTTP: its sender has to turn large windows off \
                 (RFC 7932)"
            }
            CodingError::Window(_) => {
                "the coded content needs a larger window than zstd may have over HTTP, which is 8 MiB: its sender has to \
                 set a window log of 23 at most (RFC 9659)"
            }
            CodingError::Incomplete => "the coded content was cut short",
            CodingError::Unknown => "the content has an unknown coding",
            CodingError::TooMany => "the content has too many codings",
            CodingError::TooLarge(max) => {
                return write!(f, "the decoded content is too large: more than {max} bytes");
            }
            CodingError::Encoder => "the content could not be encoded",
        };
        f.write_str(text)
    }
}

impl Error for CodingError {}

impl From<CodingError> for io::Error {
    fn from(error: CodingError) -> io::Error {
        io::Error::new(error.kind(), error)
    }
}
