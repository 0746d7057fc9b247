//! The way from a path to a file: of a directory, of the program, or of a source.

mod path_lookup;
mod source_lookup;

#[cfg(feature = "compress")]
pub(super) use path_lookup::CompressFn;
pub(super) use path_lookup::{
    ByPattern, DotFiles, Found, Listed, Listing, Page, PathLookup, Precompressed, VirtualHost, open_error,
    source_error,
};
pub(super) use source_lookup::SourceLookup;
