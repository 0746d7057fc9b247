//! [`Early`]: a transport that was handed over, and what its peer had sent before.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use super::transport::AnyStream;
use super::{Buffer, Transport};

/// A transport whose first bytes have been read already, and are read again from here.
pub(crate) struct Early<B> {
    transport: Transport<B>,
    bytes: Buffer,
}

impl<B> Early<B> {
    pub(crate) fn new(transport: Transport<B>, bytes: Buffer) -> Early<B> {
        Early { transport, bytes }
    }
}

impl<B: AnyStream> AsyncRead for Early<B> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.bytes.is_empty() {
            return Pin::new(&mut self.transport).poll_read(cx, out);
        }
        let count = self.bytes.unread().len().min(out.remaining());
        out.put_slice(&self.bytes.unread()[..count]);
        self.bytes.consume(count);
        if self.bytes.is_empty() {
            self.bytes = Buffer::default();
        }
        Poll::Ready(Ok(()))
    }
}

/// Lets a public type read and write through the field that does it.
macro_rules! delegate_stream {
    ($type:ty, $field:ident) => {
        impl tokio::io::AsyncRead for $type {
            fn poll_read(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                out: &mut tokio::io::ReadBuf<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                std::pin::Pin::new(&mut self.$field).poll_read(cx, out)
            }
        }

        $crate::net::delegate_write!([] $type, $field);
    };
}

/// As `delegate_stream`, for what is only written to.
macro_rules! delegate_write {
    ([$($bound:tt)*] $type:ty, $field:ident) => {
        impl<$($bound)*> tokio::io::AsyncWrite for $type {
            fn poll_write(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                bytes: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                std::pin::Pin::new(&mut self.$field).poll_write(cx, bytes)
            }

            fn poll_write_vectored(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                parts: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                std::pin::Pin::new(&mut self.$field).poll_write_vectored(cx, parts)
            }

            fn is_write_vectored(&self) -> bool {
                self.$field.is_write_vectored()
            }

            fn poll_flush(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                std::pin::Pin::new(&mut self.$field).poll_flush(cx)
            }

            fn poll_shutdown(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                std::pin::Pin::new(&mut self.$field).poll_shutdown(cx)
            }
        }
    };
}

pub(crate) use {delegate_stream, delegate_write};

delegate_write!([B: AnyStream] Early<B>, transport);
