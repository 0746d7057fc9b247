//! [`ResponseProgress`]: how much of the responses to one request has come, by the [`Shape`] that the first response
//! had.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use memchr::memmem;

use super::chunks::Chunks;
use super::response_reader::ResponseReader;

/// The form of a server's responses: learned once, so that most of them need only be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// All of them are of this length, the heads included.
    Fixed(usize),
    /// A head, and chunks with so much content in all.
    Chunked(usize),
    /// So many responses with a status of success, each as long as its head says.
    Any(usize),
    /// No responses, but so many octets.
    Octets(usize),
}

impl Shape {
    /// Asks once, and compares the response with what it must be.
    pub(crate) fn learn(address: SocketAddr, request: &[u8], content: &[u8]) -> io::Result<Shape> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let (mut writer, request) = (stream.try_clone()?, request.to_vec());
        // Who reads and writes in turns waits for ever if the response begins before the request has ended.
        std::thread::spawn(move || writer.write_all(&request));
        let (mut response, mut input, mut stream) = (Vec::new(), [0; 16 << 10], stream);
        loop {
            match stream.read(&mut input)? {
                0 => return Err(wrong("is cut off", &response)),
                read => response.extend_from_slice(&input[..read]),
            }
            match whole(&response)? {
                Some((shape, found)) if found == content => return Ok(shape),
                Some(_) => return Err(wrong("is not what the application says", &response)),
                None => {}
            }
        }
    }

    /// Of so many responses in a row.
    pub(super) fn repeated(self, count: usize) -> Shape {
        match self {
            Shape::Fixed(len) => Shape::Fixed(len * count),
            Shape::Chunked(content) => {
                assert_eq!(count, 1, "only short responses are asked for at once");
                Shape::Chunked(content)
            }
            Shape::Any(_) | Shape::Octets(_) => unreachable!("no response was learned that has one of these"),
        }
    }
}

const TIMEOUT: Duration = Duration::from_secs(10);

/// The shape and the content of a response that is complete.
fn whole(response: &[u8]) -> io::Result<Option<(Shape, Vec<u8>)>> {
    let Some(end) = memmem::find(response, b"\r\n\r\n") else { return Ok(None) };
    let (head, body) = response.split_at(end + 4);
    if !head.starts_with(OK) {
        return Err(wrong("is not 200", response));
    }
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let field = |name: &str| head.split_once(name).and_then(|(_, rest)| rest.lines().next());
    if let Some(length) = field("\r\ncontent-length: ") {
        let len: usize = length.parse().map_err(|_| wrong("has a bad length", response))?;
        return Ok((body.len() == len).then(|| (Shape::Fixed(response.len()), body.to_vec())));
    }
    let (mut chunks, mut content) = (Chunks::default(), Vec::new());
    let is_done = chunks.feed(body, |data| content.extend_from_slice(data))?;
    Ok(is_done.then_some((Shape::Chunked(content.len()), content)))
}

const OK: &[u8] = b"HTTP/1.1 200 ";

fn wrong(what: &str, response: &[u8]) -> io::Error {
    let start = &response[..response.len().min(300)];
    io::Error::new(ErrorKind::InvalidData, format!("the response {what}: {}", start.escape_ascii()))
}

/// How far the responses are.
#[derive(Default)]
pub(super) struct ResponseProgress {
    received: usize,
    /// Bytes of the empty line that ends the head, if chunks follow it.
    line_end: usize,
    chunks: Chunks,
    content: usize,
    /// Of responses of which nothing is known before.
    reader: ResponseReader,
}

impl ResponseProgress {
    /// Bytes so far.
    pub(super) fn received(&self) -> usize {
        self.received
    }

    /// Takes what came; `true` when all responses are complete.
    pub(super) fn feed(&mut self, shape: &Shape, input: &[u8]) -> io::Result<bool> {
        let is_first = self.received == 0;
        self.received += input.len();
        match *shape {
            Shape::Any(count) => return Ok(self.reader.feed(input)? == count),
            Shape::Octets(len) => return Ok(self.received == len),
            Shape::Fixed(_) | Shape::Chunked(_) => {}
        }
        if is_first && !input.starts_with(&OK[..OK.len().min(input.len())]) {
            return Err(wrong("is not 200", input));
        }
        match *shape {
            Shape::Fixed(len) if self.received > len => Err(wrong("is longer than the first", input)),
            Shape::Fixed(len) => Ok(self.received == len),
            Shape::Chunked(len) => self.feed_chunks(len, input),
            Shape::Any(_) | Shape::Octets(_) => unreachable!("they were looked at before"),
        }
    }

    fn feed_chunks(&mut self, len: usize, input: &[u8]) -> io::Result<bool> {
        let body = &input[self.skip_head(input)..];
        let is_done = self.chunks.feed(body, |data| self.content += data.len())?;
        if is_done && self.content != len {
            return Err(wrong("is not as long as the first", input));
        }
        Ok(is_done)
    }

    /// How many bytes of `input` belong to the head.
    fn skip_head(&mut self, input: &[u8]) -> usize {
        let mut at = 0;
        while self.line_end < 4 && at < input.len() {
            self.line_end = match (input[at], self.line_end) {
                (b'\r', seen @ (0 | 2)) | (b'\n', seen @ (1 | 3)) => seen + 1,
                (b'\r', _) => 1,
                _ => 0,
            };
            at += 1;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::{ResponseProgress, Shape, whole};

    const FIXED: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    const CHUNKED: &[u8] =
        b"HTTP/1.1 200 Ok\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n";

    /// Cut at every byte: the response is known when it is complete, and not before.
    #[track_caller]
    fn check(response: &[u8], shape: Shape) {
        for cut in 0..response.len() {
            assert_eq!(whole(&response[..cut]).expect("a good start"), None, "cut at {cut}");
            let mut responses = ResponseProgress::default();
            if cut > 0 {
                assert!(!responses.feed(&shape, &response[..cut]).expect("a good start"), "cut at {cut}");
            }
            assert!(responses.feed(&shape, &response[cut..]).expect("a good end"), "cut at {cut}");
        }
        assert_eq!(whole(response).expect("a good response"), Some((shape, b"hello".to_vec())));
    }

    #[test]
    fn responses_are_complete_at_their_last_byte() {
        check(FIXED, Shape::Fixed(FIXED.len()));
        check(CHUNKED, Shape::Chunked(5));
    }

    #[test]
    fn wrong_responses_are_refused() {
        let fed = |shape, bytes: &[u8]| ResponseProgress::default().feed(&shape, bytes).is_err();
        assert!(fed(Shape::Fixed(10), b"HTTP/1.1 404 Not Found\r\n"));
        assert!(fed(Shape::Fixed(FIXED.len()), &[FIXED, b"!"].concat()));
        assert!(fed(Shape::Chunked(6), CHUNKED));
        assert!(fed(Shape::Chunked(4), CHUNKED));
        assert!(fed(Shape::Chunked(5), b"HTTP/1.1 200 OK\r\n\r\nx\r\n"));
        assert!(fed(Shape::Chunked(0), b"HTTP/1.1 200 OK\r\n\r\n0\r\n\r\nmore"));
        assert!(whole(b"HTTP/1.1 500 No\r\n\r\n").is_err());
    }
}
