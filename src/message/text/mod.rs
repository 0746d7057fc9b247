//! The spelling of texts: octets in sets, escapes, percent-encoding, numbers and dates.

pub(super) mod date;
mod escape;
#[cfg(any(feature = "multipart", all(windows, feature = "fs")))]
mod file_name;
mod from_text;
mod octet_set;
pub(crate) mod percent;

pub use date::HttpDate;
pub(crate) use date::delta_seconds;
#[cfg(feature = "fs")]
pub(crate) use date::month_number;
pub(crate) use escape::attachment;
pub(crate) use escape::write_json_string;
#[cfg(feature = "access-log")]
pub(crate) use escape::write_log_text;
pub use escape::{escape_html, escape_json, escape_log};
#[cfg(any(feature = "multipart", all(windows, feature = "fs")))]
pub(crate) use file_name::is_file_name;
pub use from_text::FromText;
pub(crate) use from_text::{decimal, saturating_decimal};
pub(crate) use octet_set::{OctetSet, find_octet, first_in_eight};
pub(crate) use percent::{InvalidReference, Plus, encode_reference};
