//! Reading and writing through a field, for all types that do so.

/// Implements `AsyncRead` and `AsyncWrite` through a field, whose errors the function `map_err` converts.
macro_rules! delegate_stream {
    ($type:ty, $field:ident $(, $map_err:path)?) => {
        impl tokio::io::AsyncRead for $type {
            fn poll_read(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                out: &mut tokio::io::ReadBuf<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                std::pin::Pin::new(&mut self.$field).poll_read(cx, out)$(.map_err($map_err))?
            }
        }

        $crate::net::delegate_write!([] $type, $field $(, $map_err)?);
    };
}

/// Implements only `AsyncWrite` through a field, in the same way.
macro_rules! delegate_write {
    ([$($bound:tt)*] $type:ty, $field:ident $(, $map_err:path)?) => {
        impl<$($bound)*> tokio::io::AsyncWrite for $type {
            fn poll_write(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                bytes: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                std::pin::Pin::new(&mut self.$field).poll_write(cx, bytes)$(.map_err($map_err))?
            }

            fn poll_write_vectored(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                parts: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                std::pin::Pin::new(&mut self.$field).poll_write_vectored(cx, parts)$(.map_err($map_err))?
            }

            fn is_write_vectored(&self) -> bool {
                self.$field.is_write_vectored()
            }

            fn poll_flush(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                std::pin::Pin::new(&mut self.$field).poll_flush(cx)$(.map_err($map_err))?
            }

            fn poll_shutdown(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                std::pin::Pin::new(&mut self.$field).poll_shutdown(cx)$(.map_err($map_err))?
            }
        }
    };
}

pub(crate) use delegate_stream;
pub(crate) use delegate_write;
