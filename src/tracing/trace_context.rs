//! [`TraceContext`]: the place of an exchange in a trace (W3C Trace Context, level 1).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::mem;
use std::num::{NonZeroU64, NonZeroU128};
use std::sync::Arc;

use crate::message::{Headers, trim};

/// The place of an exchange in a trace that may go through several programs (W3C Trace Context, level 1).
///
/// `{}` formats it as the value of the field `traceparent`.
///
/// # Examples
///
/// ```
/// use corehttp::Headers;
/// use corehttp::tracing::TraceContext;
///
/// let mut headers = Headers::new();
/// headers.set("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")?;
/// let context = TraceContext::from_headers(&headers).expect("it is valid");
/// assert_eq!(format!("{:032x}", context.trace_id()), "0af7651916cd43dd8448eb211c80319c");
/// assert!(context.is_sampled());
/// # Ok::<(), corehttp::error::MessageError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace_id: NonZeroU128,
    span_id: NonZeroU64,
    flags: u8,
    state: Option<Arc<str>>,
}

impl TraceContext {
    /// Begins a trace.
    pub(super) fn begin() -> TraceContext {
        let trace_id = u128::from(random_id()) << u64::BITS | u128::from(random_id());
        let trace_id = NonZeroU128::new(trace_id).unwrap_or(NonZeroU128::MIN);
        TraceContext { trace_id, span_id: new_span_id(), flags: SAMPLED, state: None }
    }

    /// Reads the fields `traceparent` and `tracestate` of a request. Returns `None` if there is no valid `traceparent`,
    /// or more than one (§3.2). An invalid `tracestate` is left out (§3.3).
    pub fn from_headers(headers: &Headers) -> Option<TraceContext> {
        let mut parents = headers.all("traceparent");
        let (parent, None) = (parents.next()?, parents.next()) else { return None };
        let (trace_id, span_id, flags) = parse_parent(trim(parent))?;
        Some(TraceContext { trace_id, span_id, flags, state: parse_state(headers) })
    }

    /// Returns the context of the exchange that this task handles. `None` outside of a handler within
    /// [`Tracing`](crate::tracing::Tracing), in tasks that the handler has spawned, and always with a
    /// [`TracePropagator`](crate::tracing::TracePropagator).
    pub fn current() -> Option<TraceContext> {
        CURRENT.with_borrow(Option::clone)
    }

    /// Returns the identifier of the whole trace.
    pub fn trace_id(&self) -> u128 {
        self.trace_id.get()
    }

    /// Returns the identifier of this exchange in the trace.
    pub fn span_id(&self) -> u64 {
        self.span_id.get()
    }

    /// Returns whether the sender may have recorded the trace, by the flag `sampled` of the `traceparent`. The flag is always
    /// set for a trace that began here.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The context of an exchange inside of this one.
    pub(super) fn child(&self) -> TraceContext {
        TraceContext { span_id: new_span_id(), ..self.clone() }
    }

    /// Adds the fields of a request.
    pub(super) fn set_fields(&self, headers: &mut Headers) {
        let state = self.state.as_deref();
        let set = headers.set("traceparent", self.to_string()).is_ok();
        let set_state = state.is_none_or(|state| headers.set("tracestate", state).is_ok());
        debug_assert!(set && set_state, "both were parsed, or made of digits");
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Flags that this version does not define are not sent on (§3.2.2.5).
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags & SAMPLED)
    }
}

/// Makes `context` the current one while `poll` runs.
pub(super) fn with_current<T>(context: &mut Option<TraceContext>, poll: impl FnOnce() -> T) -> T {
    let _swapped = Swapped::new(context);
    poll()
}

/// Swaps a context with the current one, and back when it is dropped, even by a panic.
struct Swapped<'a>(&'a mut Option<TraceContext>);

impl Swapped<'_> {
    fn new(context: &mut Option<TraceContext>) -> Swapped<'_> {
        CURRENT.with_borrow_mut(|current| mem::swap(current, context));
        Swapped(context)
    }
}

impl Drop for Swapped<'_> {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(|current| mem::swap(current, self.0));
    }
}

thread_local! {
    static CURRENT: RefCell<Option<TraceContext>> = const { RefCell::new(None) };

    /// The keys of this thread's identifiers, and how many it has made.
    static IDS: (RandomState, Cell<u64>) = (RandomState::new(), Cell::new(0));
}

/// The flag of a trace that is recorded (§3.2.2.5.1).
const SAMPLED: u8 = 1;

/// Parses the value of a `traceparent` (§3.2).
fn parse_parent(value: &[u8]) -> Option<(NonZeroU128, NonZeroU64, u8)> {
    let (known, rest) = value.split_at_checked(PARENT_LEN)?;
    let dashes = [2, 35, 52].map(|at| known[at]);
    let version = hex(&known[..2])?;
    let is_framed = match version {
        0 => rest.is_empty(),
        0xff => false,
        // A later version may add something after another dash.
        _ => rest.is_empty() || rest.starts_with(b"-"),
    };
    if dashes != [b'-'; 3] || !is_framed {
        return None;
    }
    let trace_id = NonZeroU128::new(hex(&known[3..35])?)?;
    let span_id = NonZeroU64::new(hex(&known[36..52])?.try_into().ok()?)?;
    Some((trace_id, span_id, hex(&known[53..55])?.try_into().ok()?))
}

const PARENT_LEN: usize = 55;

/// Parses hexadecimal digits in lower case.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |value: u128, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(value << 4 | u128::from(digit))
    })
}

/// Joins the fields `tracestate`, if all members are valid, and few (§3.3.1).
fn parse_state(headers: &Headers) -> Option<Arc<str>> {
    let mut state = String::new();
    let mut members = 0;
    for value in headers.all("tracestate") {
        for member in value.split(|octet| *octet == b',').map(trim).filter(|member| !member.is_empty()) {
            let separator = if members > 0 { "," } else { "" };
            members += 1;
            if members > MEMBERS_MAX || state.len() + member.len() > STATE_MAX || !is_member(member) {
                return None;
            }
            state.push_str(separator);
            state.push_str(str::from_utf8(member).ok()?);
        }
    }
    (members > 0).then(|| state.into())
}

const MEMBERS_MAX: usize = 32;

/// More than the 512 characters that each program must pass on.
const STATE_MAX: usize = 4 << 10;

/// Whether this is a key and a value (§3.3.1.3).
fn is_member(member: &[u8]) -> bool {
    let Some(at) = member.iter().position(|octet| *octet == b'=') else { return false };
    let (key, value) = (&member[..at], &member[at + 1..]);
    let is_key = |octet: &u8| matches!(octet, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/' | b'@');
    let is_value = |octet: &u8| matches!(octet, b' '..=b'~') && !matches!(octet, b',' | b'=');
    let starts = key.first().is_some_and(|octet| octet.is_ascii_lowercase() || octet.is_ascii_digit());
    let lengths = key.len() <= 256 && (1..=256).contains(&value.len());
    starts && lengths && key.iter().all(is_key) && value.iter().all(is_value)
}

/// An identifier that no other exchange has, except by a chance of 2^-64: a keyed hash of how many there were.
fn random_id() -> u64 {
    IDS.with(|(keys, count)| {
        count.set(count.get().wrapping_add(1));
        keys.hash_one(count.get())
    })
}

fn new_span_id() -> NonZeroU64 {
    NonZeroU64::new(random_id()).unwrap_or(NonZeroU64::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    /// A request with these fields has this context, written as its fields.
    #[track_caller]
    fn check(fields: &[(&str, &str)], expected: Option<(&str, Option<&str>)>) {
        let mut headers = Headers::new();
        fields.iter().for_each(|(name, value)| headers.append(name, *value).unwrap());
        let context = TraceContext::from_headers(&headers);
        let mut written = Headers::new();
        if let Some(context) = &context {
            context.set_fields(&mut written);
        }
        let found = written.get("traceparent").map(|parent| (parent, written.get("tracestate")));
        assert_eq!(found, expected, "{fields:?}");
    }

    #[test]
    fn a_parent_is_strict_w3c_3_2() {
        let (good, unsampled) = (format!("00-{TRACE}-{SPAN}-01"), format!("00-{TRACE}-{SPAN}-00"));
        let check = |value: &str, expected| check(&[("traceparent", value)], expected);
        check(&good, Some((&*good, None)));
        check(&unsampled, Some((&*unsampled, None)));
        // Flags that are not known are not sent on, and a later version is read as far as it is known.
        check(&format!("00-{TRACE}-{SPAN}-ff"), Some((&*good, None)));
        check(&format!("cc-{TRACE}-{SPAN}-01"), Some((&*good, None)));
        check(&format!("cc-{TRACE}-{SPAN}-01-more"), Some((&*good, None)));
        for bad in [
            "".into(),
            "00".into(),
            good.to_uppercase(),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("0g-{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("cc-{TRACE}-{SPAN}-01more"),
            format!("00-{TRACE}-{SPAN}-0"),
            format!("00-{TRACE}-{SPAN}-0x"),
            format!("00-{TRACE}_{SPAN}-01"),
            format!("00-{}-{SPAN}-01", "0".repeat(32)),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-+{}-{SPAN}-01", &TRACE[1..]),
        ] {
            check(&bad, None);
        }
        for cut in 0..good.len() {
            check(&good[..cut], None);
        }
        super::tests::check(&[("traceparent", &good), ("traceparent", &good)], None);
    }

    #[test]
    fn a_state_is_passed_on_if_it_is_valid_w3c_3_3() {
        let good = format!("00-{TRACE}-{SPAN}-01");
        let check = |states: &[&str], expected: Option<&str>| {
            let mut fields = vec![("traceparent", &*good)];
            fields.extend(states.iter().map(|state| ("tracestate", *state)));
            super::tests::check(&fields, Some((&*good, expected)));
        };
        check(&["rojo=00f067aa0ba902b7"], Some("rojo=00f067aa0ba902b7"));
        check(&["a=1 , ,b@c=2 3", "d=4"], Some("a=1,b@c=2 3,d=4"));
        for bad in ["a", "=1", "a=", "A=1", "a=1=2", "a b=1", "-a=1"] {
            check(&["x=1", bad], None);
        }
        let many = |count: usize| Vec::from_iter((0..count).map(|key| format!("k{key}=1"))).join(",");
        check(&[&many(32)], Some(&*many(32)));
        check(&[&many(33)], None);
        check(&[&format!("a={}", "x".repeat(257))], None);
        let mut alone = Headers::new();
        alone.set("tracestate", "a=1").unwrap();
        assert_eq!(TraceContext::from_headers(&alone), None);
    }

    #[test]
    fn a_child_belongs_to_the_trace_and_each_has_an_identifier() {
        let (first, second) = (TraceContext::begin(), TraceContext::begin());
        let child = first.child();
        assert_eq!((child.trace_id(), child.is_sampled()), (first.trace_id(), true));
        assert!(child.span_id() != first.span_id() && first.trace_id() != second.trace_id());
    }

    #[test]
    fn the_current_context_is_that_of_the_poll_even_after_a_panic() {
        let mut context = Some(TraceContext::begin());
        let current = || TraceContext::current().map(|context| context.span_id());
        let expected = context.as_ref().map(TraceContext::span_id);
        with_current(&mut context, || assert_eq!(current(), expected));
        assert_eq!(context.as_ref().map(TraceContext::span_id), expected);
        let panicked = std::panic::catch_unwind(|| {
            with_current(&mut Some(TraceContext::begin()), || std::panic::resume_unwind(Box::new(0)))
        });
        assert!(panicked.is_err() && current().is_none());
    }
}
