//! [`respond`]: answers with a file, or as preconditions and ranges demand (RFC 9110 §13, §14).

mod if_range;
mod parts;
mod range;

use std::ops::Range;

use self::if_range::may_send_range;
use self::parts::ByteRanges;
use self::range::Selection;
use super::resource::{Content, Representation, Resource};
use crate::message::{Headers, Method, Request, Response, Status, Validators, Verdict, evaluate};
use crate::server::{Context, Result};

/// Makes `resource` the answer to the request.
pub(super) fn respond(ctx: &mut Context, resource: &Resource) -> Result {
    let clamped = resource.clamped_modified(ctx.arrived());
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
            send_ranges(response, resource, chosen, &ranges)?;
        }
    }
    if let Some(clamped) = clamped {
        response.headers.set_date("last-modified", clamped)?;
    }
    Ok(())
}

/// What of a file a request is answered with.
enum FileResponse {
    Complete,
    NotModified,
    PreconditionFailed,
    RangeNotSatisfiable,
    Partial(Vec<Range<u64>>),
}

impl FileResponse {
    /// Preconditions are evaluated where the answer to GET or HEAD would be 200 (RFC 9110 §13.2.1), ranges only for GET
    /// (§14.2).
    fn choose(request: &Request, status: Status, resource: &Resource, chosen: &Representation) -> Self {
        let fields = &request.headers;
        let current = Validators { etag: Some(&*chosen.etag), modified: resource.modified };
        let verdict = match (status, request.method()) {
            (Status::OK, Method::Get | Method::Head) => evaluate(request, current),
            _ => return Self::Complete,
        };
        match (verdict, request.method()) {
            (Verdict::NotModified, _) => Self::NotModified,
            (Verdict::Failed, _) => Self::PreconditionFailed,
            (Verdict::Proceed, Method::Get)
                if resource.accepts_ranges
                    && may_send_range(fields, &chosen.etag, resource.strong_date()) =>
            {
                match Selection::from_fields(fields, chosen.content().len()) {
                    Selection::Whole => Self::Complete,
                    Selection::Unsatisfiable => Self::RangeNotSatisfiable,
                    // `content-encoding` would say that the parts and their heads are coded as one.
                    Selection::Ranges(ranges) if ranges.len() > 1 && chosen.is_encoded => Self::Complete,
                    Selection::Ranges(ranges) => Self::Partial(ranges),
                }
            }
            (Verdict::Proceed, _) => Self::Complete,
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
            // What others have added to `vary` still holds.
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
) -> Result {
    response.status = Status::PARTIAL_CONTENT;
    if let [range] = ranges {
        let (first, last, whole) = (range.start, range.end - 1, chosen.content().len());
        response.headers.set("content-range", format!("bytes {first}-{last}/{whole}"))?;
        send(response, chosen.content(), range.clone());
    } else {
        let parts = ByteRanges::new(chosen, &resource.content_type, ranges)?;
        response.headers.set("content-type", parts.content_type())?;
        parts.fill(&mut response.body);
    }
    Ok(())
}

fn send(response: &mut Response, content: &Content, range: Range<u64>) {
    match content {
        Content::Bytes(bytes) => {
            response.body.set_shared(bytes.slice(range.start as usize..range.end as usize))
        }
        Content::File(file, _) => response.body.file(file.clone(), range),
    }
}

/// Answers without the representation, and without what describes its content.
fn refuse(response: &mut Response, status: Status, chosen: &Representation) -> Result {
    response.remove_content();
    response.status = status;
    describe(response, &chosen.fields_without_content)?;
    // They are meant for the file: a cache would keep the refusal for as long, and answer others with it (RFC 9111 §3).
    response.headers.remove_each(&["cache-control", "expires"]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant, SystemTime};

    use bytes::Bytes;

    use super::*;
    use crate::fs::resource::{Description, Snapshot};
    use crate::server::Server;

    /// A file that changed after it was asked for could pass for what was there in that second: whoever had a part of the
    /// old one was sent the rest of the new one.
    #[tokio::test]
    async fn a_range_depends_on_the_date_of_the_file_and_not_of_the_answer_13_1_5() {
        let (now, soon) = (SystemTime::now(), Duration::from_secs(10));
        for (date, expected) in [(now, Status::OK), (now + soon, Status::PARTIAL_CONTENT)] {
            let service = Server::new().service(move |ctx: &mut Context| {
                let content = Content::Bytes(Bytes::from_static(b"content"));
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
