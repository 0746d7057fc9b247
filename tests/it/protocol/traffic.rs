//! How few reads and writes an exchange takes: no savings in user space make up for a system call.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{self, Poll};
use std::time::Duration;

use corehttp::{Context, Handler, Server};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::support::paused;
use crate::support::wired::{Then, Wired};

/// Checks that a streamed response leaves in writes of these lengths, without the head.
#[track_caller]
fn check_writes<H: Handler>(wired: Wired<H>, expected: &[usize]) {
    let received =
        wired.ask_for_writes(&[b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"], Then::Waits);
    let lengths: Vec<usize> = received
        .iter()
        .map(|write| write.split_once("\r\n\r\n").filter(|(head, _)| head.starts_with("HTTP")))
        .zip(&received)
        .map(|(split, write)| split.map_or(write.len(), |(_, content)| content.len()))
        .collect();
    assert!(received.concat().ends_with("\r\n0\r\n\r\n"), "{received:?}");
    assert_eq!(lengths, expected);
}

#[test]
fn a_streamed_response_leaves_in_one_write_if_nobody_waits() {
    for (pieces, size) in [(0, 0), (1, 1), (64, 31), (16, 4096), (3, 16 << 10)] {
        let piece = "x".repeat(size);
        let wired = Wired::new(async move |ctx: &mut Context| -> corehttp::Result {
            let mut writer = ctx.body_writer().await?;
            for _ in 0..pieces {
                writer.write_all(piece.as_bytes()).await?;
            }
            Ok(writer.finish().await?)
        });
        let framing = if size == 0 { 0 } else { format!("{size:x}\r\n\r\n").len() };
        let end = if pieces == 0 { "\r\n0\r\n\r\n".len() - 2 } else { "0\r\n\r\n".len() };
        check_writes(wired, &[pieces * (size + framing) + end]);
    }
}

#[test]
fn written_content_leaves_when_the_handler_waits_or_flushes() {
    let waits = async |ctx: &mut Context| -> corehttp::Result {
        let mut writer = ctx.body_writer().await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        writer.write_all(b"one").await?;
        writer.write_all(b"two").await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(writer.finish().await?)
    };
    check_writes(Wired::new(waits), &[0, "3\r\none\r\n3\r\ntwo\r\n".len(), "0\r\n\r\n".len()]);
    let flushes = async |ctx: &mut Context| -> corehttp::Result {
        let mut writer = ctx.body_writer().await?;
        writer.flush().await?;
        writer.write_all(b"one").await?;
        writer.flush().await?;
        writer.flush().await?;
        Ok(writer.finish().await?)
    };
    check_writes(Wired::new(flushes), &[0, "3\r\none\r\n".len(), "0\r\n\r\n".len()]);
}

#[test]
fn a_long_stream_leaves_in_large_but_bounded_writes() {
    let piece = "x".repeat(10_000);
    let wired = Wired::new(async move |ctx: &mut Context| -> corehttp::Result {
        let mut writer = ctx.body_writer().await?;
        for _ in 0..100 {
            writer.write_all(piece.as_bytes()).await?;
        }
        Ok(writer.finish().await?)
    });
    let received =
        wired.ask_for_writes(&[b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"], Then::Waits);
    assert!(received.iter().all(|write| write.len() < 80 << 10), "more than is worth a write");
    assert!(received.len() < 30, "less than is worth a write: {}", received.len());
    assert_eq!(received.concat().matches('x').count(), 1_000_000);
}

/// A peer whose bytes have all arrived, and that records how the server reads them.
struct Meter {
    wire: Vec<u8>,
    read: usize,
    notes: Rc<RefCell<Notes>>,
}

#[derive(Default)]
struct Notes {
    /// Whether the last byte was taken by a read that was full, and so could not show that no more is there.
    is_full: bool,
    /// How many responses left while that was so.
    in_doubt: usize,
    received: Vec<u8>,
}

impl AsyncRead for Meter {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut task::Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let count = out.remaining().min(self.wire.len() - self.read);
        if count == 0 {
            return Poll::Pending;
        }
        let end = self.read + count;
        out.put_slice(&self.wire[self.read..end]);
        self.read = end;
        self.notes.borrow_mut().is_full = out.remaining() == 0 && end == self.wire.len();
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Meter {
    fn poll_write(self: Pin<&mut Self>, _: &mut task::Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut notes = self.notes.borrow_mut();
        notes.in_doubt += usize::from(notes.is_full);
        notes.received.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Sends bodies of these lengths at once. They come back, and no read leaves open whether there is more.
#[track_caller]
fn check_reads(lengths: &[usize]) {
    let notes = Rc::new(RefCell::new(Notes::default()));
    let (mut wire, mut expected) = (Vec::new(), Vec::new());
    for (index, len) in lengths.iter().enumerate() {
        let last = if index + 1 == lengths.len() { "connection: close\r\n" } else { "" };
        wire.extend(format!("POST / HTTP/1.1\r\nhost: a\r\n{last}content-length: {len}\r\n\r\n").bytes());
        let body: Vec<u8> = (0..*len).map(|at| (at * 31 + at / 251 + index) as u8).collect();
        wire.extend_from_slice(&body);
        expected.push(body);
    }
    let meter = Meter { wire, read: 0, notes: Rc::clone(&notes) };
    let served = paused(async {
        let echo = |ctx: &mut Context| std::mem::swap(&mut ctx.request.body, &mut ctx.response.body);
        Server::new().service(echo).serve_connection(meter).await
    });
    assert!(served.is_ok(), "{lengths:?}: {served:?}");
    let notes = notes.borrow();
    let mut rest = &notes.received[..];
    for body in &expected {
        let head = rest.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
        assert!(rest[..head].starts_with(b"HTTP/1.1 200 OK\r\n"));
        assert_eq!(&rest[head..head + body.len()], &body[..], "{lengths:?}");
        rest = &rest[head + body.len()..];
    }
    assert_eq!((rest, notes.in_doubt), (&b""[..], 0), "{lengths:?}");
}

#[test]
fn the_last_read_of_a_body_sees_that_no_more_is_there() {
    for len in [0, 1, 8_000, 8_191, 16 << 10, 20_000, 64 << 10, (64 << 10) + 1, 100_000, 1 << 20] {
        check_reads(&[len]);
    }
}

/// Bodies of about the same length in a row, so that reads end everywhere around the ends of bodies.
#[test]
fn bytes_behind_a_body_are_the_next_request() {
    for len in [8_000, 20_000, 70_000] {
        for more in 0..20 {
            check_reads(&[len + more, 0, 3, len - more, 1, len + 57 * more, 5]);
        }
    }
}
