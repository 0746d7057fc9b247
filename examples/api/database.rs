//! [`Database`]: where users and their notes are kept.

use corehttp::Result;
use serde::{Deserialize, Serialize};

/// A note as it is sent.
#[derive(Serialize)]
pub struct Note {
    pub id: i64,
    pub text: String,
    pub tags: Vec<String>,
}

/// A note as it is received, without an id.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Draft {
    pub text: String,
    #[serde(default)]
    pub tags: Vec<String>,
}

/// Which of a user's notes are listed.
pub struct Page {
    /// Only the notes with this tag, or all.
    pub tag: Option<String>,
    /// Only the notes with a lesser id.
    pub before: i64,
    /// At most so many, the latest first.
    pub limit: i64,
}

/// Where users and their notes are kept. A user sees no notes of others, so each query has the name of the owner.
pub trait Database: 'static {
    /// Adds a user with the hash of a password. Returns whether the name was free.
    async fn add_user(&self, name: String, hash: Vec<u8>) -> Result<bool>;

    /// Returns the hash of a user's password.
    async fn password_hash(&self, name: String) -> Result<Option<Vec<u8>>>;

    async fn notes(&self, owner: String, page: Page) -> Result<Vec<Note>>;

    async fn note(&self, owner: String, id: i64) -> Result<Option<Note>>;

    async fn add_note(&self, owner: String, draft: Draft) -> Result<Note>;

    async fn replace_note(&self, owner: String, id: i64, draft: Draft) -> Result<Option<Note>>;

    /// Removes a note. Returns whether it was there.
    async fn remove_note(&self, owner: String, id: i64) -> Result<bool>;
}
