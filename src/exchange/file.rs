//! Bodies that are a range of a file.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use crate::message::{Body, FileRange};
use crate::net::FileReader;

impl Body {
    /// Makes a range of `file`, in bytes, the content: to be sent under its length.
    ///
    /// On Linux the system moves it to a socket by itself; other transports have it read piece by piece, on the
    /// runtime's threads for work that blocks. Either way its size costs no memory. What the file grows by later is
    /// not sent, and a file that shrinks aborts the connection.
    ///
    /// To everybody else, such as middleware, it is a [stream](Body::is_stream), taken once.
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
        // A range that ends before it begins is an empty one.
        let range = range.start..range.end.max(range.start);
        let source = Box::pin(FileReader::new(file.clone(), range.clone()));
        self.stream_file(source, FileRange { file, range });
    }
}
