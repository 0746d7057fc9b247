//! A small curl: `cargo run --release --example fetch -- [-v] METHOD URL [BODY]`.
//!
//! Prints the status, the fields and the body; with `-v` also how long each phase took.

use std::env;
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use corehttp::message::Timings;
use corehttp::{Client, ClientError, Request, Response};

fn main() -> ExitCode {
    let mut arguments: Vec<String> = env::args().skip(1).collect();
    let is_verbose = arguments.first().is_some_and(|first| first == "-v");
    arguments.drain(..usize::from(is_verbose));
    let fetched = request(&arguments)
        .and_then(|request| corehttp::block_on(fetch(&Client::new(), &request, &mut io::stdout().lock()))?);
    match fetched {
        Ok(fetched) if is_verbose => {
            print_timings(&fetched);
            ExitCode::SUCCESS
        }
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn request(arguments: &[String]) -> Result<Request, Box<dyn Error>> {
    let (method, url, body) = match arguments {
        [method, url] => (method, url, ""),
        [method, url, body] => (method, url, &**body),
        _ => return Err("usage: fetch [-v] METHOD URL [BODY]".into()),
    };
    let mut request = Request::new(&**method, url).map_err(ClientError::from)?;
    request.body.set_bytes(body);
    Ok(request)
}

/// How a response came.
struct Fetched {
    timings: Timings,
    receive: Duration,
    size: usize,
}

/// Writes the response to `request`.
async fn fetch(client: &Client, request: &Request, out: &mut impl Write) -> Result<Fetched, Box<dyn Error>> {
    let mut response = Response::new();
    let mut reader = client.open_response(request, &mut response).await?;
    writeln!(out, "{}", response.status)?;
    for (name, value) in &response.headers {
        writeln!(out, "{name}: {}", String::from_utf8_lossy(value))?;
    }
    writeln!(out)?;
    let (mut size, start) = (0, Instant::now());
    while let Some(chunk) = reader.chunk().await? {
        out.write_all(chunk)?;
        size += chunk.len();
    }
    out.flush()?;
    Ok(Fetched { timings: response.timings(), receive: start.elapsed(), size })
}

fn print_timings(Fetched { timings, receive, size }: &Fetched) {
    let Timings { resolve, connect, tls, send, wait, .. } = *timings;
    for (phase, time) in [
        ("resolve", resolve),
        ("connect", connect),
        ("tls", tls),
        ("send", send),
        ("wait", wait),
        ("receive", *receive),
    ] {
        eprintln!("* {phase:8} {time:>10.1?}");
    }
    eprintln!("* {size} bytes of content");
}

#[cfg(test)]
mod tests {
    use corehttp::testing::Recording;

    use super::*;

    /// The recorded server was the example `json`.
    #[test]
    fn a_response_is_written_as_it_came() {
        let recording = Recording::play(concat!(env!("CARGO_MANIFEST_DIR"), "/fetch.http")).unwrap();
        let client = recording.client();
        for (arguments, start, end) in [
            (&["GET", NOTES][..], "200 OK\n", "\n\n[]"),
            (&["HEAD", NOTES], "200 OK\n", "content-length: 2\n\n"),
            (&["POST", NOTES, "milk"], "415 Unsupported Media Type\n", "\"status\":415}"),
        ] {
            let arguments: Vec<String> = arguments.iter().map(|argument| argument.to_string()).collect();
            let (request, mut out) = (request(&arguments).unwrap(), Vec::new());
            corehttp::block_on(async { fetch(&client, &request, &mut out).await.map(drop) })
                .unwrap()
                .unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.starts_with(start) && text.ends_with(end), "{arguments:?}: {text}");
        }
        assert!(recording.unplayed().is_empty());
    }

    const NOTES: &str = "http://127.0.0.1:8080/notes";
}
