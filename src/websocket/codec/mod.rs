//! Messages to frames and back, with compression (RFC 7692).

mod decoder;
mod encoder;

mod deflate;
mod input;

pub(crate) use decoder::{Decoder, Reading, Step};
pub(crate) use deflate::{
    DeflateParams, EXTENSIONS, WINDOW_BITS_MAX, WINDOW_BITS_MIN, accept_offer, offer, read_answer,
};
pub(crate) use encoder::{Encoder, SharedForm, encode_alone};
pub(crate) use input::Input;
