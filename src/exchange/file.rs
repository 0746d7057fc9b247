//! Bodies that are a range of a file.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use crate::message::{Body, FileRange};
use crate::net::FileReader;

impl Body {
    /// Makes a range of `file`, in bytes, the content. It is sent with its length.
    ///
    /// On Linux, the operating system moves the range to a socket by itself. Elsewhere, and to other transports, it is
    /// read piece by piece, on the runtime's threads for blocking work. Either way it takes no memory in proportion to
    /// its size. If the file grows, the addition is not sent; if it shrinks, the connection is aborted.
    ///
    /// To middleware, it is a [stream](Body::is_stream), which can be taken once.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::fs::File;
    /// use corehttp::Context;
    ///
    /// fn report(ctx: &mut Context) -> corehttp::Result {
    ///     let file = File::open("report.pdf")?; // a disk may be slow: see `Context::send_file`
    ///     let size = file.metadata()?.len();
    ///     ctx.response.headers.set("content-type", "application/pdf")?;
    ///     ctx.response.body.file(file, 0..size);
    ///     Ok(())
    /// }
    /// ```
    pub fn file(&mut self, file: impl Into<Arc<File>>, range: Range<u64>) {
        let file = file.into();
        // A range that ends before it begins is empty.
        let range = range.start..range.end.max(range.start);
        let source = Box::pin(FileReader::new(file.clone(), range.clone()));
        self.stream_file(source, FileRange { file, range });
    }
}
