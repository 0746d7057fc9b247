//! [`Components`]: where the parts of a target are, and what they may contain (RFC 9112 §3.2, RFC 3986 §3).

use super::{Authority, InvalidTarget, Scheme, TargetForm};
use crate::memory::Span;
use crate::message::OctetSet;

/// Where the parts of a target are. Components that a form does not have are empty.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Components {
    pub(super) form: TargetForm,
    pub(super) scheme: Option<Scheme>,
    pub(super) authority: Span,
    pub(super) path: Span,
    pub(super) query: Span,
}

impl Components {
    /// The parts of an absolute `http` or `https` URL, or of an origin-form.
    pub(super) fn from_url(url: &[u8]) -> Result<Components, InvalidTarget> {
        match url {
            [b'/', ..] => Components::origin_form(url),
            _ => Components::absolute_form(url),
        }
    }

    pub(super) fn origin_form(target: &[u8]) -> Result<Components, InvalidTarget> {
        let (path, query) = path_and_query(target, 0)?;
        Ok(Components { path, query, ..Components::default() })
    }

    pub(super) fn authority_form(target: &[u8]) -> Result<Components, InvalidTarget> {
        match parse_authority(target)?.port {
            // A tunnel needs a port, and zero is not one (RFC 9110 §9.3.6).
            None | Some(0) => Err(InvalidTarget::Authority),
            Some(_) => Ok(Components {
                form: TargetForm::Authority,
                authority: Span::new(0, target.len()),
                ..Components::default()
            }),
        }
    }

    pub(super) fn asterisk_form() -> Components {
        Components { form: TargetForm::Asterisk, path: Span::new(0, "*".len()), ..Components::default() }
    }

    pub(super) fn absolute_form(target: &[u8]) -> Result<Components, InvalidTarget> {
        let scheme_len = memchr::memchr(b':', target).ok_or(InvalidTarget::Form)?;
        let scheme = Scheme::parse(&target[..scheme_len]).ok_or(InvalidTarget::Scheme)?;
        let rest = target[scheme_len..].strip_prefix(b"://").ok_or(InvalidTarget::Form)?;
        let authority = &rest[..memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len())];
        parse_authority(authority)?;
        let authority = Span::from_slices(authority, target);
        let (path, query) = path_and_query(target, authority.end())?;
        Ok(Components { form: TargetForm::Absolute, scheme: Some(scheme), authority, path, query })
    }
}

/// Parses an authority that names a host, as a URL must (RFC 9110 §4.2.1).
fn parse_authority(text: &[u8]) -> Result<Authority<'_>, InvalidTarget> {
    Authority::parse(text).filter(|authority| !authority.host.is_empty()).ok_or(InvalidTarget::Authority)
}

/// The path and the query of `target`, which begin at `start`.
fn path_and_query(target: &[u8], start: usize) -> Result<(Span, Span), InvalidTarget> {
    let path_end = start + PATH.prefix_len(&target[start..]);
    let query_start = match target.get(path_end) {
        None => path_end,
        Some(b'?') => path_end + 1,
        Some(_) => return Err(InvalidTarget::Byte),
    };
    if !QUERY.contains_all(&target[query_start..]) {
        return Err(InvalidTarget::Byte);
    }
    Ok((Span::new(start, path_end - start), Span::new(query_start, target.len() - query_start)))
}

/// `pchar` and `/` (RFC 3986 §3.3), and what user agents do not escape in a path, though RFC 3986 asks for it. These are
/// the octets that are not in the percent-encode set of WHATWG's URLs (§1.3), and those that curl sends as they were
/// typed: quotation marks, angle brackets, and UTF-8.
///
/// No reader ends a target at one of these. The octets at which some do are not here: a control, SP, DEL, and `#`. Neither
/// is a `\`, which WHATWG's URLs and some servers take for a `/`.
///
/// A `%` is allowed without its digits; [`percent::decode`](crate::message::percent::decode) then reads it as itself.
static PATH: OctetSet = ASCII.with_obs_text();

/// The same for a query, in which `\` is an octet like any other, and so is `?`.
static QUERY: OctetSet = ASCII.with(b"?\\").with_obs_text();

/// The octets of [`PATH`] that are ASCII, as those of nearly all paths are.
pub(super) static ASCII_PATH: OctetSet = ASCII;

/// The octets of [`QUERY`] that are ASCII.
pub(super) static ASCII_QUERY: OctetSet = ASCII.with(b"?\\");

const ASCII: OctetSet = OctetSet::URI_PLAIN.with(b"/:@%[]\"<>^`{|}");
