//! Floor 5: forms and queries as types of serde (the URL Standard, §5).
//!
//! A handler calls [`Request::query_as`](crate::Request::query_as) and [`Request::form_as`](crate::Request::form_as); a
//! client calls [`RequestBuilder::query`](crate::RequestBuilder::query) and
//! [`RequestBuilder::form`](crate::RequestBuilder::form), or [`FormBuf::from_value`](crate::FormBuf::from_value).

mod codec;
