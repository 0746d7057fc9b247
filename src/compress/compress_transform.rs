//! [`CompressTransform`]: compresses one response, and adapts its head (RFC 9110 §8.4, §8.8.3, §12.5.5); and
//! [`CompressRules`]: which responses are compressed, and how.

use std::any::Any;
use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{self, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use crate::coding::{
    Coding, CodingError, ContentEncoder, Flush, NegotiatedCoding, encode_once, essence, is_compressible,
    weaken_etag,
};
use crate::memory::{LocalCache, PoolKind, free_beyond};
use crate::message::{Body, BodyLength, BodySource, FieldName, Headers, Method, Response, Status};
use crate::runtime::{Budget, MemoryBudget, MemoryShare};
use crate::server::{Context, Transform, TransformAction};

/// The state for compressing one response. A thread caches it for the next response.
pub(super) struct CompressTransform {
    rules: CompressRules,
    negotiated: NegotiatedCoding,
    is_head: bool,
    /// The form in which the peer has stored the content.
    stored: StoredVariant,
    /// The transform that was in the context before, and whether the stream goes through it after this one.
    outer: Option<Box<dyn Transform>>,
    outer_action: TransformAction,
    state: State,
    /// The memory of the encoder of a stream, and the budget that it is taken from.
    memory: MemoryShare,
    budget: MemoryBudget,
    /// A buffer for output, before it becomes the body or a field.
    output: Vec<u8>,
}

/// The form in which a peer has stored the content of an earlier response, by the tags in its request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StoredVariant {
    /// Coded or not.
    Any,
    /// Not coded: all its tags are strong.
    Uncoded,
}

/// Content so large that compressing it would block a core.
pub(super) struct LargeBody {
    coding: Coding,
    level: u32,
    body: Body,
}

impl LargeBody {
    /// How many bytes of memory the body holds.
    pub(super) fn memory_held(&self) -> usize {
        self.body.memory_held()
    }

    /// Compresses the body, on any thread.
    pub(super) fn encode(self) -> Result<Body, CodingError> {
        Ok(encode_once(self.coding, self.level, self.body.bytes())?.into())
    }
}

/// The state of a streamed response.
enum State {
    /// The response may still be streamed.
    Waiting,
    /// The response is streamed, and not compressed.
    Bypass,
    /// The response is streamed through the encoder.
    Encode(ContentEncoder),
    /// No encoder could be made.
    Failed,
}

impl CompressTransform {
    fn new(rules: CompressRules) -> Box<CompressTransform> {
        Box::new(CompressTransform {
            rules,
            negotiated: NegotiatedCoding::default(),
            is_head: false,
            stored: StoredVariant::Any,
            outer: None,
            outer_action: TransformAction::Bypass,
            state: State::Waiting,
            memory: MemoryShare::default(),
            budget: MemoryBudget::default(),
            output: Vec::new(),
        })
    }

    /// Puts a transform for this response into the context. The codings that the peer accepts are noted now, since the
    /// handler may rewrite the request.
    pub(super) fn put(ctx: &mut Context, rules: CompressRules) {
        let kept = CACHE.with(|cache| cache.take(|_| true));
        let mut transform = kept.unwrap_or_else(|| CompressTransform::new(rules));
        debug_assert!(
            matches!(transform.state, State::Waiting) && transform.outer.is_none(),
            "it is cached at rest"
        );
        transform.rules = rules;
        transform.negotiated =
            NegotiatedCoding::from_headers(&ctx.request.headers, rules.codings().iter().copied());
        transform.is_head = ctx.request.method() == Method::Head;
        transform.stored = StoredVariant::from_headers(&ctx.request.headers);
        if transform.negotiated.coding.is_some() {
            ignore_range_by_date(&mut ctx.request.headers);
        }
        transform.budget = ctx.memory_budget();
        transform.outer = ctx.transform.take();
        ctx.transform = Some(transform);
    }

    /// Takes the transform out of the context, if it is still there.
    pub(super) fn take(ctx: &mut Context) -> Option<Box<CompressTransform>> {
        let transform: Box<dyn Any> = ctx.transform.take()?;
        let mut transform: Box<CompressTransform> = transform.downcast().ok()?;
        ctx.transform = transform.outer.take();
        Some(transform)
    }

    /// Caches the transform for the next response.
    pub(super) fn give(mut self: Box<CompressTransform>) {
        self.state = State::Waiting;
        self.memory.clear();
        self.budget = MemoryBudget::default();
        self.output.clear();
        free_beyond(&mut self.output, OUTPUT_KEPT_MAX);
        CACHE.with(|cache| cache.give(self));
    }

    /// Compresses a response that was not streamed. Content that would block the core is returned instead, to be
    /// compressed elsewhere.
    pub(super) fn finish(&mut self, response: &mut Response) -> Result<Option<LargeBody>, CodingError> {
        if !matches!(self.state, State::Waiting) {
            return Ok(None);
        }
        if response.body.is_stream() {
            self.take_memory();
        }
        let Some(coding) = self.decide_complete(response) else { return Ok(None) };
        let body = &mut response.body;
        if self.is_head {
            body.clear();
        } else if body.is_stream() {
            self.encode_stream(coding, body)?;
        } else if body.len() <= self.rules.inline_max {
            self.encode_body(coding, body)?;
        } else {
            return Ok(Some(LargeBody { coding, level: self.rules.level(coding), body: mem::take(body) }));
        }
        Ok(None)
    }

    /// Decides whether and how a complete response is compressed, and adapts its head.
    fn decide_complete(&mut self, response: &mut Response) -> Option<Coding> {
        let given = response.headers.content_length();
        let len = match response.body.declared_length() {
            // The length of the response to GET, if it was set by hand.
            BodyLength::NoContent if self.is_head && given.is_some() => given,
            BodyLength::NoContent if response.status == Status::NOT_MODIFIED => None,
            BodyLength::NoContent => return None,
            BodyLength::Known(len) => Some(len),
            BodyLength::Unknown => None,
        };
        self.decide(response, len)
    }

    /// Decides by the head. `len` is `None` if it is unknown.
    fn decide(&mut self, response: &mut Response, len: Option<u64>) -> Option<Coding> {
        if self.rules.codings().is_empty() {
            return None;
        }
        if response.status == Status::NOT_MODIFIED {
            self.confirm(&mut response.headers);
            return None;
        }
        let headers = &mut response.headers;
        if response.status == Status::PARTIAL_CONTENT && self.rules.is_whole_worthwhile(headers) {
            headers.vary_by("accept-encoding");
        }
        let is_worthwhile = self.rules.is_worthwhile(headers, len);
        if !CompressRules::is_allowed(response.status, headers)
            || !(is_worthwhile || self.negotiated.is_identity_refused)
        {
            return None;
        }
        headers.vary_by("accept-encoding");
        let coding = self.negotiated.coding?;
        headers.remove_each(&UNCODED_CONTENT_FIELDS);
        response.trailers.remove_each(&UNCODED_CONTENT_FIELDS);
        weaken_etag(headers, &mut self.output);
        set(headers, "content-encoding", coding.as_str().as_bytes());
        Some(coding)
    }

    /// A 304 confirms an earlier response, and must have the etag of that response (RFC 9110 §15.4.5). Only the tags in
    /// the request show whether that response was coded.
    fn confirm(&mut self, headers: &mut Headers) {
        let is_free = !headers.contains_token("cache-control", "no-transform");
        if is_free && headers.contains("etag") {
            headers.vary_by("accept-encoding");
            if self.negotiated.coding.is_some() && self.stored == StoredVariant::Any {
                weaken_etag(headers, &mut self.output);
            }
        }
    }

    /// Compresses a body in memory.
    fn encode_body(&mut self, coding: Coding, body: &mut Body) -> Result<(), CodingError> {
        self.output.clear();
        self.encoder(coding)?.encode(body.bytes(), Flush::End, &mut self.output)?;
        body.set_bytes(&self.output);
        Ok(())
    }

    /// Compresses a body that is a stream, as it is read.
    fn encode_stream(&mut self, coding: Coding, body: &mut Body) -> Result<(), CodingError> {
        let encoder = self.encoder(coding)?;
        if let Some(source) = body.take_source() {
            let memory = mem::take(&mut self.memory);
            body.set_stream(CompressedSource::new(source, encoder, memory), None);
        }
        Ok(())
    }

    /// Takes memory for the encoder of a stream. The stream is not compressed if there is none, or if less than half is left
    /// for bodies: a stream may last for days.
    fn take_memory(&mut self) {
        if self.negotiated.coding.is_none() {
            return;
        }
        if !(self.memory.try_grow_to(&self.budget, ENCODER_MEMORY) && self.budget.is_plentiful()) {
            self.negotiated.coding = None;
            self.memory.clear();
        }
    }

    fn encoder(&self, coding: Coding) -> Result<ContentEncoder, CodingError> {
        ContentEncoder::new(coding, self.rules.level(coding)).ok_or(CodingError::Encoder)
    }
}

/// About as much memory as an encoder takes at its default level.
const ENCODER_MEMORY: usize = 1 << 20;

/// How much memory is kept.
const OUTPUT_KEPT_MAX: usize = 256 << 10;

thread_local! {
    static CACHE: LocalCache<Box<CompressTransform>> = const {
        LocalCache::counted(PoolKind::Transforms, |transform| {
            size_of::<CompressTransform>() + transform.output.capacity()
        })
    };
}

impl Transform for CompressTransform {
    fn begin(&mut self, response: &mut Response) -> TransformAction {
        debug_assert!(matches!(self.state, State::Waiting), "a stream begins once");
        let len = response.headers.content_length();
        self.take_memory();
        self.state = match self.decide(response, len).map(|coding| self.encoder(coding)) {
            Some(Ok(encoder)) => State::Encode(encoder),
            // The stream's first write will fail.
            Some(Err(_)) => State::Failed,
            None => State::Bypass,
        };
        if let State::Bypass = self.state {
            self.memory.clear();
        }
        // The outer transform gets the stream after this one: with the head as it is now, and the content compressed.
        self.outer_action =
            self.outer.as_mut().map_or(TransformAction::Bypass, |outer| outer.begin(response));
        match (&self.state, self.outer_action) {
            (State::Waiting | State::Bypass, TransformAction::Bypass) => TransformAction::Bypass,
            _ => TransformAction::Apply,
        }
    }

    fn apply(&mut self, data: &[u8], flush: Flush, out: &mut Vec<u8>) -> io::Result<()> {
        let outer = self.outer.as_mut().filter(|_| self.outer_action == TransformAction::Apply);
        match (&mut self.state, outer) {
            (State::Encode(encoder), None) => Ok(encoder.encode(data, flush, out)?),
            (State::Encode(encoder), Some(outer)) => {
                self.output.clear();
                encoder.encode(data, flush, &mut self.output)?;
                if !self.output.is_empty() {
                    outer.apply(&self.output, Flush::Later, out)?;
                }
                if flush == Flush::Later { Ok(()) } else { outer.apply(&[], flush, out) }
            }
            (State::Bypass, Some(outer)) => outer.apply(data, flush, out),
            (State::Waiting | State::Bypass | State::Failed, _) => Err(CodingError::Encoder.into()),
        }
    }

    fn end(&mut self, trailers: &mut Headers) {
        if let State::Encode(_) = self.state {
            trailers.remove_each(&UNCODED_CONTENT_FIELDS);
        }
        if let (Some(outer), TransformAction::Apply) = (&mut self.outer, self.outer_action) {
            outer.end(trailers);
        }
    }
}

impl StoredVariant {
    /// By the `if-none-match` of a request.
    fn from_headers(headers: &Headers) -> StoredVariant {
        let is_strong = |line: &[u8]| line.starts_with(b"\"") && !line.windows(3).any(|text| text == b"W/\"");
        let mut lines = headers.all("if-none-match").peekable();
        match lines.peek().is_some() && lines.all(is_strong) {
            true => StoredVariant::Uncoded,
            false => StoredVariant::Any,
        }
    }
}

/// Removes a range that depends on a date. Coded or not, the content has the same date, so the peer may have a part of
/// another representation (RFC 9110 §8.8.1, §13.1.5). A tag is enough: coded content has no strong tag.
fn ignore_range_by_date(headers: &mut Headers) {
    let is_date = |value: &[u8]| !matches!(value, [b'"', ..] | [b'W', b'/', ..]);
    if headers.get_bytes("if-range").is_some_and(is_date) {
        headers.remove("range");
    }
}

/// Fields that are only true of the uncompressed content: its length, support for ranges, and digests (RFC 9530).
const UNCODED_CONTENT_FIELDS: [FieldName<'static>; 6] = [
    FieldName::new("accept-ranges"),
    FieldName::new("content-digest"),
    FieldName::CONTENT_LENGTH,
    FieldName::new("content-md5"),
    FieldName::new("digest"),
    FieldName::new("repr-digest"),
];

fn set(headers: &mut Headers, name: &str, value: &[u8]) {
    let set = headers.set(name, value);
    debug_assert!(set.is_ok(), "what a field held it can hold again");
}

/// The compressed content of a source. Whenever the source has nothing for now, the encoder is flushed.
pub(super) struct CompressedSource {
    source: BodySource,
    encoder: ContentEncoder,
    /// The memory of the encoder.
    _memory: MemoryShare,
    /// The memory into which the source is read.
    piece: Vec<u8>,
    /// The output of the encoder, and how much of it was passed on.
    output: Vec<u8>,
    sent: usize,
    /// How the encoder was last called.
    last: Flush,
    budget: Budget,
}

impl CompressedSource {
    pub(super) fn new(source: BodySource, encoder: ContentEncoder, memory: MemoryShare) -> CompressedSource {
        let piece = vec![0; PIECE];
        CompressedSource {
            source,
            encoder,
            _memory: memory,
            piece,
            output: Vec::new(),
            sent: 0,
            last: Flush::Now,
            budget: Budget::default(),
        }
    }

    /// Encodes what the source yields next.
    fn poll_encode(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.budget.poll_proceed(cx));
        let mut room = ReadBuf::new(&mut self.piece);
        let flush = match self.source.as_mut().poll_read(cx, &mut room) {
            Poll::Pending if self.last == Flush::Now => return Poll::Pending,
            Poll::Pending => Flush::Now,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) if room.filled().is_empty() => Flush::End,
            Poll::Ready(Ok(())) => Flush::Later,
        };
        self.output.clear();
        self.sent = 0;
        self.last = flush;
        self.budget.spend(room.filled().len());
        self.encoder.encode(room.filled(), flush, &mut self.output)?;
        Poll::Ready(Ok(()))
    }
}

/// How many bytes are read from the source at once.
const PIECE: usize = 16 << 10;

impl AsyncRead for CompressedSource {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.sent == this.output.len() && this.last != Flush::End {
            ready!(this.poll_encode(cx))?;
        }
        let count = out.remaining().min(this.output.len() - this.sent);
        out.put_slice(&this.output[this.sent..][..count]);
        this.sent += count;
        Poll::Ready(Ok(()))
    }
}

/// Which responses are compressed, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct CompressRules {
    /// The codings to choose from, in order of preference.
    codings: [Coding; CODINGS],
    count: usize,
    /// The level of each coding, in the order of [`Coding`].
    levels: [u32; CODINGS],
    pub(super) size_min: usize,
    pub(super) inline_max: usize,
    pub(super) decide: fn(&str) -> Option<bool>,
}

const CODINGS: usize = 4;
/// The default order. Content is compressed for each response, so time matters as much as size: at their default levels,
/// the content of gzip is 5% smaller to 3% larger than that of br, and takes half to a tenth of the time.
const ALL: [Coding; CODINGS] = [Coding::Zstd, Coding::Gzip, Coding::Br, Coding::Deflate];

impl CompressRules {
    pub(crate) fn offer(&mut self, codings: &[Coding]) {
        self.count = 0;
        for coding in codings {
            if coding.is_available() && !self.codings().contains(coding) {
                self.codings[self.count] = *coding;
                self.count += 1;
            }
        }
    }

    pub(super) fn codings(&self) -> &[Coding] {
        &self.codings[..self.count]
    }

    pub(super) fn set_level(&mut self, coding: Coding, level: u32) {
        self.levels[coding as usize] = level;
    }

    pub(super) fn level(&self, coding: Coding) -> u32 {
        self.levels[coding as usize]
    }

    /// Whether a response may be compressed at all: its content is complete, not coded yet, and may be changed.
    pub(super) fn is_allowed(status: Status, headers: &Headers) -> bool {
        let has_content = !status.is_informational() && ![204, 205, 206, 304].contains(&status.as_u16());
        has_content
            && !headers.contains("content-encoding")
            && !headers.contains("content-range")
            && !headers.contains_token("cache-control", "no-transform")
    }

    /// Whether content with this type and length should be compressed.
    pub(super) fn is_worthwhile(&self, headers: &Headers, len: Option<u64>) -> bool {
        let is_long = len.is_none_or(|len| len >= self.size_min as u64);
        is_long && headers.content_type().is_some_and(|content_type| self.is_compressible(content_type))
    }

    /// Whether the whole content, of which a 206 has a part, might be compressed: a part has the fields of the whole
    /// (RFC 9110 §15.3.7).
    pub(super) fn is_whole_worthwhile(&self, headers: &Headers) -> bool {
        let is_compressible =
            |of: &str| essence(of).eq_ignore_ascii_case("multipart/byteranges") || self.is_compressible(of);
        !headers.contains("content-encoding")
            && !headers.contains_token("cache-control", "no-transform")
            && headers.content_type().is_some_and(is_compressible)
    }

    fn is_compressible(&self, content_type: &str) -> bool {
        let essence = essence(content_type);
        (self.decide)(essence).unwrap_or_else(|| is_compressible(essence))
    }
}

impl Default for CompressRules {
    fn default() -> CompressRules {
        let mut rules = CompressRules {
            codings: ALL,
            count: 0,
            levels: [4, 3, 6, 6],
            size_min: 1 << 10,
            inline_max: 256 << 10,
            decide: |_| None,
        };
        rules.offer(&ALL);
        rules
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread for blocking work is one of many, and a cache on each of them would hold up to four encoders.
    #[test]
    fn a_thread_that_encodes_large_content_keeps_nothing_of_it() {
        let mut body = Body::new();
        body.set_bytes("again ".repeat(1000));
        let encoded = LargeBody { coding: Coding::Br, level: 4, body }.encode().unwrap();
        assert!((1..100).contains(&encoded.len()));
        assert_eq!(ContentEncoder::kept(), 0);
    }

    #[test]
    fn the_own_decision_comes_before_the_list() {
        let decide = |of: &str| match of {
            "image/png" => Some(true),
            "text/html" => Some(false),
            _ => None,
        };
        let rules = CompressRules { decide, ..CompressRules::default() };
        assert!(
            rules.is_compressible("image/png")
                && !rules.is_compressible("text/html;a")
                && rules.is_compressible("text/css")
        );
    }

    #[test]
    fn codings_are_offered_once_and_only_if_available() {
        let mut rules = CompressRules::default();
        rules.offer(&[Coding::Gzip, Coding::Gzip, Coding::Br]);
        assert_eq!(rules.codings(), [Coding::Gzip, Coding::Br]);
        rules.offer(&[Coding::Zstd]);
        assert_eq!(!rules.codings().is_empty(), Coding::Zstd.is_available());
        rules.set_level(Coding::Br, 9);
        assert_eq!((rules.level(Coding::Br), rules.level(Coding::Gzip)), (9, 6));
    }
}
