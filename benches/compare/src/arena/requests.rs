//! [`steps`]: the requests of each row, as they go on the wire.

use super::dataset::{CATEGORIES, Chance};
use super::kind::Kind;
use super::static_files::STATIC_FILES;
use crate::load::{Shape, Step};

pub(super) fn steps(kind: Kind, depth: usize) -> Vec<Step> {
    match kind {
        Kind::Baseline => one_each(baseline()),
        Kind::Pipeline => vec![step(get("/pipeline", "").repeat(depth), depth)],
        Kind::Json | Kind::SecureJson => one_each(json(&PAIRS, "")),
        Kind::CompressedJson => one_each(json(&PAIRS[4..], CODINGS)),
        Kind::Upload => UPLOADS.map(|(len, weight)| Step { weight, ..step(upload(len), 1) }).into(),
        Kind::Static => one_each(STATIC_FILES.iter().map(|file| static_file(file.name)).collect()),
        Kind::Query => one_each(LIMITS.map(query).into()),
        Kind::Crud => one_each(crud()),
        Kind::Api => one_each(api()),
        Kind::WebSocket => {
            let shape = Shape::Octets((MESSAGE.len() + 2) * depth);
            vec![Step { request: frame(0x81, MESSAGE).repeat(depth), shape, weight: depth as u64 }]
        }
    }
}

fn one_each(requests: Vec<Vec<u8>>) -> Vec<Step> {
    requests.into_iter().map(|request| step(request, 1)).collect()
}

fn step(request: Vec<u8>, count: usize) -> Step {
    Step { request, shape: Shape::Any(count), weight: count as u64 }
}

/// Counts of items, and multipliers.
pub(super) const PAIRS: [(usize, i64); 7] = [(1, 3), (5, 7), (10, 2), (15, 5), (25, 4), (40, 8), (50, 6)];
pub(super) const LIMITS: [usize; 5] = [5, 10, 20, 35, 50];
/// The field of a peer that takes compressed content.
pub(super) const CODINGS: &str = "Accept-Encoding: gzip, br\r\n";
/// The same, of one who asks for files.
pub(super) const FILE_CODINGS: &str = "Accept-Encoding: br;q=1, gzip;q=0.8\r\n";

/// Bytes, and half megabytes.
const UPLOADS: [(usize, u64); 4] = [(500_000, 1), (2_000_000, 4), (10_000_000, 20), (20_000_000, 40)];

pub(super) const MESSAGE: &[u8] = b"Hello, arena of websockets!";

pub(super) fn get(path: &str, fields: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost:8080\r\n{fields}\r\n").into_bytes()
}

pub(super) fn with_body(method: &str, path: &str, content_type: &str, body: &[u8]) -> Vec<u8> {
    let len = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost:8080\r\nContent-Type: {content_type}\r\nContent-Length: {len}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

pub(super) fn chunked(path: &str, body: &str) -> Vec<u8> {
    let len = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost:8080\r\nTransfer-Encoding: chunked\r\n\r\n{len:x}\r\n{body}\r\n0\r\n\r\n"
    )
    .into_bytes()
}

pub(super) fn upload(len: usize) -> Vec<u8> {
    let body: Vec<u8> = (0..=255).cycle().take(len).collect();
    with_body("POST", "/upload", "application/octet-stream", &body)
}

pub(super) fn static_file(name: &str) -> Vec<u8> {
    get(&format!("/static/{name}"), FILE_CODINGS)
}

/// As many with a body as without, half of the bodies chunked.
fn baseline() -> Vec<Vec<u8>> {
    let sum = || get("/baseline11?a=13&b=42", "");
    let with_length = with_body("POST", "/baseline11?a=13&b=42", "text/plain", b"20");
    vec![sum(), with_length, sum(), chunked("/baseline11?a=13&b=42", "20")]
}

fn json(pairs: &[(usize, i64)], fields: &str) -> Vec<Vec<u8>> {
    pairs.iter().map(|(count, multiplier)| get(&format!("/json/{count}?m={multiplier}"), fields)).collect()
}

fn query(limit: usize) -> Vec<u8> {
    get(&format!("/async-db?min=10&max=50&limit={limit}"), "")
}

/// Three sums, three times JSON, two queries: each as often as its neighbors.
fn api() -> Vec<Vec<u8>> {
    let (sums, queries) = (baseline(), LIMITS.map(query));
    let pages = json(&PAIRS, "");
    let turn = |turn: usize| {
        let sum = |at: usize| sums[(turn + at) % sums.len()].clone();
        let page = |at: usize| pages[(turn + at) % pages.len()].clone();
        let query = |at: usize| queries[(turn + at) % queries.len()].clone();
        [sum(0), page(0), query(0), sum(1), page(1), query(1), sum(2), page(2)]
    };
    (0..35).flat_map(turn).collect()
}

/// Reads of random items, updates, lists and additions: 75, 15, 5 and 5 of a hundred.
fn crud() -> Vec<Vec<u8>> {
    let mut chance = Chance::new();
    let request = |index: u32| {
        let id = 1 + chance.below(READ_MAX);
        match chance.below(100) {
            0..75 => get(&format!("/crud/items/{id}"), ""),
            75..90 => with_body("PUT", &format!("/crud/items/{id}"), JSON, UPDATE.as_bytes()),
            90..95 => {
                let (category, page) = (chance.one_of(CATEGORIES), 1 + chance.below(10));
                get(&format!("/crud/items?category={category}&page={page}&limit=10"), "")
            }
            _ => with_body("POST", "/crud/items", JSON, draft(ADDED + index).as_bytes()),
        }
    };
    (0..CRUD_STEPS).map(request).collect()
}

pub(super) const JSON: &str = "application/json";
const CRUD_STEPS: u32 = 20_000;
const READ_MAX: u32 = 50_000;
/// The first id that is added.
const ADDED: u32 = 100_001;
pub(super) const UPDATE: &str = r#"{"name":"Updated Product","category":"test","price":200,"quantity":25}"#;

pub(super) fn draft(id: u32) -> String {
    format!(r#"{{"id":{id},"name":"New Product","category":"test","price":150,"quantity":30}}"#)
}

/// A frame of a client, whose payload is masked (RFC 6455 §5.2).
pub(super) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    assert!(payload.len() < 126, "a short frame");
    let masked = payload.iter().zip(MASK.iter().cycle()).map(|(octet, mask)| octet ^ mask);
    [first, 0x80 | payload.len() as u8].into_iter().chain(MASK).chain(masked).collect()
}

const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
