//! [`check`]: every rule of a row, which an entry must keep before it is measured.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use super::data::Data;
use super::entry::Addresses;
use super::exchange::{Peer, Response, connect, connect_securely};
use super::kind::Kind;
use super::requests::{
    CODINGS, JSON, LIMITS, MESSAGE, PAIRS, UPDATE, chunked, draft, frame, get, static_file, upload, with_body,
};
use super::static_files::STATIC_FILES;
use crate::load::upgrade;

/// # Errors
///
/// Says which rule is broken.
pub(super) fn check(kind: Kind, addresses: Addresses, data: &Data) -> io::Result<()> {
    let address = addresses.plain;
    match kind {
        Kind::Baseline => sums(address),
        Kind::Pipeline => pipeline(address),
        Kind::Json => json(&mut connect(address)?, data),
        Kind::CompressedJson => compressed_json(address, data),
        Kind::SecureJson => json(&mut connect_securely(addresses.secure, &data.client)?, data),
        Kind::Upload => uploads(address),
        Kind::Static => files(address, data),
        Kind::Query => queries(address),
        Kind::Crud => crud(address),
        Kind::Api => sums(address).and_then(|()| queries(address)),
        Kind::WebSocket => websocket(address),
    }
}

/// Fails with what was asked and what came, unless `holds`.
fn require(holds: bool, rule: &str, response: &Response) -> io::Result<()> {
    if holds {
        return Ok(());
    }
    let body = &response.body[..response.body.len().min(200)];
    Err(io::Error::other(format!("{rule}: {} with {}", response.status, body.escape_ascii())))
}

fn require_text(text: &str, rule: &str, response: &Response) -> io::Result<()> {
    require(response.status == 200 && response.body == text.as_bytes(), rule, response)?;
    let is_text = response.field("content-type").is_some_and(|it| it.starts_with("text/plain"));
    require(is_text, "the content type of text", response)
}

/// The value of a response that must be JSON.
fn value(response: &Response) -> io::Result<Value> {
    let is_json = response.field("content-type").is_some_and(|it| it.starts_with(JSON));
    require(is_json, "the content type of JSON", response)?;
    Ok(serde_json::from_slice(&response.content()?)?)
}

fn sums(address: SocketAddr) -> io::Result<()> {
    let mut peer = connect(address)?;
    for (a, b, body) in [(13, 42, 20), (1, 2, 3), (-5, 7, 100_000)] {
        let path = format!("/baseline11?a={a}&b={b}");
        require_text(&(a + b).to_string(), "the sum of a query", &peer.ask(&get(&path, ""))?)?;
        let (sum, body) = ((a + b + body).to_string(), body.to_string());
        let response = peer.ask(&with_body("POST", &path, "text/plain", body.as_bytes()))?;
        require_text(&sum, "the sum with a body", &response)?;
        require_text(&sum, "the sum with chunks", &peer.ask(&chunked(&path, &body))?)?;
    }
    let response = peer.ask(&get("/no-such-path", ""))?;
    require(response.status == 404, "404 for what is not there", &response)
}

fn pipeline(address: SocketAddr) -> io::Result<()> {
    let mut peer = connect(address)?;
    peer.send(&get("/pipeline", "").repeat(16))?;
    for _ in 0..16 {
        require_text("ok", "16 responses to 16 requests at once", &peer.receive()?)?;
    }
    Ok(())
}

fn json(peer: &mut Peer<impl Read + Write>, data: &Data) -> io::Result<()> {
    // A multiplier that no load asks for: nothing may be kept.
    for (count, multiplier) in PAIRS.into_iter().chain([(7, 11)]) {
        let response = peer.ask(&get(&format!("/json/{count}?m={multiplier}"), ""))?;
        require(response.field("content-encoding").is_none(), "no coding that was not asked for", &response)?;
        let is_right = value(&response)? == data.dataset.priced(count, multiplier);
        require(is_right, "items with their totals", &response)?;
    }
    Ok(())
}

fn compressed_json(address: SocketAddr, data: &Data) -> io::Result<()> {
    let mut peer = connect(address)?;
    for (count, multiplier) in PAIRS[4..].iter().copied().chain([(33, 9)]) {
        let response = peer.ask(&get(&format!("/json/{count}?m={multiplier}"), CODINGS))?;
        let coding = response.field("content-encoding");
        require(coding.is_some(), "compressed when that is asked for", &response)?;
        let is_right = value(&response)? == data.dataset.priced(count, multiplier);
        require(is_right, "the same items under a coding", &response)?;
    }
    json(&mut peer, data)
}

fn uploads(address: SocketAddr) -> io::Result<()> {
    let mut peer = connect(address)?;
    for len in [0, 1, 500_000, 20_000_000] {
        require_text(&len.to_string(), "how many bytes came", &peer.ask(&upload(len))?)?;
    }
    Ok(())
}

fn files(address: SocketAddr, data: &Data) -> io::Result<()> {
    let mut peer = connect(address)?;
    for file in STATIC_FILES {
        let (content, path) = (file.content(), format!("/static/{}", file.name));
        let response = peer.ask(&get(&path, ""))?;
        let is_right = response.status == 200 && response.field("content-encoding").is_none();
        require(is_right && response.body == content, &format!("{path} as it is"), &response)?;
        let given = response.field("content-type").unwrap_or_default();
        let is_typed = given.starts_with(file.content_type)
            || file.content_type == "text/javascript" && given.starts_with("application/javascript");
        require(is_typed, &format!("{path} with its type and not {given}"), &response)?;
        let response = peer.ask(&static_file(file.name))?;
        let is_right = response.status == 200 && response.content()? == content;
        require(is_right, &format!("{path} for one who takes codings"), &response)?;
        require(data.folder.path().exists(), "the files", &response)?;
    }
    let response = peer.ask(&get("/static/no-such-file", ""))?;
    require(response.status == 404, "404 for a file that is not there", &response)
}

fn queries(address: SocketAddr) -> io::Result<()> {
    let mut peer = connect(address)?;
    for (min, max, limit) in
        LIMITS.map(|limit| (10, 50, limit)).into_iter().chain([(20, 150, 18), (100, 400, 33)])
    {
        let response = peer.ask(&get(&format!("/async-db?min={min}&max={max}&limit={limit}"), ""))?;
        let page = value(&response)?;
        let items = page["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_whole = items.len() == limit && page["count"] == json!(limit);
        let is_right = items.iter().all(|item| {
            is_item(item) && item["price"].as_i64().is_some_and(|price| (min..=max).contains(&price))
        });
        require(is_whole && is_right, "items of that range, as many as asked for", &response)?;
    }
    let response = peer.ask(&get("/async-db?min=9999&max=9999&limit=50", ""))?;
    require(value(&response)? == json!({"items": [], "count": 0}), "nothing out of range", &response)
}

fn is_item(item: &Value) -> bool {
    let has_numbers = ["id", "price", "quantity"].iter().all(|name| item[name].is_i64());
    let is_rated = item["rating"]["score"].is_i64() && item["rating"]["count"].is_i64();
    let has_text = item["name"].is_string() && item["category"].is_string();
    has_numbers && is_rated && has_text && item["tags"].is_array() && item["active"].is_boolean()
}

fn crud(address: SocketAddr) -> io::Result<()> {
    let mut peer = connect(address)?;
    let mut ask = |path: &str| peer.ask(&get(path, ""));
    let list = ask("/crud/items?category=books&page=2&limit=5")?;
    let page = value(&list)?;
    let items = page["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let are_right = items.len() == 5 && items.iter().all(|it| is_item(it) && it["category"] == "books");
    require(are_right && page["page"] == 2, "a page of a category", &list)?;

    sleep(CACHE);
    for (pause, cached) in [(Duration::ZERO, "MISS"), (Duration::ZERO, "HIT"), (CACHE, "MISS")] {
        sleep(pause);
        let item = ask("/crud/items/42")?;
        let is_right = is_item(&value(&item)?) && value(&item)?["id"] == 42;
        require(is_right && item.field("x-cache") == Some(cached), cached, &item)?;
    }
    let missing = ask("/crud/items/999999")?;
    require(missing.status == 404, "404 for an item that is not there", &missing)?;

    let put = peer.ask(&with_body("PUT", "/crud/items/42", JSON, UPDATE.as_bytes()))?;
    require(put.status == 200, "200 for an update", &put)?;
    let item = peer.ask(&get("/crud/items/42", ""))?;
    let is_new = value(&item)?["price"] == 200 && item.field("x-cache") == Some("MISS");
    require(is_new, "no stale item after an update", &item)?;
    let missing = peer.ask(&with_body("PUT", "/crud/items/999999", JSON, UPDATE.as_bytes()))?;
    require(missing.status == 404, "404 for an update of nothing", &missing)?;
    // Twice: the second replaces.
    for _ in 0..2 {
        let post = peer.ask(&with_body("POST", "/crud/items", JSON, draft(200_001).as_bytes()))?;
        require(post.status == 201, "201 for an addition", &post)?;
    }
    let added = value(&peer.ask(&get("/crud/items/200001", ""))?)?;
    require(added["name"] == "New Product", "what was added", &missing)
}

/// Longer than an item may be kept.
const CACHE: Duration = Duration::from_millis(250);

fn websocket(address: SocketAddr) -> io::Result<()> {
    let mut peer = connect(address)?;
    let response = peer.ask(upgrade("/ws").as_bytes())?;
    let accepts = response.field("sec-websocket-accept") == Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    require(response.status == 101 && accepts, "an upgrade", &response)?;
    for first in [0x81, 0x82] {
        peer.send(&frame(first, MESSAGE))?;
        let echoed = peer.octets(MESSAGE.len() + 2)?;
        let is_right = echoed[..2] == [first, MESSAGE.len() as u8] && echoed[2..] == *MESSAGE;
        require(is_right, "text as text and octets as octets", &response)?;
    }
    Ok(())
}
