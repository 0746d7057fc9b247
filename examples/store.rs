//! Serves the files of an object store: `cargo run --release --example store -- URL [ADDR]`, with a `TOKEN` in the environment.
//!
//! Each file has a URL below URL, such as that of a bucket behind S3's API, and is read by ranges, so nothing is kept here. Each
//! request to the store has the token. A store that changes a file meanwhile, or sends another range than was asked for, gives
//! an error and never a file of two parts.

use std::ops::Range;
use std::time::Duration;
use std::{env, io};

use corehttp::client::Attempt;
use corehttp::fs::{FileMetadata, FileSource, Files, SourceEntry};
use corehttp::server::ErrorLog;
use corehttp::{Body, Client, ClientBuilder, Request, Response, Server, Status, Target, shutdown_signal};

fn main() -> corehttp::Result {
    let mut args = env::args().skip(1);
    let url = args.next().ok_or_else(|| io::Error::other("usage: store URL [ADDR]"))?;
    let address = args.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    let token = env::var("TOKEN").map_err(io::Error::other)?;
    let files = Files::from_source(Store::new(Client::builder(), &url, token));
    let server =
        Server::bind(address).stop_on(shutdown_signal(), Duration::from_secs(10)).observe(ErrorLog::stderr());
    let running = server.start(files)?;
    println!("listening on {running}");
    running.wait()
}

/// The files below a URL of another server.
struct Store {
    client: Client,
    url: String,
}

impl Store {
    fn new(builder: ClientBuilder, url: &str, token: String) -> Store {
        let authorize = move |attempt: &mut Attempt<'_>| match attempt.is_cross_origin() {
            true => Ok(()), // a redirect must not take the token elsewhere
            false => Ok(attempt.request.set_bearer_auth(&token)?),
        };
        Store { client: builder.wrap(authorize).build(), url: url.trim_end_matches('/').to_owned() }
    }

    fn request(&self, method: &str, path: &str) -> io::Result<Request> {
        let segments: Result<Vec<_>, _> = path.split('/').map(Target::escape_segment).collect();
        let url = format!("{}/{}", self.url, segments.map_err(io::Error::other)?.join("/"));
        Request::new(method, &url).map_err(io::Error::other)
    }
}

impl FileSource for Store {
    async fn find(&self, path: &str) -> io::Result<Option<SourceEntry>> {
        let (request, mut response) = (self.request("HEAD", path)?, Response::new());
        self.client.send(&request, &mut response).await.map_err(io::Error::other)?;
        match response.status {
            Status::OK => metadata(&response).map(|metadata| Some(SourceEntry::File(metadata))),
            Status::NOT_FOUND => Ok(None),
            status => Err(io::Error::other(status)),
        }
    }

    async fn read(&self, path: &str, found: &FileMetadata, range: Range<u64>) -> io::Result<Body> {
        let mut request = self.request("GET", path)?;
        let mut response = Response::new();
        let set_fields = |request: &mut Request| {
            request.headers.set("range", format!("bytes={}-{}", range.start, range.end - 1))?;
            // The file that was found, or none (RFC 9110 §13.1.1).
            if let Some(etag) = &found.etag {
                request.headers.set("if-match", etag)?;
            }
            Ok::<_, corehttp::error::MessageError>(())
        };
        set_fields(&mut request).map_err(io::Error::other)?;
        let opened = self.client.open_response(&request, &mut response).await;
        let reader = opened.map_err(io::Error::other)?;
        match response.status {
            Status::PARTIAL_CONTENT => {}
            Status::NOT_FOUND => return Err(io::ErrorKind::NotFound.into()),
            status => return Err(io::Error::other(status)),
        }
        let asked = format!("bytes {}-{}/{}", range.start, range.end - 1, found.len);
        if response.headers.get("content-range") != Some(&asked) || etag(&response) != found.etag {
            return Err(io::Error::other("the store has sent another part, or another file"));
        }
        let mut body = Body::new();
        // Other code fails a body whose length is not that of the range, or whose stream is cut.
        body.set_stream(reader, response.headers.content_length());
        Ok(body)
    }
}

/// The metadata of a file, from the head of a response.
fn metadata(response: &Response) -> io::Result<FileMetadata> {
    let headers = &response.headers;
    Ok(FileMetadata {
        len: headers
            .content_length()
            .ok_or_else(|| io::Error::other("the store does not say how long a file is"))?,
        modified: headers.date("last-modified"),
        etag: etag(response),
        content_type: headers.content_type().map(str::to_owned),
    })
}

fn etag(response: &Response) -> Option<String> {
    response.headers.get("etag").map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use corehttp::testing::{Script, ScriptedPeer, TestServer};
    use corehttp::{Context, block_on};

    use super::*;

    const FILE: &str = "0123456789";

    /// A browser's view of a file: the status and the content, or the error.
    fn fetched(builder: ClientBuilder, url: &str, range: &str) -> String {
        let source = Store::new(builder, "https://store.example/bucket/", "s3cret".into());
        let server = TestServer::start(Files::from_source(source)).unwrap();
        let client = server.client();
        let fetched = block_on(async {
            let request = client.get(url);
            match range {
                "" => request.await,
                range => request.header("range", range).await,
            }
        });
        match fetched.unwrap() {
            Ok(response) => {
                format!("{} {}", response.status.as_u16(), String::from_utf8_lossy(response.bytes()))
            }
            Err(_) => "cut".to_owned(),
        }
    }

    #[test]
    fn a_file_is_read_by_ranges() {
        let store = TestServer::start(|ctx: &mut Context| {
            assert_eq!(ctx.request.bearer_auth(), Some("s3cret"));
            if ctx.request.path() != "/bucket/a%20b/c.txt" {
                ctx.response.status = Status::NOT_FOUND;
                return;
            }
            ctx.response.headers.set("etag", "\"v1\"").unwrap();
            match ctx.response.check_range(&ctx.request, FILE.len() as u64) {
                Some(range) => ctx.response.set_text(&FILE[range.start as usize..range.end as usize]),
                None => ctx.response.set_text(FILE),
            }
        })
        .unwrap();
        for (url, range, expected) in [
            ("http://site/a%20b/c.txt", "", "200 0123456789"),
            ("http://site/a%20b/c.txt", "bytes=2-4", "206 234"),
            ("http://site/a%20b/c.txt", "bytes=-2", "206 89"),
            ("http://site/a%20b/c.txt", "bytes=10-", "416 "),
            ("http://site/c.txt", "", "404 "),
        ] {
            let found = fetched(store.client_builder(), url, range);
            assert!(found.starts_with(expected), "{url} {range}: {found}");
        }
        let calls = store.calls();
        assert_eq!(calls[1].headers.get("range"), Some("bytes=0-9"));
        assert_eq!(calls[1].headers.get("if-match"), Some("\"v1\""));
    }

    /// A browser gets the range, or sees that it has not, however the store lies.
    #[test]
    fn a_store_that_lies_about_ranges_gives_no_part() {
        let head = "HTTP/1.1 200 OK\r\netag: \"v1\"\r\ncontent-length: 10\r\n\r\n";
        for (answer, expected) in [
            (
                "206 x\r\netag: \"v1\"\r\ncontent-range: bytes 2-4/10\r\ncontent-length: 3\r\n\r\n234",
                "206 234",
            ),
            ("206 x\r\netag: \"v1\"\r\ncontent-range: bytes 3-5/10\r\ncontent-length: 3\r\n\r\n345", "500"),
            ("206 x\r\netag: \"v1\"\r\ncontent-range: bytes 2-4/11\r\ncontent-length: 3\r\n\r\n234", "500"),
            ("206 x\r\netag: \"v2\"\r\ncontent-range: bytes 2-4/10\r\ncontent-length: 3\r\n\r\n234", "500"),
            ("206 x\r\ncontent-range: bytes 2-4/10\r\ncontent-length: 3\r\n\r\n234", "500"),
            ("206 x\r\netag: \"v1\"\r\ncontent-length: 3\r\n\r\n234", "500"),
            ("206 x\r\netag: \"v1\"\r\ncontent-range: bytes 2-4/10\r\ncontent-length: 5\r\n\r\n23456", "500"),
            ("206 x\r\netag: \"v1\"\r\ncontent-range: bytes 2-4/10\r\ncontent-length: 3\r\n\r\n23", "cut"),
            ("206 x\r\netag: \"v1\"\r\ncontent-range: bytes 2-4/10\r\n\r\n23456", "cut"),
            ("200 x\r\netag: \"v1\"\r\ncontent-length: 10\r\n\r\n0123456789", "500"),
            ("412 x\r\ncontent-length: 0\r\n\r\n", "500"),
            ("416 x\r\ncontent-range: bytes */10\r\ncontent-length: 0\r\n\r\n", "500"),
            ("404 x\r\ncontent-length: 0\r\n\r\n", "404"),
            ("", "500"),
        ] {
            let answer = if answer.is_empty() { String::new() } else { format!("HTTP/1.1 {answer}") };
            let peer = ScriptedPeer::new([Script::new().receive().send(head).receive().send(answer.clone())]);
            let found = fetched(peer.client_builder(), "http://site/a", "bytes=2-4");
            assert!(found.starts_with(expected), "{answer}: {found}");
        }
    }

    #[test]
    fn a_store_without_lengths_or_with_another_status_is_an_error() {
        for (head, expected) in [
            ("200 x\r\ntransfer-encoding: chunked\r\n\r\n", "500"),
            ("403 x\r\ncontent-length: 0\r\n\r\n", "500"),
            ("404 x\r\ncontent-length: 0\r\n\r\n", "404"),
            ("200 x\r\ncontent-length: 1\r\netag: v1\r\n\r\n", "500"),
        ] {
            let peer = ScriptedPeer::new([Script::new().receive().send(format!("HTTP/1.1 {head}"))]);
            let found = fetched(peer.client_builder(), "http://site/a", "");
            assert!(found.starts_with(expected), "{head}: {found}");
        }
    }
}
