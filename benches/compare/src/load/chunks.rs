//! [`Chunks`]: where one chunked body stands (RFC 9112 §7.1), of servers that send neither extensions nor trailers.

use std::io::{self, ErrorKind};

#[derive(Clone, Copy)]
pub(super) enum Chunks {
    Size { value: usize },
    Data { left: usize },
    DataEnd { left: usize },
    End { left: usize },
    Done,
}

impl Default for Chunks {
    fn default() -> Chunks {
        Chunks::Size { value: 0 }
    }
}

impl Chunks {
    /// Passes the content of `input` on; `true` once the last chunk has ended.
    pub(super) fn feed(&mut self, mut input: &[u8], mut content: impl FnMut(&[u8])) -> io::Result<bool> {
        while let [first, rest @ ..] = input {
            *self = match *self {
                Chunks::Size { value } => {
                    input = rest;
                    size(value, *first)?
                }
                Chunks::Data { left } => {
                    let (data, rest) = input.split_at(left.min(input.len()));
                    content(data);
                    input = rest;
                    match left - data.len() {
                        0 => Chunks::DataEnd { left: 2 },
                        left => Chunks::Data { left },
                    }
                }
                Chunks::DataEnd { left } => {
                    input = rest;
                    if left == 1 { Chunks::default() } else { Chunks::DataEnd { left: left - 1 } }
                }
                Chunks::End { left } => {
                    input = rest;
                    if left == 1 { Chunks::Done } else { Chunks::End { left: left - 1 } }
                }
                Chunks::Done => return Err(bad("bytes follow the last chunk")),
            };
        }
        Ok(matches!(self, Chunks::Done))
    }
}

/// The line of a size goes on with `byte`.
fn size(value: usize, byte: u8) -> io::Result<Chunks> {
    match (byte, char::from(byte).to_digit(16)) {
        (b'\r', _) => Ok(Chunks::Size { value }),
        (b'\n', _) if value == 0 => Ok(Chunks::End { left: 2 }),
        (b'\n', _) => Ok(Chunks::Data { left: value }),
        (_, Some(digit)) if value < SIZE_MAX => Ok(Chunks::Size { value: value * 16 + digit as usize }),
        _ => Err(bad("a chunk has no good size")),
    }
}

const SIZE_MAX: usize = 1 << 24;

fn bad(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what.to_owned())
}
