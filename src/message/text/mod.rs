//! How the texts of messages are spelled: octets, numbers, dates, escapes, credentials, names of files (RFC 9110 §5.6).

mod basic;
pub(super) mod date;
mod decimal;
#[cfg(any(feature = "multipart", all(windows, feature = "fs")))]
mod file_name;
mod octet_set;
pub(crate) mod percent;

mod from_text;
mod invalid_text;

pub use basic::InvalidCredentials;
pub(crate) use basic::basic_credentials;
pub(crate) use date::{ImfDate, month_number};
pub(crate) use decimal::{decimal, saturating_decimal};
#[cfg(any(feature = "multipart", all(windows, feature = "fs")))]
pub(crate) use file_name::is_file_name;
pub use from_text::FromText;
pub use invalid_text::InvalidText;
pub(crate) use octet_set::OctetSet;
