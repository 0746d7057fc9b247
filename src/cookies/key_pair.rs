//! [`KeyPair`]: the keys that are derived from one secret, and how values are signed and encrypted with them.

use std::io;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, MAX_TAG_LEN, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::hmac::{self, HMAC_SHA256};
use ring::rand::{SecureRandom, SystemRandom};

/// The keys that are derived from one secret.
#[derive(Clone)]
pub(super) struct KeyPair {
    signing: hmac::Key,
    /// Each nonce is random, so that no two are the same by chance (2^-32 after 2^32 values).
    encryption: LessSafeKey,
}

impl KeyPair {
    pub(super) fn from_secret(secret: &[u8]) -> KeyPair {
        let derived = Salt::new(HKDF_SHA256, b"corehttp cookies").extract(secret);
        let signing = derived.expand(&[b"signing"], HMAC_SHA256).expect("HKDF yields 32 bytes");
        let encryption = derived.expand(&[b"encryption"], &AES_256_GCM).expect("HKDF yields 32 bytes");
        KeyPair { signing: signing.into(), encryption: LessSafeKey::new(UnboundKey::from(encryption)) }
    }

    /// Returns `value` behind its signature.
    pub(super) fn sign(&self, name: &str, value: &str) -> String {
        let mut signed = String::with_capacity(SIGNATURE_LEN + value.len());
        BASE64.encode_string(hmac::sign(&self.signing_key(name), value.as_bytes()), &mut signed);
        signed.push_str(value);
        signed
    }

    /// Returns the value behind its signature, if the signature is valid.
    pub(super) fn verify<'a>(&self, name: &str, signed: &'a str) -> Option<&'a str> {
        let (signature, value) = signed.split_at_checked(SIGNATURE_LEN)?;
        // The decoder wants room for whole groups of three bytes.
        let mut tag = [0; SIGNATURE_LEN.div_ceil(4) * 3];
        let len = BASE64.decode_slice(signature, &mut tag).ok()?;
        hmac::verify(&self.signing_key(name), value.as_bytes(), &tag[..len]).ok()?;
        Some(value)
    }

    /// The key for the values of one name. With one key for all names, a value could be sent under another name.
    fn signing_key(&self, name: &str) -> hmac::Key {
        hmac::Key::new(HMAC_SHA256, hmac::sign(&self.signing, name.as_bytes()).as_ref())
    }

    /// Returns `value` encrypted.
    ///
    /// # Errors
    ///
    /// Fails if the system provides no randomness.
    pub(super) fn encrypt(&self, name: &str, value: &str) -> io::Result<String> {
        let mut nonce = [0; NONCE_LEN];
        fill_random(&mut nonce)?;
        let mut sealed = nonce.to_vec();
        sealed.extend_from_slice(value.as_bytes());
        let nonce = Nonce::assume_unique_for_key(nonce);
        let name = Aad::from(name.as_bytes());
        let content = &mut sealed[NONCE_LEN..];
        let tag = self.encryption.seal_in_place_separate_tag(nonce, name, content);
        sealed.extend_from_slice(tag.map_err(|_| io::Error::other("the value is too long"))?.as_ref());
        Ok(BASE64.encode(sealed))
    }

    /// Returns the value that was encrypted for this name.
    pub(super) fn decrypt(&self, name: &str, encrypted: &str) -> Option<String> {
        let mut sealed = BASE64.decode(encrypted).ok()?;
        let nonce = Nonce::try_assume_unique_for_key(sealed.get(..NONCE_LEN)?).ok()?;
        let name = Aad::from(name.as_bytes());
        let len = self.encryption.open_within(nonce, name, &mut sealed, NONCE_LEN..).ok()?.len();
        sealed.truncate(len);
        String::from_utf8(sealed).ok()
    }
}

/// How many bytes a signature has: 32 in base64url.
pub(super) const SIGNATURE_LEN: usize = 43;

/// How many bytes an encrypted value has at least: a nonce and a tag in base64url.
pub(super) const ENCRYPTED_LEN_MIN: usize = ((NONCE_LEN + MAX_TAG_LEN) * 4).div_ceil(3);

/// Fills `bytes` with random ones.
///
/// # Errors
///
/// Fails if the system provides no randomness.
pub(super) fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    let filled = SystemRandom::new().fill(bytes);
    filled.map_err(|_| io::Error::other("the system provides no randomness"))
}
