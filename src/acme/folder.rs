//! [`Folder`]: where a certificate is kept, for the next start and for other servers.

use std::collections::hash_map::RandomState;
use std::fs::{self, File, TryLockError};
use std::hash::BuildHasher;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::error::AcmeError;
use super::settings::Settings;
use crate::descriptors::with_descriptors;
use crate::memory::stable_hash;

/// The files of one certificate.
#[derive(Debug)]
pub(super) struct Folder {
    /// The chain and its key, in one file, so that they always belong together.
    certificate: PathBuf,
    lock: PathBuf,
}

impl Folder {
    /// The files of a certificate with these settings, in their folder, which is made if it is not there. `None` without a folder.
    ///
    /// The files of another authority, or with other names, are others.
    pub(super) fn open(settings: &Settings) -> Result<Option<Folder>, AcmeError> {
        let Some(folder) = &settings.folder else { return Ok(None) };
        make_private(folder).map_err(in_file(folder))?;
        let mut names: Vec<&[u8]> = settings.names.iter().flat_map(|name| [name.as_bytes(), b" "]).collect();
        names.push(settings.directory.as_bytes());
        let first = &settings.names[0];
        let first = &first[..first.len().min(NAME_IN_FILE_MAX)];
        let certificate = format!("{first}-{:016x}", stable_hash(&names));
        Ok(Some(Folder {
            certificate: folder.join(format!("{certificate}.pem")),
            lock: folder.join(format!("{certificate}.lock")),
        }))
    }

    /// When the certificate was last written, if there is one.
    pub(super) fn certificate_time(&self) -> Option<SystemTime> {
        fs::metadata(&self.certificate).and_then(|metadata| metadata.modified()).ok()
    }

    /// The chain and its key, if there are any.
    pub(super) fn certificate(&self) -> Result<Option<String>, AcmeError> {
        read(&self.certificate).map_err(in_file(&self.certificate))
    }

    pub(super) fn set_certificate(&self, chain_and_key: &str) -> Result<(), AcmeError> {
        replace(&self.certificate, chain_and_key).map_err(in_file(&self.certificate))
    }

    /// Locks the certificate for the server that renews it, until the file is dropped. `None` while another one does.
    pub(super) fn try_lock(&self) -> Result<Option<File>, AcmeError> {
        try_lock(&self.lock)
    }
}

/// How much of a name of up to 253 octets is in the name of a file, whose longest is that of [`new_beside`]. Most file systems
/// admit 255 octets.
const NAME_IN_FILE_MAX: usize = 255 - "-0123456789abcdef.new-0123456789abcdef".len();

pub(super) fn in_file(path: &Path) -> impl Fn(io::Error) -> AcmeError {
    move |error| AcmeError::Io(path.into(), error)
}

pub(super) fn read(path: &Path) -> io::Result<Option<String>> {
    match with_descriptors(|| fs::read_to_string(path)) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Locks a file, which is made if it is not there, until it is dropped. `None` while another one has the lock.
pub(super) fn try_lock(path: &Path) -> Result<Option<File>, AcmeError> {
    let file = open_private(path).map_err(in_file(path))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(in_file(path)(error)),
    }
}

/// Fails where a new file of so many bytes could not take the place of the one at `path`, as on a full disk.
pub(super) fn check_room(path: &Path, len: usize) -> io::Result<()> {
    let probe = new_beside(path);
    let written = write_new(&probe, &" ".repeat(len));
    written.and_then(|()| fs::remove_file(&probe))
}

/// Writes a new file, and gives it the place of the one at `path`, so that nobody reads half of one.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = new_beside(path);
    let written = write_new(&new, text);
    written.and_then(|()| fs::rename(&new, path)).inspect_err(|_| drop(fs::remove_file(&new)))
}

/// The path of a new file beside that at `path`.
fn new_beside(path: &Path) -> PathBuf {
    // Another process may write at the same time; one in a container has the same number.
    path.with_extension(format!("new-{:016x}", RandomState::new().hash_one(0)))
}

/// Writes a file that is on the disk when this returns. Nothing stays of one that could not be written.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = open_private(path)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    written.inspect_err(|_| drop(fs::remove_file(path)))
}

/// Makes a folder that only its user may look into.
fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Opens a file that only its user may read, and makes it if it is not there.
fn open_private(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    with_descriptors(|| options.open(path))
}

#[cfg(test)]
mod tests {
    use super::super::LETS_ENCRYPT;
    use super::*;

    fn folder(at: &Path, names: &[&str]) -> Folder {
        let settings = Settings { folder: Some(at.into()), ..Settings::new(LETS_ENCRYPT, names).unwrap() };
        Folder::open(&settings).unwrap().unwrap()
    }

    #[test]
    fn files_are_private_and_replaced_as_a_whole() {
        let at = tempfile::tempdir().unwrap();
        let at = at.path().join("a/b");
        let one = folder(&at, &["a.example"]);
        assert!(one.certificate().unwrap().is_none());
        for text in ["a longer text", "text"] {
            one.set_certificate(text).unwrap();
            assert_eq!(one.certificate().unwrap().as_deref(), Some(text));
        }
        let files: Vec<_> = fs::read_dir(&at).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(files.len(), 1, "{files:?}");
        #[cfg(unix)]
        for path in files.iter().chain([&at]) {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(path).unwrap().permissions().mode() & 0o077;
            assert_eq!(mode, 0, "{path:?}");
        }
        let other = folder(&at, &["a.example", "b.example"]);
        assert!(other.certificate().unwrap().is_none());
    }

    #[test]
    fn the_longest_names_have_files_of_their_own_rfc1035_2_3_4() {
        let at = tempfile::tempdir().unwrap();
        let long = |len: usize| format!("{}a.example", "a.".repeat(200))[..len - 7].to_owned() + "example";
        let names: Vec<String> = [9, 217, 218, 230, 253].map(long).into();
        for name in &names {
            let one = folder(at.path(), &[name]);
            one.set_certificate(name).unwrap();
            assert!(one.try_lock().unwrap().is_some());
            let file = one.certificate.file_name().unwrap().to_str().unwrap().to_owned();
            assert_eq!(file.starts_with(&format!("{name}-")), name.len() <= 217, "{file}");
        }
        for name in &names {
            assert_eq!(folder(at.path(), &[name]).certificate().unwrap().as_ref(), Some(name));
        }
    }

    #[test]
    fn one_server_renews() {
        let at = tempfile::tempdir().unwrap();
        let (one, other) = (folder(at.path(), &["a.example"]), folder(at.path(), &["a.example"]));
        let locked = one.try_lock().unwrap().expect("it is free");
        assert!(other.try_lock().unwrap().is_none());
        drop(locked);
        assert!(other.try_lock().unwrap().is_some());
    }
}
