//! [`AccountStore`]: where the account at an authority is kept, for the next try and for other certificates.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use super::error::AcmeError;
use super::folder::{check_room, in_file, read, replace, try_lock};
use super::settings::Settings;
use crate::memory::{lock, stable_hash};
use crate::runtime::{now, sleep};

/// The credentials of the account at an authority, in a file of the folder, or in memory without one. Authorities admit few
/// accounts from one place. Never shown, since it has the account's key.
pub(super) struct AccountStore {
    file: Option<AccountFile>,
    /// The text that is not in the file: there is none, or it could not be written, as on a full disk.
    unwritten: Mutex<Option<String>>,
}

/// The file of an account, which all certificates of a folder from one authority share.
struct AccountFile {
    path: PathBuf,
    lock: PathBuf,
}

impl AccountStore {
    /// The store for the authority of these settings, in their folder, which is there.
    pub(super) fn new(settings: &Settings) -> AccountStore {
        let file = settings.folder.as_ref().map(|folder| {
            let name = format!("account-{:016x}", stable_hash(&[settings.directory.as_bytes()]));
            AccountFile {
                path: folder.join(format!("{name}.json")),
                lock: folder.join(format!("{name}.lock")),
            }
        });
        AccountStore { file, unwritten: Mutex::default() }
    }

    /// The text of the account, if there is one. First writes one that could not be written before.
    pub(super) fn account(&self) -> Result<Option<String>, AcmeError> {
        let unwritten = lock(&self.unwritten).clone();
        let Some(file) = &self.file else { return Ok(unwritten) };
        unwritten.map(|text| self.set_account(&text)).transpose()?;
        read(&file.path).map_err(in_file(&file.path))
    }

    /// Fails where a new account could not be written, as on a full disk.
    pub(super) fn check_room(&self) -> Result<(), AcmeError> {
        let Some(file) = &self.file else { return Ok(()) };
        check_room(&file.path, ACCOUNT_LEN).map_err(in_file(&file.path))
    }

    pub(super) fn set_account(&self, text: &str) -> Result<(), AcmeError> {
        *lock(&self.unwritten) = Some(text.to_owned());
        let Some(file) = &self.file else { return Ok(()) };
        replace(&file.path, text).map_err(in_file(&file.path))?;
        *lock(&self.unwritten) = None;
        Ok(())
    }

    /// Removes an account that the authority does not know any more, unless there is another one by now.
    pub(super) async fn forget_account(&self, text: &str) -> Result<(), AcmeError> {
        let _locked = self.lock().await?;
        if self.account()?.as_deref() != Some(text) {
            return Ok(());
        }
        *lock(&self.unwritten) = None;
        if let Some(file) = &self.file {
            // One that stays is refused again, which is reported.
            let _ = fs::remove_file(&file.path);
        }
        Ok(())
    }

    /// Waits until no other certificate of the folder makes an account, in this process or in another one. The lock holds
    /// until the file is dropped. Without a folder there is none.
    ///
    /// # Errors
    ///
    /// Fails if the lock is not free within [`LOCKED_MAX`].
    pub(super) async fn lock(&self) -> Result<Option<File>, AcmeError> {
        let Some(file) = &self.file else { return Ok(None) };
        let end = now() + LOCKED_MAX;
        loop {
            let locked = try_lock(&file.lock)?;
            if locked.is_some() {
                return Ok(locked);
            }
            if now() >= end {
                return Err(in_file(&file.lock)(io::ErrorKind::WouldBlock.into()));
            }
            sleep(LOCKED_PAUSE).await;
        }
    }
}

/// More bytes than the text of an account has.
const ACCOUNT_LEN: usize = 4 << 10;

/// How long another certificate may hold the lock.
const LOCKED_MAX: Duration = Duration::from_secs(60);

/// The time until a lock is tried again.
const LOCKED_PAUSE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::LETS_ENCRYPT;
    use super::super::folder::Folder;
    use super::*;
    use crate::runtime::block_on;

    fn store(folder: Option<&Path>) -> AccountStore {
        let settings = Settings::new(LETS_ENCRYPT, ["a.example"]).unwrap();
        let settings = Settings { folder: folder.map(Into::into), ..settings };
        Folder::open(&settings).unwrap();
        AccountStore::new(&settings)
    }

    #[test]
    fn an_account_is_kept_until_the_authority_refuses_it() {
        let at = tempfile::tempdir().unwrap();
        for folder in [None, Some(at.path())] {
            let one = store(folder);
            assert!(one.account().unwrap().is_none());
            for text in ["a longer text", "text"] {
                one.set_account(text).unwrap();
                assert_eq!(one.account().unwrap().as_deref(), Some(text));
            }
            assert_eq!(store(folder).account().unwrap().is_some(), folder.is_some());
            block_on(one.forget_account("a longer text")).unwrap().unwrap();
            assert!(one.account().unwrap().is_some(), "another one was made meanwhile");
            block_on(one.forget_account("text")).unwrap().unwrap();
            assert!(one.account().unwrap().is_none());
        }
    }

    #[test]
    fn one_certificate_at_a_time_makes_an_account() {
        let at = tempfile::tempdir().unwrap();
        let (one, other) = (store(Some(at.path())), store(Some(at.path())));
        let locked = block_on(one.lock()).unwrap().unwrap();
        let file = other.file.as_ref().unwrap();
        assert!(locked.is_some() && try_lock(&file.lock).unwrap().is_none());
        drop(locked);
        assert!(block_on(other.lock()).unwrap().unwrap().is_some());
        assert!(block_on(store(None).lock()).unwrap().unwrap().is_none());
    }

    /// As on a full disk: nothing of a failed try stays but the account, which is made once.
    #[test]
    fn an_account_that_could_not_be_written_is_kept_and_written_later() {
        let at = tempfile::tempdir().unwrap();
        let one = store(Some(at.path()));
        let path = one.file.as_ref().unwrap().path.clone();
        fs::create_dir(&path).unwrap();
        one.set_account("text").unwrap_err();
        one.account().unwrap_err();
        assert_eq!(fs::read_dir(at.path()).unwrap().count(), 1, "the folder in the way");
        fs::remove_dir(&path).unwrap();
        assert_eq!(one.account().unwrap().as_deref(), Some("text"));
        assert_eq!(store(Some(at.path())).account().unwrap().as_deref(), Some("text"));
    }

    #[test]
    fn a_folder_without_room_is_known_before_an_account_is_made() {
        let at = tempfile::tempdir().unwrap();
        let one = store(Some(&at.path().join("a")));
        one.check_room().unwrap();
        assert_eq!(fs::read_dir(at.path().join("a")).unwrap().count(), 0);
        fs::remove_dir(at.path().join("a")).unwrap();
        one.check_room().unwrap_err();
    }
}
