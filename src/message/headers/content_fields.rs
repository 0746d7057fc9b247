//! [`CONTENT_FIELDS`]: the fields that go when the content goes that they describe (RFC 9110 §8).

/// What describes content, in requests and in responses (RFC 9110 §6.6.2, §8, §14.4, RFC 6266, RFC 9530).
pub(crate) const CONTENT_FIELDS: [&str; 13] = [
    "content-digest",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "content-type",
    "digest",
    "last-modified",
    "repr-digest",
    "trailer",
];
