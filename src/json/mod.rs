// Floor 5: JSON, by serde (RFC 8259).
//
// A handler calls `Request::json` and `Response::set_json`; a
// client calls `Request::set_json` and `Response::json`.

mod codec;
