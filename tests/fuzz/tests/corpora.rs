//! Plays the corpora without libFuzzer, and a number of inputs that are made of them.
//!
//! They are the same in each run. `COREHTTP_SEED` is the first of the seeds, and `COREHTTP_MUTATIONS` says how many are
//! played of each target.

use std::env;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use corehttp_fuzz::{TARGETS, Target, draw};

#[test]
fn client() {
    play("client");
}

#[test]
fn content() {
    play("content");
}

#[test]
fn decoding() {
    play("decoding");
}

#[test]
fn fields() {
    play("fields");
}

#[test]
fn files() {
    play("files");
}

#[test]
fn gateway() {
    play("gateway");
}

#[test]
fn handover() {
    play("handover");
}

#[test]
fn proxies() {
    play("proxies");
}

#[test]
fn reports() {
    play("reports");
}

#[test]
fn server() {
    play("server");
}

#[test]
fn uploads() {
    play("uploads");
}

#[test]
fn websocket() {
    play("websocket");
}

fn play(name: &str) {
    let target = TARGETS.iter().find(|target| target.0 == name).unwrap().1;
    let corpus = corpus(name);
    assert!(corpus.len() >= 10, "{} inputs of {name}", corpus.len());
    corpus.iter().for_each(|input| check(target, input));
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let first = number("COREHTTP_SEED").unwrap_or(1);
    for seed in first..first + number("COREHTTP_MUTATIONS").unwrap_or(MUTATIONS) {
        let mut state = seed;
        let mut input = corpus[draw(&mut state) % corpus.len()].clone();
        for _ in 0..1 + draw(&mut state) % 4 {
            mutate(&mut input, &corpus, &mut state);
        }
        check(target, &input);
    }
}

const MUTATIONS: u64 = 3_000;

/// The inputs, in an order that does not depend on the system.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = format!("{}/corpora/{name}", env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Says which input it was, if it fails.
fn check(target: Target, input: &[u8]) {
    if let Err(fault) = catch_unwind(AssertUnwindSafe(|| target(input))) {
        eprintln!("the input was b\"{}\"", input.escape_ascii());
        resume_unwind(fault);
    }
}

/// Changes something somewhere.
fn mutate(input: &mut Vec<u8>, corpus: &[Vec<u8>], state: &mut u64) {
    let at = draw(state) % (input.len() + 1);
    let end = (at + draw(state) % 9).min(input.len());
    let word = WORDS[draw(state) % WORDS.len()].as_bytes();
    match draw(state) % 8 {
        0 => input[at..end].iter_mut().take(1).for_each(|octet| *octet ^= 1 << (draw(state) % 8)),
        1 => drop(input.splice(at..at, word.iter().copied())),
        2 => drop(input.splice(at..end, word.iter().copied())),
        3 => drop(input.drain(at..end)),
        4 => drop(input.splice(at..at, input[at..end].repeat(1 + draw(state) % 30))),
        5 => input.truncate(at),
        6 => drop(input.splice(at..end, [draw(state) as u8])),
        _ => {
            let other = &corpus[draw(state) % corpus.len()];
            let from = draw(state) % (other.len() + 1);
            input.truncate(at);
            input.extend(&other[from..]);
        }
    }
}

/// Words that readers often understand in different ways.
const WORDS: &[&str] = &[
    "\r\n",
    "\n",
    "\r",
    "\0",
    " ",
    "\t",
    ":",
    ";",
    ",",
    "\"",
    "\\",
    "%",
    "%2e",
    "/",
    "..",
    "#",
    "?",
    "0",
    "-1",
    "+",
    "0x",
    "\x7f",
    "\u{e9}",
    "\r\n\r\n",
    "\r\n ",
    "chunked",
    "content-length: 3\r\n",
    "transfer-encoding: chunked\r\n",
    "HTTP/1.1",
    "HTTP/1.0",
    "ffffffffffffffff",
    "18446744073709551616",
    "connection: close\r\n",
    "0\r\n\r\n",
    "expect: 100-continue\r\n",
    "HEAD ",
    "range: bytes=0-\r\n",
    "--b\r\n",
    "data: ",
    "=",
    "&",
    "\x01",
    ";q=0",
    "*",
    "10.0.0.1, ",
    "for=10.0.0.1;",
];
