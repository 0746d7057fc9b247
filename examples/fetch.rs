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
    let fetched = match &*arguments {
        [method, url] => fetch(method, url, None, is_verbose),
        [method, url, body] => fetch(method, url, Some(body), is_verbose),
        _ => Err("usage: fetch [-v] METHOD URL [BODY]".into()),
    };
    match fetched {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn fetch(method: &str, url: &str, body: Option<&str>, is_verbose: bool) -> Result<(), Box<dyn Error>> {
    let mut request = Request::new(method, url).map_err(ClientError::from)?;
    if let Some(body) = body {
        request.body.set_bytes(body);
    }
    corehttp::block_on(async {
        let (client, mut response) = (Client::new(), Response::new());
        let mut reader = client.open_response(&request, &mut response).await?;
        let mut out = io::stdout().lock();
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
        if is_verbose {
            print_timings(response.timings(), start.elapsed(), size);
        }
        Ok(())
    })?
}

fn print_timings(timings: Timings, receive: Duration, size: usize) {
    let Timings { resolve, connect, tls, send, wait, .. } = timings;
    for (phase, time) in [
        ("resolve", resolve),
        ("connect", connect),
        ("tls", tls),
        ("send", send),
        ("wait", wait),
        ("receive", receive),
    ] {
        eprintln!("* {phase:8} {time:>10.1?}");
    }
    eprintln!("* {size} bytes of content");
}
