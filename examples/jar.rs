//! A client that remembers: `cargo run --release --features jar --example jar -- FILE URL [FORM]`.
//!
//! Asks for URL, or posts FORM to it, such as `name=Ada&remember=on`, with the cookies in FILE. Prints the response,
//! and keeps the cookies that it sets in FILE. Session cookies are forgotten, as when a browser is closed.

use std::env;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, ErrorKind};
use std::sync::Arc;

use corehttp::jar::Jar;
use corehttp::{Client, Form, Request, Response};

fn main() -> corehttp::Result {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (file, request) = match &*arguments {
        [file, url] => (file, Request::get(url)?),
        [file, url, form] => {
            let mut request = Request::post(url)?;
            request.set_form(&Form::new(form).iter().collect());
            (file, request)
        }
        _ => return Err(io::Error::other("usage: jar FILE URL [FORM]").into()),
    };
    let jar = Arc::new(Jar::new());
    match File::open(file) {
        Ok(kept) => jar.load(BufReader::new(kept))?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    let client = Client::builder().cookie_store(jar.clone()).build();
    let mut response = Response::new();
    corehttp::block_on(client.send(&request, &mut response))??;
    println!("{}\n{}", response.status, response.text()?);
    save(&jar, file).map_err(corehttp::Error::from)
}

/// Cookies are secrets, so only their owner may read the file. A new file replaces the old one, or a full disk would
/// lose all cookies.
fn save(jar: &Jar, file: &str) -> io::Result<()> {
    let draft = format!("{file}.new");
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let _ = fs::remove_file(&draft); // left behind by a crash
    jar.save(BufWriter::new(options.open(&draft)?))?;
    fs::rename(&draft, file)
}
