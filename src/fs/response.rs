//! [`respond`]: answers with a file, or as preconditions and ranges demand (RFC 9110 §13, §14).

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::Path;

use super::cache::FileCacheLimits;
use super::content_type::{Charset, content_type, media_type};
use super::lookup::{open_error, source_error};
use super::resource::{Description, Representation, Resource};
use super::snapshot::{Etag, FileContent, ReadOptions, Snapshot};
use crate::descriptors::with_descriptors;
use crate::message::{
    Body, BodyChain, ChainLink, FieldName, Headers, Method, PreconditionResult, RangeSelection, Request,
    Response, Status, Validators, evaluate_preconditions, may_send_range, multipart, remove_freshness,
};
use crate::net::FileReader;
use crate::runtime::{random_token, spawn_blocking};
use crate::server::{Context, Result};

impl Context {
    /// Answers with the file at `path`, with its content type, `etag` and `last-modified`.
    ///
    /// Fields set before stay unchanged, such as `content-disposition` or `cache-control`. Of several ranges, each part
    /// has the `content-type` that was set. Conditions are compared with an `etag` or `last-modified` that was set. Set
    /// them before this call. After it, the response need not be the whole file. With `accept-ranges: none` no ranges
    /// are sent.
    ///
    /// Preconditions and ranges of a GET are honored, unless a status other than 200 was set. Nothing in `path` is
    /// decoded, and links in it are followed. If a peer influences the path, use [`Files`](crate::fs::Files) instead.
    /// The file is opened for each call, on another thread, and no connection waits for the disk.
    ///
    /// # Errors
    ///
    /// Fails for a missing file (404), and for one that must not be read (403).
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Context, Status};
    ///
    /// async fn lost(ctx: &mut Context) -> corehttp::Result {
    ///     ctx.response.status = Status::NOT_FOUND;
    ///     ctx.send_file("pages/404.html").await
    /// }
    ///
    /// async fn report(ctx: &mut Context) -> corehttp::Result {
    ///     ctx.response.headers.set("content-type", "application/pdf")?;
    ///     ctx.response.set_attachment("report.pdf");
    ///     ctx.send_file("/var/lib/reports/7f3a").await
    /// }
    /// # let _ = corehttp::Server::new().service(lost);
    /// # let _ = corehttp::Server::new().service(report);
    /// ```
    pub async fn send_file(&mut self, path: impl AsRef<Path>) -> Result {
        let path = path.as_ref().to_owned();
        let opened = spawn_blocking(move || {
            with_descriptors(|| open(&path)).map_err(|error| open_error(path.display(), error))
        });
        let (snapshot, content_type) = opened.await??;
        let description = Description::from_fields(&self.response.headers, content_type);
        respond(self, &Resource::new(description, snapshot, Vec::new())?)
    }
}

/// The file at `path`, and the content type that its name suggests.
fn open(path: &Path) -> io::Result<(Snapshot, String)> {
    // Opening a pipe would wait for its writer.
    if !fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let in_memory_max = FileCacheLimits::default().file_bytes_max;
    let options = ReadOptions { in_memory_max, etag: Etag::default(), previous: None };
    let snapshot = Snapshot::read(file, metadata, options)?;
    let media_type = media_type(path.file_name().unwrap_or_default().as_encoded_bytes());
    let content_type = content_type(media_type, Charset::Detected, &snapshot.content);
    Ok((snapshot, content_type))
}

/// Makes `resource` the response to the request.
pub(super) fn respond(ctx: &mut Context, resource: &Resource) -> Result {
    respond_by(ctx, resource, send)
}

/// Makes `resource`, a file of a source, the response to the request. The source is read before the head is sent, so that a
/// failure has a status; for HEAD, it is not read.
// Few requests come here, and those for disks keep what their functions are inlined into.
#[cold]
pub(super) async fn respond_from_source(ctx: &mut Context, resource: &Resource) -> Result {
    let mut unread = None;
    respond_by(ctx, resource, |_, content, range| unread = Some((content.clone(), range)))?;
    let Some((FileContent::Sourced(file), range)) = unread else { return Ok(()) };
    if ctx.request.method() == Method::Head {
        ctx.response.body.set_stream(tokio::io::empty(), Some(range.end - range.start));
        return Ok(());
    }
    match file.read(range).await {
        Ok(body) => ctx.response.body = body,
        Err(error) => {
            // The error response gets other content, but keeps these fields, which are those of the file.
            let headers = &mut ctx.response.headers;
            headers.remove_each(&["accept-ranges", "last-modified"].map(FieldName::new));
            remove_freshness(headers);
            return Err(source_error(ctx.request.path(), error));
        }
    }
    Ok(())
}

/// Makes `resource` the response to the request. Its content is set by `send`: a range of it, unless there are several.
fn respond_by(
    ctx: &mut Context,
    resource: &Resource,
    send: impl FnOnce(&mut Response, &FileContent, Range<u64>),
) -> Result {
    let clamped = resource.clamped_modified(ctx.arrived_at());
    let Context { request, response, .. } = ctx;
    let chosen = resource.select(&request.headers);
    let len = chosen.content().len();
    match FileResponse::choose(request, response.status, resource, chosen) {
        FileResponse::Complete => {
            describe(response, &chosen.fields)?;
            send(response, chosen.content(), 0..len);
        }
        FileResponse::NotModified => {
            response.set_not_modified();
            describe(response, &chosen.fields_without_content)?;
        }
        FileResponse::PreconditionFailed => refuse(response, Status::PRECONDITION_FAILED, chosen)?,
        FileResponse::RangeNotSatisfiable => {
            refuse(response, Status::RANGE_NOT_SATISFIABLE, chosen)?;
            response.headers.set("content-range", format!("bytes */{len}"))?;
        }
        FileResponse::Partial(ranges) => {
            describe(response, &chosen.fields)?;
            send_ranges(response, resource, chosen, &ranges, send)?;
        }
    }
    if let Some(clamped) = clamped {
        response.headers.set_date("last-modified", clamped)?;
    }
    Ok(())
}

/// The responses to a request for a file.
enum FileResponse {
    Complete,
    NotModified,
    PreconditionFailed,
    RangeNotSatisfiable,
    Partial(Vec<Range<u64>>),
}

impl FileResponse {
    /// Preconditions are evaluated where the response to GET or HEAD would be 200 (RFC 9110 §13.2.1), ranges only for
    /// GET (§14.2).
    // Files of disks and of sources are two callers, and each request for a file passes here.
    #[inline]
    fn choose(request: &Request, status: Status, resource: &Resource, chosen: &Representation) -> Self {
        let fields = &request.headers;
        let current = Validators { etag: Some(&*chosen.etag), modified: resource.modified };
        let verdict = match (status, request.method()) {
            (Status::OK, Method::Get | Method::Head) => evaluate_preconditions(request, current),
            _ => return Self::Complete,
        };
        match (verdict, request.method()) {
            (PreconditionResult::NotModified, _) => Self::NotModified,
            (PreconditionResult::Failed, _) => Self::PreconditionFailed,
            (PreconditionResult::Proceed, Method::Get)
                if resource.accepts_ranges
                    && fields.may_have(FieldName::RANGE)
                    && may_send_range(fields, &chosen.etag, resource.strong_date()) =>
            {
                match RangeSelection::from_fields(fields, chosen.content().len()) {
                    RangeSelection::Whole => Self::Complete,
                    RangeSelection::Unsatisfiable => Self::RangeNotSatisfiable,
                    // `content-encoding` would apply to the parts and their heads as a whole.
                    RangeSelection::Ranges(ranges) if ranges.len() > 1 && chosen.is_encoded => Self::Complete,
                    RangeSelection::Ranges(ranges) => Self::Partial(ranges),
                }
            }
            (PreconditionResult::Proceed, _) => Self::Complete,
        }
    }
}

/// Adds the fields of a representation to those that are already set.
fn describe(response: &mut Response, fields: &Headers) -> Result {
    let is_there = |(name, _)| response.headers.contains(name);
    if response.headers.is_empty() || !fields.iter().any(is_there) {
        response.headers.append_all(fields);
        return Ok(());
    }
    for (name, value) in fields {
        match name {
            // Members of `vary` that other handlers have added stay.
            "vary" => response.headers.append(name, value)?,
            _ => response.headers.set(name, value)?,
        }
    }
    Ok(())
}

fn send_ranges(
    response: &mut Response,
    resource: &Resource,
    chosen: &Representation,
    ranges: &[Range<u64>],
    send: impl FnOnce(&mut Response, &FileContent, Range<u64>),
) -> Result {
    response.status = Status::PARTIAL_CONTENT;
    if let [range] = ranges {
        let first = range.start;
        let last = range.end - 1;
        let whole = chosen.content().len();
        response.headers.set("content-range", format!("bytes {first}-{last}/{whole}"))?;
        send(response, chosen.content(), range.clone());
    } else {
        let parts = ByteRanges::new(chosen, &resource.content_type, ranges)?;
        response.headers.set("content-type", parts.content_type())?;
        parts.fill(&mut response.body);
    }
    Ok(())
}

fn send(response: &mut Response, content: &FileContent, range: Range<u64>) {
    debug_assert!(range.end <= content.len(), "the range is part of the content");
    match content {
        FileContent::Bytes(bytes) => {
            response.body.set_shared_bytes(bytes.slice(range.start as usize..range.end as usize))
        }
        FileContent::File(file, _) => response.body.set_file(file.clone(), range),
        FileContent::Sourced(file) => BodyChain::new(vec![file.clone().link(range)]).fill(&mut response.body),
    }
}

/// Answers without the representation, and without the fields that describe its content.
fn refuse(response: &mut Response, status: Status, chosen: &Representation) -> Result {
    response.remove_content();
    response.status = status;
    describe(response, &chosen.fields_without_content)?;
    remove_freshness(&mut response.headers);
    Ok(())
}

/// Several ranges of one representation, each after a head of its own.
pub(super) struct ByteRanges {
    chain: BodyChain,
    /// Separates the parts. The boundary is random, so no file can be made to contain it.
    boundary: String,
}

impl ByteRanges {
    /// Cuts `ranges`, none of which is empty, out of the `chosen` representation.
    ///
    /// # Errors
    ///
    /// Fails if the operating system provides no randomness.
    pub(super) fn new(
        chosen: &Representation,
        content_type: &str,
        ranges: &[Range<u64>],
    ) -> io::Result<ByteRanges> {
        let boundary = random_token()?;
        let whole = chosen.content().len();
        let exists = |range: &Range<u64>| !range.is_empty() && range.end <= whole;
        debug_assert!(ranges.iter().all(exists), "the ranges are satisfiable");
        let parts = ranges.iter().map(|range| {
            let (first, last) = (range.start, range.end - 1);
            let head = format!(
                "content-type: {content_type}\r\ncontent-range: bytes {first}-{last}/{whole}\r\n\r\n"
            );
            (head, cut(chosen.content(), range.clone()))
        });
        Ok(ByteRanges { chain: BodyChain::new(multipart(&boundary, parts)), boundary })
    }

    pub(super) fn content_type(&self) -> String {
        format!("multipart/byteranges; boundary={}", self.boundary)
    }

    /// Makes the ranges the content of a message.
    pub(super) fn fill(self, body: &mut Body) {
        self.chain.fill(body);
    }
}

fn cut(content: &FileContent, range: Range<u64>) -> ChainLink {
    match content {
        FileContent::Bytes(bytes) => ChainLink::Bytes(bytes.slice(range.start as usize..range.end as usize)),
        FileContent::File(file, _) => {
            let left = Some(range.end - range.start);
            ChainLink::Stream { source: Box::pin(FileReader::new(file.clone(), range)), left }
        }
        FileContent::Sourced(file) => file.clone().link(range),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant, SystemTime};

    use bytes::Bytes;

    use super::*;
    use crate::Server;

    /// A file that changes in the second of its response has the date of the earlier content: a peer with a part of
    /// that must not be sent the rest of the later one.
    #[tokio::test]
    async fn a_range_depends_on_the_date_of_the_file_and_not_of_the_response_rfc9110_13_1_5() {
        let now = SystemTime::now();
        let soon = Duration::from_secs(10);
        for (date, expected) in [(now, Status::OK), (now + soon, Status::PARTIAL_CONTENT)] {
            let service = Server::new().service(move |ctx: &mut Context| {
                let content = FileContent::Bytes(Bytes::from_static(b"content"));
                let whole = Snapshot::undated(content, String::new());
                let whole = whole.dated(Some(now + soon), Some(Instant::now() + soon));
                let description = Description::new("text/plain".to_owned(), None);
                let resource = Resource::new(description, whole, Vec::new()).unwrap();
                respond(ctx, &resource)
            });
            let mut request = Request::get("/").unwrap();
            request.headers.set("range", "bytes=0-1").unwrap();
            request.headers.set_date("if-range", date).unwrap();
            assert_eq!(service.respond(request).await.status, expected);
        }
    }
}
