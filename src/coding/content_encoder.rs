//! [`ContentEncoder`]: encodes content piece by piece. [`is_compressible`]: which types of content are worth it.

use std::fmt;

use super::codec::Flush;
use super::encode::Encode;
use super::{Coding, CodingError, codecs};
use crate::memory::{LocalCache, PoolKind};

/// An encoder in use. When it is dropped, its state, which is large, is cached on the thread.
pub(crate) struct ContentEncoder {
    /// The coding and the level.
    params: (Coding, u32),
    /// `None` once the encoder was dropped.
    state: Option<Box<dyn Encode>>,
}

impl ContentEncoder {
    /// Makes an encoder with this level, if the coding has one. A level that is too high becomes the highest one.
    pub(crate) fn new(coding: Coding, level: u32) -> Option<ContentEncoder> {
        if !coding.is_available() {
            return None;
        }
        let params = (coding, level);
        let kept = CACHE.with(|cache| cache.take(|(of, _)| *of == params));
        let state = kept.map(|(_, state)| state).or_else(|| codecs::encoder(coding, level))?;
        Some(ContentEncoder { params, state: Some(state) })
    }

    /// Encodes `input`, and appends the output to `out`.
    ///
    /// # Errors
    ///
    /// Fails if there is not enough memory, in codings that report this.
    pub(crate) fn encode(
        &mut self,
        input: &[u8],
        flush: Flush,
        out: &mut Vec<u8>,
    ) -> Result<(), CodingError> {
        encode(&mut **self.state.as_mut().ok_or(CodingError::Encoder)?, input, flush, out)
    }

    /// How many encoders are cached on this thread. The cache is empty afterwards.
    #[cfg(test)]
    pub(crate) fn kept() -> usize {
        std::iter::from_fn(|| CACHE.with(|cache| cache.take(|_| true))).count()
    }
}

/// Encodes all of `content`, and caches nothing. For the threads for blocking work: they are many, and each encodes only
/// now and then.
///
/// # Errors
///
/// As [`ContentEncoder::encode`].
pub(crate) fn encode_once(coding: Coding, level: u32, content: &[u8]) -> Result<Vec<u8>, CodingError> {
    let mut state = codecs::encoder(coding, level).ok_or(CodingError::Encoder)?;
    let mut out = Vec::new();
    encode(&mut *state, content, Flush::End, &mut out).map(|()| out)
}

fn encode(
    state: &mut dyn Encode,
    mut input: &[u8],
    flush: Flush,
    out: &mut Vec<u8>,
) -> Result<(), CodingError> {
    loop {
        let before = out.len();
        let room = input.len().clamp(ROOM_MIN, ROOM_MAX);
        out.resize(before + room, 0);
        let step = state.step(input, &mut out[before..], flush);
        out.truncate(before + step.map_or(0, |step| step.written));
        let step = step?;
        debug_assert!(step.read <= input.len() && step.written <= room, "a step stays in its slices");
        input = &input[step.read..];
        match step.is_whole {
            true => return Ok(()),
            false if step.read == 0 && step.written == 0 => return Err(CodingError::Encoder),
            false => {}
        }
    }
}

/// The end of a flush needs this much room.
const ROOM_MIN: usize = 256;
const ROOM_MAX: usize = 16 << 10;

/// A cached encoder: its coding and level, and its state.
type CachedEncoder = ((Coding, u32), Box<dyn Encode>);

thread_local! {
    static CACHE: LocalCache<CachedEncoder> =
        const { LocalCache::counted(PoolKind::Encoders, |(_, state)| state.memory()) };
}

impl Drop for ContentEncoder {
    fn drop(&mut self) {
        let Some(mut state) = self.state.take() else { return };
        state.reset();
        // On a thread that is ending, the cache is gone.
        let _ = CACHE.try_with(|cache| cache.give((self.params, state)));
    }
}

impl fmt::Debug for ContentEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContentEncoder").field("params", &self.params).finish_non_exhaustive()
    }
}

/// A media type without its parameters (RFC 9110 §8.3.1).
pub(crate) fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim_ascii()
}

/// Whether content of this media type, given without parameters, usually shrinks when compressed.
pub(crate) fn is_compressible(essence: &str) -> bool {
    let Some((kind, subtype)) = essence.split_once('/') else { return false };
    let is_one_of = |known: &[&str]| known.iter().any(|known| subtype.eq_ignore_ascii_case(known));
    let ends_well = |suffix: &str| {
        let start = subtype.len().checked_sub(suffix.len());
        start.and_then(|start| subtype.get(start..)).is_some_and(|end| end.eq_ignore_ascii_case(suffix))
    };
    let is_kind = |known: &str| kind.eq_ignore_ascii_case(known);
    is_kind("text")
        || is_kind("application") && is_one_of(&APPLICATIONS)
        || is_kind("font") && is_one_of(&["collection", "otf", "sfnt", "ttf"])
        || is_kind("image") && is_one_of(&["bmp", "vnd.microsoft.icon", "x-icon"])
        || ["+json", "+text", "+xml", "+yaml"].into_iter().any(ends_well)
}

const APPLICATIONS: [&str; 18] = [
    "ecmascript",
    "graphql",
    "javascript",
    "json",
    "jsonl",
    "rtf",
    "sql",
    "toml",
    "vnd.apple.mpegurl",
    "vnd.ms-fontobject",
    "wasm",
    "x-javascript",
    "x-ndjson",
    "x-sh",
    "x-tar",
    "x-yaml",
    "xml",
    "yaml",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_worth_compressing_and_packed_content_is_not() {
        let shrinking = [
            "text/html; charset=utf-8",
            "TEXT/Event-Stream",
            "application/json",
            "application/problem+JSON",
            "image/svg+xml",
            "image/bmp",
            "application/wasm ;x=y",
            "font/ttf",
        ];
        let packed = [
            "",
            "text",
            "image/png",
            "image/jpeg",
            "video/mp4",
            "font/woff2",
            "application/zip",
            "application/octet-stream",
            "application/jsonx",
            "application/json-seq-gz",
            "x/+jso",
            "é/json",
            "text-html",
        ];
        shrinking
            .into_iter()
            .for_each(|content_type| assert!(is_compressible(essence(content_type)), "{content_type}"));
        packed
            .into_iter()
            .for_each(|content_type| assert!(!is_compressible(essence(content_type)), "{content_type}"));
    }
}
