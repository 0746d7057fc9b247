//! [`CompressRules`]: which answers are compressed, and how.

use crate::coding::{Coding, essence, is_compressible};
use crate::message::{Headers, Status};

/// Which answers are compressed, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct CompressRules {
    /// The codings to choose from, in order of preference.
    codings: [Coding; CODINGS],
    count: usize,
    /// The level of each coding.
    levels: [u32; CODINGS],
    pub(super) size_min: usize,
    pub(super) inline_max: usize,
    pub(super) decide: fn(&str) -> Option<bool>,
}

const CODINGS: usize = 4;
const ALL: [Coding; CODINGS] = [Coding::Br, Coding::Zstd, Coding::Gzip, Coding::Deflate];

impl CompressRules {
    pub(super) fn offer(&mut self, codings: &[Coding]) {
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

    /// Whether an answer may be compressed at all: its content is complete, not coded yet, and may be changed.
    pub(super) fn allow(status: Status, headers: &Headers) -> bool {
        let has_content = !status.is_informational() && ![204, 205, 206, 304].contains(&status.as_u16());
        has_content
            && !headers.contains("content-encoding")
            && !headers.contains("content-range")
            && !headers.contains_token("cache-control", "no-transform")
    }

    /// Whether content with this type and length should be compressed.
    pub(super) fn recommend(&self, headers: &Headers, len: Option<u64>) -> bool {
        let is_long = len.is_none_or(|len| len >= self.size_min as u64);
        is_long && headers.content_type().is_some_and(|content_type| self.is_compressible(content_type))
    }

    /// Whether the whole content, of which a 206 has a part, might be compressed: a part has the fields of the whole (RFC 9110
    /// §15.3.7).
    pub(super) fn recommend_whole(&self, headers: &Headers) -> bool {
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
