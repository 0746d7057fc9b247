//! [`Edges`]: those of a tree of segments, in one table; and [`Segment`], by which they are found.

use std::mem;

use crate::message::{find_octet, first_in_eight};

/// The edges of a tree of segments: the node that is behind another one and a segment.
///
/// A hash table with open addressing. A segment is compared by its first and its last eight octets, which are all of most
/// segments. Peers cannot add edges, so no path takes longer than the routes of the program make it.
#[derive(Debug, Default)]
pub(super) struct Edges {
    /// A power of two, of which at most half are taken: a search ends at one that is not.
    slots: Vec<Option<Edge>>,
    len: usize,
}

/// The index of a node.
pub(super) type NodeIndex = u32;

#[derive(Debug)]
struct Edge {
    from: NodeIndex,
    to: NodeIndex,
    ends: [u64; 2],
    text: Box<[u8]>,
}

impl Edges {
    /// The node behind `from` and a segment; `to`, if there was no edge yet.
    pub(super) fn insert(&mut self, from: NodeIndex, segment: Segment<'_>, to: NodeIndex) -> NodeIndex {
        if let Some(known) = self.get(from, segment) {
            return known;
        }
        self.len += 1;
        if self.slots.len() < 2 * self.len {
            let slots = (2 * self.len).next_power_of_two();
            let edges = mem::replace(&mut self.slots, (0..slots).map(|_| None).collect());
            edges.into_iter().flatten().for_each(|edge| self.place(edge));
        }
        self.place(Edge { from, to, ends: segment.ends(), text: segment.text.into() });
        to
    }

    fn place(&mut self, edge: Edge) {
        debug_assert!(
            self.slots.len().is_power_of_two() && 2 * self.len <= self.slots.len(),
            "each search ends at a free slot"
        );
        let mask = self.slots.len() - 1;
        let mut at = hash(edge.from, edge.ends, &edge.text) & mask;
        while self.slots[at].is_some() {
            at = (at + 1) & mask;
        }
        self.slots[at] = Some(edge);
    }

    /// The node behind `from` and a segment.
    #[inline]
    pub(super) fn get(&self, from: NodeIndex, segment: Segment<'_>) -> Option<NodeIndex> {
        let mask = self.slots.len().checked_sub(1)?;
        let ends = segment.ends();
        let mut at = hash(from, ends, segment.text) & mask;
        while let Some(edge) = &self.slots[at] {
            if edge.from == from && edge.ends == ends && edge.has_text(segment.text) {
                return Some(edge.to);
            }
            at = (at + 1) & mask;
        }
        None
    }
}

impl Edge {
    /// Whether the edge has a text with the same ends.
    #[inline]
    fn has_text(&self, text: &[u8]) -> bool {
        self.text.len() == text.len() && (text.len() <= 16 || *self.text == *text)
    }
}

/// The hash of an edge. All octets of a segment count, since those of one program may have both ends in common.
#[inline]
fn hash(from: NodeIndex, [first, last]: [u64; 2], text: &[u8]) -> usize {
    let ends = mix(mix(u64::from(from).wrapping_mul(ODD), first), last);
    let all = if text.len() > 16 { mix_middle(ends, text) } else { ends };
    // A product has little of the high bits of its factors, where the last digits of a text are.
    ((all ^ all >> 32).wrapping_mul(ODD) >> 40) as usize
}

/// Mixes in the octets between the first eight of a text and the last.
#[inline(never)]
fn mix_middle(hash: u64, text: &[u8]) -> u64 {
    let (words, _) = text[8..].as_chunks();
    words.iter().fold(hash, |hash, word| mix(hash, u64::from_le_bytes(*word)))
}

#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(32) ^ word).wrapping_mul(ODD)
}

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A segment of a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment<'p> {
    pub(super) text: &'p [u8],
    /// Its first eight octets, of which the first is the lowest; zeros, where it is shorter.
    first: u64,
}

impl<'p> Segment<'p> {
    /// The segment at the front of a path without its `/`.
    #[inline(always)]
    pub(super) fn first_of(path: &'p [u8]) -> Segment<'p> {
        let eight = first_eight(path);
        let (first, len) = match first_in_eight(eight, b'/') {
            8 if path.len() <= 8 => (eight, path.len()),
            8 => (eight, 8 + find_octet(&path[8..], b'/')),
            at => (eight & ((1 << (8 * at)) - 1), at),
        };
        Segment { text: &path[..len], first }
    }

    /// A whole path without its `/`, as if it were one segment.
    #[inline]
    pub(super) fn whole(path: &'p [u8]) -> Segment<'p> {
        Segment { text: path, first: first_eight(path) }
    }

    /// The first eight octets, and the last eight of a longer segment.
    #[inline]
    fn ends(self) -> [u64; 2] {
        let last = self.text.last_chunk().filter(|_| self.text.len() > 8);
        [self.first, last.map_or(0, |last| u64::from_le_bytes(*last))]
    }
}

/// The first eight octets of a text, of which the first is the lowest; zeros, where it is shorter.
#[inline]
fn first_eight(text: &[u8]) -> u64 {
    if let Some(eight) = text.first_chunk() {
        return u64::from_le_bytes(*eight);
    }
    match (text.first_chunk(), text.last_chunk()) {
        // The octets in both are equal.
        (Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first))
                | u64::from(u32::from_le_bytes(*last)) << (8 * (text.len() - 4))
        }
        _ => text.iter().rev().fold(0, |eight, octet| eight << 8 | u64::from(*octet)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXTS: [&str; 12] = [
        "",
        "a",
        "ab",
        "abc",
        "abcd",
        "abcdefg",
        "abcdefgh",
        "abcdefghi",
        "abcdefghabcdefgh",
        "abcdefgh-abcdefgh",
        "abcdefgh+abcdefgh",
        "bcdefghi",
    ];

    #[test]
    fn a_segment_ends_at_a_slash_or_with_the_path() {
        for text in TEXTS {
            for behind in ["", "/", "/b", "/b/c-and-more"] {
                let path = [text, behind].concat();
                let segment = Segment::first_of(path.as_bytes());
                assert_eq!(segment.text, text.as_bytes(), "{path}");
                assert_eq!(segment.ends(), Segment::first_of(text.as_bytes()).ends(), "{path}");
            }
        }
    }

    /// How many slots the longest search for an edge looks at.
    fn longest_search(edges: &Edges) -> usize {
        let mut longest = 0;
        let mut taken = 0;
        for slot in edges.slots.iter().chain(&edges.slots) {
            taken = if slot.is_some() { taken + 1 } else { 0 };
            longest = longest.max(taken);
        }
        longest
    }

    /// However the paths of a program differ, a search is short.
    #[test]
    fn similar_segments_are_spread() {
        for text in [
            |n: u32| format!("{n}"),
            |n| format!("item{n:05}"),
            |n| format!("us-{n:05}-west"),
            |n| format!("item{n:04}item"),
            |n| format!("{n:08}{n:08}"),
            |n| format!("api/v1/tenants/{n}/settings/profile"),
            |n| format!("tenants/{n:05}/settings/profile"),
            |n| format!("{n:05}.customers.example.com"),
        ] {
            let mut edges = Edges::default();
            for n in 0..10_000 {
                edges.insert(0, Segment::whole(text(n).as_bytes()), n);
            }
            let longest = longest_search(&edges);
            assert!(longest < 40, "{}: {longest}", text(7));
        }
        let mut edges = Edges::default();
        for from in 0..10_000 {
            edges.insert(from, Segment::whole(b"settings"), from);
        }
        assert!(longest_search(&edges) < 40);
    }

    #[test]
    fn each_edge_leads_to_its_node() {
        let mut edges = Edges::default();
        assert_eq!(edges.get(0, Segment::first_of(b"a")), None);
        let keys = || (0..40).flat_map(|from| TEXTS.map(|text| (from, Segment::first_of(text.as_bytes()))));
        for (to, (from, segment)) in (1..).zip(keys()) {
            assert_eq!(edges.get(from, segment), None);
            assert_eq!(edges.insert(from, segment, to), to);
            assert_eq!(edges.insert(from, segment, 0), to);
        }
        for (to, (from, segment)) in (1..).zip(keys()) {
            assert_eq!(edges.get(from, segment), Some(to));
            assert_eq!(edges.get(from + 40, segment), None);
        }
    }
}
