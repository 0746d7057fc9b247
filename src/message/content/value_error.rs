//! [`ValueError`]: why a value of a path, a query, a form or a cookie cannot be read as requested.

use std::any::type_name;
use std::error::Error;
use std::fmt;

use super::content_error::ValueFault;
use crate::error_text::{Excerpt, describe_values};
use crate::message::Status;

/// Why a value of a path, a query, a form or a cookie cannot be read as requested.
///
/// In a handler, `?` turns it into the right status: see [`ValueError::status`]. The text is fit for the peer. It has
/// the name of the value, and no Rust type. The value is left out, as it may be a secret.
///
/// # Examples
///
/// ```
/// use corehttp::{Form, Status};
///
/// let error = Form::new("page=two").get_as::<u32>("page").unwrap_err();
/// assert_eq!(error.to_string(), "the value of `page` is not a whole number from 0 to 4294967295");
/// assert_eq!((error.name(), error.status()), (Some("page"), Status::BAD_REQUEST));
/// ```
// A box keeps the results of reading values small.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ValueError(Box<Inner>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Inner {
    name: Option<Box<str>>,
    reason: Reason,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Reason {
    /// The route has no parameter of this name.
    NoParam,
    /// The parameter of the path is not UTF-8.
    ParamText,
    /// The parameter of the path is not what is described here, as in "a whole number from 0 to 255".
    ParamType(&'static str),
    /// The path, or a segment of it, is not UTF-8.
    Path,
    /// The value is not what is described here.
    Type(&'static str),
    /// An escape lacks its digits, or does not decode to UTF-8.
    Escape,
    /// There are more pairs than this many.
    TooManyPairs(usize),
    /// The query is not that of the requested type.
    #[allow(dead_code, reason = "unused without the feature `form`")]
    Query(ValueFault),
}

impl ValueError {
    fn new(name: Option<&str>, reason: Reason) -> ValueError {
        ValueError(Box::new(Inner { name: name.map(Into::into), reason }))
    }

    /// The error of a parameter that the route does not have.
    pub(crate) fn no_param(name: &str) -> ValueError {
        ValueError::new(Some(name), Reason::NoParam)
    }

    /// The error of a parameter of the path that is not UTF-8.
    pub(crate) fn param_text(name: &str) -> ValueError {
        ValueError::new(Some(name), Reason::ParamText)
    }

    /// The error of a parameter of the path that is not a `T`.
    pub(crate) fn param_type<T>(name: &str) -> ValueError {
        ValueError::new(Some(name), Reason::ParamType(kind_of::<T>()))
    }

    /// The error of a path, or a segment of it, that is not UTF-8.
    pub(crate) fn path() -> ValueError {
        ValueError::new(None, Reason::Path)
    }

    /// The error of a value of a form or a cookie that is not a `T`.
    pub(crate) fn value_type<T>(name: &str) -> ValueError {
        ValueError::new(Some(name), Reason::Type(kind_of::<T>()))
    }

    /// The error of a pair with a malformed escape.
    pub(super) fn escape(name: &str) -> ValueError {
        ValueError::new(Some(name), Reason::Escape)
    }

    /// The error of more than `pairs_max` pairs.
    pub(super) fn too_many_pairs(pairs_max: usize) -> ValueError {
        ValueError::new(None, Reason::TooManyPairs(pairs_max))
    }

    /// The error of a query that is not that of the requested type.
    #[allow(dead_code, reason = "unused without the feature `form`")]
    pub(crate) fn query(name: Option<&str>, fault: ValueFault) -> ValueError {
        ValueError::new(name, Reason::Query(fault))
    }

    /// Returns the name of the value that was looked up, or of the malformed pair. `None` if the whole is wrong.
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// Returns the status of the response to the peer:
    ///
    /// - 404 for a parameter of a path, because a path with such a value leads nowhere (RFC 9110 §15.5.5).
    /// - 500 for a parameter that the route does not have.
    /// - 400 for all others (§15.5.1).
    pub fn status(&self) -> Status {
        match &self.0.reason {
            Reason::NoParam => Status::INTERNAL_SERVER_ERROR,
            Reason::ParamText | Reason::ParamType(_) => Status::NOT_FOUND,
            Reason::Path | Reason::Type(_) | Reason::Escape | Reason::TooManyPairs(_) | Reason::Query(_) => {
                Status::BAD_REQUEST
            }
        }
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Excerpt(self.name().unwrap_or_default());
        match &self.0.reason {
            Reason::NoParam => write!(f, "the route has no parameter {name}"),
            Reason::ParamText => write!(f, "the parameter {name} of the path is not UTF-8"),
            Reason::ParamType(expected) => {
                write!(f, "the parameter {name} of the path is not {expected}")
            }
            Reason::Path => f.write_str("the path of the request is not UTF-8"),
            Reason::Type(expected) => write!(f, "the value of {name} is not {expected}"),
            Reason::Escape => write!(f, "an escape in {name} is malformed, or not UTF-8"),
            Reason::TooManyPairs(max) => write!(f, "the form has more than {max} pairs"),
            Reason::Query(fault) => fault.fmt(f),
        }
    }
}

impl Error for ValueError {}

/// Describes the values of a type to a peer, whom the name of a type of the application would not help.
fn kind_of<T>() -> &'static str {
    describe_values(type_name::<T>()).unwrap_or("valid")
}
