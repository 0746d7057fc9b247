//! The way from a path to a file.

mod path_lookup;

#[cfg(feature = "compress")]
pub(super) use path_lookup::CompressFn;
pub(super) use path_lookup::{
    ByPattern, DotFiles, Found, Listed, Listing, Page, PathLookup, Precompressed, VirtualHost, open_error,
    without_trailing_dot,
};
