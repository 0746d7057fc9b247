//! Messages to frames and back, with compression (RFC 7692).

mod decoder;
mod encoder;

mod deflate;
mod input;

pub(super) use decoder::{Decoder, Reading, Step};
pub(super) use deflate::{
    DeflateParams, EXTENSIONS, WINDOW_BITS_MAX, WINDOW_BITS_MIN, accept_offer, offer, read_answer,
};
pub(super) use encoder::{Encoder, SharedForm, encode_alone};
pub(super) use input::Input;
