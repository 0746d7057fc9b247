//! [`Data`]: what the entries are given: a folder with the data set, files and a certificate, and a database.

use std::fs;
use std::io;
use std::path::PathBuf;

use tempfile::TempDir;

use super::database::Database;
use super::dataset::Dataset;
use super::static_files::STATIC_FILES;
use crate::load::Secure;

pub(crate) struct Data {
    pub(super) folder: TempDir,
    pub(super) dataset: Dataset,
    /// A client that trusts the certificate.
    pub(super) client: Secure,
    /// Or why there is none.
    pub(crate) database: Result<Database, String>,
}

impl Data {
    /// Makes all of it. The database takes some seconds, and is not asked for where nothing needs it.
    pub(crate) fn make(needs_database: bool) -> io::Result<Data> {
        let (folder, dataset) = (tempfile::tempdir()?, Dataset::new());
        let [data, certs] = ["data", "certs"].map(|name| folder.path().join(name));
        fs::create_dir_all(data.join("static"))?;
        fs::write(data.join("dataset.json"), serde_json::to_string_pretty(&dataset.0)?)?;
        for file in STATIC_FILES {
            file.write(&data.join("static"))?;
        }
        fs::create_dir(&certs)?;
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).map_err(io::Error::other)?;
        fs::write(certs.join("server.crt"), made.cert.pem())?;
        fs::write(certs.join("server.key"), made.signing_key.serialize_pem())?;
        let client = Secure::new(made.cert.der().clone())?;
        let unasked = || Err("no row needs it".to_owned());
        let database = if needs_database { Database::start() } else { unasked() };
        Ok(Data { folder, dataset, client, database })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}
