//! [`Encoding`]: codes one answer, and makes its head say so (RFC 9110 §8.4, §8.8.3, §12.5.5).

use std::any::Any;
use std::io;
use std::mem;

use super::encoded::Encoded;
use super::rules::Rules;
use crate::coding::{Choice, Coding, CodingError, Encoder, Flush};
use crate::memory::Stash;
use crate::message::{Body, Headers, Length, Method, Response, Status};
use crate::server::{Context, Course, Transform};

/// What it takes to code one answer. A core uses it again for the next.
pub(super) struct Encoding {
    rules: Rules,
    choice: Choice,
    is_head: bool,
    /// What was in the context before, and which way a stream goes that comes out of here.
    outer: Option<Box<dyn Transform>>,
    outer_course: Course,
    state: State,
    /// What is made before it is the body, or a field.
    made: Vec<u8>,
}

/// Content that would hold up a core.
pub(super) struct Large {
    coding: Coding,
    level: u32,
    body: Body,
}

impl Large {
    /// Codes it, on whatever thread.
    pub(super) fn encode(mut self) -> Result<Body, CodingError> {
        let mut made = Vec::new();
        encoder(self.coding, self.level)?.encode(self.body.bytes(), Flush::End, &mut made)?;
        self.body.share(made);
        Ok(self.body)
    }
}

/// How far a streamed answer is.
enum State {
    /// It may yet become one.
    Waiting,
    /// It has begun, and is not coded.
    Around,
    Through(Encoder),
    /// There is no encoder to be had.
    Failed,
}

impl Encoding {
    fn new(rules: Rules) -> Box<Encoding> {
        Box::new(Encoding {
            rules,
            choice: Choice::default(),
            is_head: false,
            outer: None,
            outer_course: Course::Around,
            state: State::Waiting,
            made: Vec::new(),
        })
    }

    /// Puts one that is ready for an answer into the context. What the peer accepts is noted: the handler may rewrite
    /// the request.
    pub(super) fn put(ctx: &mut Context, rules: Rules) {
        let kept = SPARE.with(|spare| spare.take(|_| true));
        let mut own = kept.unwrap_or_else(|| Encoding::new(rules));
        own.rules = rules;
        own.choice = Choice::of(&ctx.request.headers, rules.codings().iter().copied());
        own.is_head = ctx.request.method() == Method::Head;
        own.outer = ctx.transform.take();
        ctx.transform = Some(own);
    }

    /// Takes it back, if it is there still.
    pub(super) fn take(ctx: &mut Context) -> Option<Box<Encoding>> {
        let own: Box<dyn Any> = ctx.transform.take()?;
        let mut own: Box<Encoding> = own.downcast().ok()?;
        ctx.transform = own.outer.take();
        Some(own)
    }

    /// Keeps it for the next answer.
    pub(super) fn give(mut self: Box<Encoding>) {
        self.state = State::Waiting;
        self.made.clear();
        self.made.shrink_to(MADE_KEPT_MAX);
        SPARE.with(|spare| spare.give(self));
    }

    /// Codes an answer that was not streamed. What would hold up the core is returned instead, to be coded elsewhere.
    pub(super) fn finish(&mut self, response: &mut Response) -> Result<Option<Large>, CodingError> {
        if !matches!(self.state, State::Waiting) {
            return Ok(None);
        }
        let Some(coding) = self.judge(response) else { return Ok(None) };
        let body = &mut response.body;
        if self.is_head {
            body.clear();
        } else if body.is_stream() {
            self.encode_stream(coding, body)?;
        } else if body.len() <= self.rules.inline_max {
            self.encode_body(coding, body)?;
        } else {
            return Ok(Some(Large { coding, level: self.rules.level(coding), body: mem::take(body) }));
        }
        Ok(None)
    }

    /// Decides how an answer that is all here is coded, and makes its head say so.
    fn judge(&mut self, response: &mut Response) -> Option<Coding> {
        let len = match response.body.announced() {
            // What GET would answer is known by what was set by hand.
            Length::NoContent if self.is_head && response.headers.content_length().is_some() => {
                response.headers.content_length()
            }
            Length::NoContent => return self.confirm(response),
            Length::Known(len) => Some(len),
            Length::Unknown => None,
        };
        self.decide(response, len)
    }

    /// Decides by the head. `len` is none if it is not known.
    fn decide(&mut self, response: &mut Response, len: Option<u64>) -> Option<Coding> {
        let headers = &mut response.headers;
        if response.status == Status::PARTIAL_CONTENT && self.rules.recommend_whole(headers) {
            vary(headers);
        }
        let is_worth_it = self.rules.recommend(headers, len);
        if !Rules::allow(response.status, headers) || !(is_worth_it || self.choice.is_due) {
            return None;
        }
        vary(headers);
        let coding = self.choice.coding?;
        headers.remove_each(&OF_UNCODED);
        response.trailers.remove_each(&OF_UNCODED);
        self.weaken_etag(headers);
        set(headers, "content-encoding", coding.as_str().as_bytes());
        Some(coding)
    }

    /// 304 confirms what was sent before, and must call it by the name it had then (RFC 9110 §15.4.5).
    fn confirm(&mut self, response: &mut Response) -> Option<Coding> {
        let headers = &mut response.headers;
        let is_free = !headers.contains_token("cache-control", "no-transform");
        if response.status == Status::NOT_MODIFIED && is_free && headers.contains("etag") {
            vary(headers);
            if self.choice.coding.is_some() {
                self.weaken_etag(headers);
            }
        }
        None
    }

    /// What is coded is not byte for byte what the tag was given to (RFC 9110 §8.8.3.3).
    fn weaken_etag(&mut self, headers: &mut Headers) {
        let Some(tag @ [b'"', ..]) = headers.get("etag") else { return };
        self.made.clear();
        self.made.extend_from_slice(b"W/");
        self.made.extend_from_slice(tag);
        set(headers, "etag", &self.made);
    }

    /// Codes content that is here.
    fn encode_body(&mut self, coding: Coding, body: &mut Body) -> Result<(), CodingError> {
        self.made.clear();
        self.encoder(coding)?.encode(body.bytes(), Flush::End, &mut self.made)?;
        body.set(&self.made);
        Ok(())
    }

    /// Codes content that comes from a source, when it comes.
    fn encode_stream(&mut self, coding: Coding, body: &mut Body) -> Result<(), CodingError> {
        let encoder = self.encoder(coding)?;
        if let Some(source) = body.take_source() {
            body.stream(Encoded::new(source, encoder), None);
        }
        Ok(())
    }

    fn encoder(&self, coding: Coding) -> Result<Encoder, CodingError> {
        encoder(coding, self.rules.level(coding))
    }
}

fn encoder(coding: Coding, level: u32) -> Result<Encoder, CodingError> {
    Encoder::new(coding, level).ok_or(CodingError::Encoder)
}

/// What stays warm.
const MADE_KEPT_MAX: usize = 256 << 10;

thread_local! {
    static SPARE: Stash<Box<Encoding>> = const { Stash::new() };
}

impl Transform for Encoding {
    fn begin(&mut self, response: &mut Response) -> Course {
        let len = response.headers.content_length();
        self.state = match self.decide(response, len).map(|coding| self.encoder(coding)) {
            Some(Ok(encoder)) => State::Through(encoder),
            // It is the stream's first error.
            Some(Err(_)) => State::Failed,
            None => State::Around,
        };
        // Who was there before meets the stream behind this one: the head as it is by now, and the content coded.
        self.outer_course = self.outer.as_mut().map_or(Course::Around, |outer| outer.begin(response));
        match (&self.state, self.outer_course) {
            (State::Waiting | State::Around, Course::Around) => Course::Around,
            _ => Course::Through,
        }
    }

    fn apply(&mut self, data: &[u8], flush: Flush, out: &mut Vec<u8>) -> io::Result<()> {
        let outer = self.outer.as_mut().filter(|_| self.outer_course == Course::Through);
        match (&mut self.state, outer) {
            (State::Through(encoder), None) => Ok(encoder.encode(data, flush, out)?),
            (State::Through(encoder), Some(outer)) => {
                self.made.clear();
                encoder.encode(data, flush, &mut self.made)?;
                if !self.made.is_empty() {
                    outer.apply(&self.made, Flush::Later, out)?;
                }
                if flush == Flush::Later { Ok(()) } else { outer.apply(&[], flush, out) }
            }
            (State::Around, Some(outer)) => outer.apply(data, flush, out),
            (State::Waiting | State::Around | State::Failed, _) => Err(CodingError::Encoder.into()),
        }
    }
}

/// What is true of content only as it was: its length, that parts of it can be asked for, and digests (RFC 9530).
const OF_UNCODED: [&str; 6] =
    ["accept-ranges", "content-digest", "content-length", "content-md5", "digest", "repr-digest"];

/// Says that others may get another answer (RFC 9110 §12.5.5).
fn vary(headers: &mut Headers) {
    let is_said = |token| headers.contains_token("vary", token);
    if !is_said("accept-encoding") && !is_said("*") {
        let _ = headers.append("vary", "accept-encoding");
    }
}

fn set(headers: &mut Headers, name: &str, value: &[u8]) {
    let set = headers.set(name, value);
    debug_assert!(set.is_ok(), "what a field held it can hold again");
}
