//! [`ResponseReader`]: finds the ends of responses of which nothing is known before (RFC 9112 §6.3).

use std::io::{self, ErrorKind};

use memchr::memmem;

use super::chunks::Chunks;

#[derive(Default)]
pub(super) struct ResponseReader {
    stage: Stage,
    /// The part of a head that has come.
    head: Vec<u8>,
    complete: usize,
}

#[derive(Default)]
enum Stage {
    #[default]
    Head,
    Body(usize),
    Chunks(Chunks),
}

impl ResponseReader {
    /// Takes what came, and returns how many responses are complete.
    pub(super) fn feed(&mut self, mut input: &[u8]) -> io::Result<usize> {
        while !input.is_empty() {
            match &mut self.stage {
                Stage::Head => {
                    let before = self.head.len();
                    self.head.extend_from_slice(&input[..input.len().min(HEAD_MAX)]);
                    let Some(end) = memmem::find(&self.head, b"\r\n\r\n") else {
                        return if self.head.len() < HEAD_MAX {
                            Ok(self.complete)
                        } else {
                            Err(bad(&self.head))
                        };
                    };
                    self.stage = stage(&self.head[..end + 2])?;
                    input = &input[end + 4 - before..];
                    self.head.clear();
                }
                Stage::Body(left) => {
                    let taken = input.len().min(*left);
                    *left -= taken;
                    input = &input[taken..];
                }
                // The load asks for one response at a time where they are chunked.
                Stage::Chunks(chunks) => {
                    if chunks.feed(input, |_| {})? {
                        self.stage = Stage::Body(0);
                    }
                    input = &[];
                }
            }
            if let Stage::Body(0) = self.stage {
                (self.stage, self.complete) = (Stage::Head, self.complete + 1);
            }
        }
        Ok(self.complete)
    }
}

const HEAD_MAX: usize = 16 << 10;

/// The stage that follows a head.
fn stage(head: &[u8]) -> io::Result<Stage> {
    if !head.starts_with(b"HTTP/1.1 2") {
        return Err(bad(head));
    }
    for line in head.split(|octet| *octet == b'\n').skip(1) {
        let Some(colon) = line.iter().position(|octet| *octet == b':') else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let len = str::from_utf8(value).ok().and_then(|value| value.parse().ok());
            return len.map(Stage::Body).ok_or_else(|| bad(head));
        }
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            return Ok(Stage::Chunks(Chunks::default()));
        }
    }
    Err(bad(head))
}

fn bad(head: &[u8]) -> io::Error {
    let start = &head[..head.len().min(300)];
    io::Error::new(
        ErrorKind::InvalidData,
        format!("the response is none of success: {}", start.escape_ascii()),
    )
}

#[cfg(test)]
mod tests {
    use super::ResponseReader;

    const TWO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 201 Created\r\n\
        content-length:0\r\nx-cache: MISS\r\n\r\n";
    const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n0\r\n\r\n";

    #[test]
    fn responses_are_complete_at_their_last_byte() {
        for (input, count) in [(TWO, 2), (CHUNKED, 1)] {
            for cut in 1..input.len() {
                let mut reader = ResponseReader::default();
                let first = reader.feed(&input[..cut]).expect("a good start");
                assert!(first < count, "cut at {cut}");
                assert_eq!(reader.feed(&input[cut..]).expect("a good end"), count, "cut at {cut}");
            }
        }
    }

    #[test]
    fn failures_are_refused() {
        for input in [&b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"[..], b"HTTP/1.1 200 OK\r\n\r\n"]
        {
            assert!(ResponseReader::default().feed(input).is_err(), "{}", input.escape_ascii());
        }
    }
}
