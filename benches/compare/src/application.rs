//! [`Exchange`]: the application that every server is, one exchange at a time: what is sent, and what must come back.
//!
//! | request | response |
//! |---|---|
//! | GET `/` | [`HELLO`] |
//! | GET `/json` | a [`Page`], serialized anew, 1 KiB |
//! | GET `/download` | [`PIECES`] pieces of [`PIECE`], chunked |
//! | POST `/` | the body |
//! | POST `/upload` | how many bytes came, read piece by piece |

use serde::Serialize;

pub(crate) const HELLO: &str = "Hello, world!";
/// The value of `server`, where it can be set: a name of one length.
pub(crate) const SERVER_NAME: &str = "compare";

/// One request and its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exchange {
    Plain,
    /// Plain, but asked for as a browser does.
    Browser,
    Json,
    /// A body of so many bytes, there and back.
    Echo(usize),
    Upload,
    Download,
}

impl Exchange {
    /// The request as it goes on the wire.
    pub(crate) fn request(self) -> Vec<u8> {
        match self {
            Exchange::Plain => get("/"),
            Exchange::Browser => BROWSER.as_bytes().to_vec(),
            Exchange::Json => get("/json"),
            Exchange::Download => get("/download"),
            Exchange::Echo(len) => {
                let head =
                    format!("POST / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Length: {len}\r\n\r\n");
                [head.into_bytes(), filler(len)].concat()
            }
            Exchange::Upload => {
                let head =
                    "POST /upload HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nTransfer-Encoding: chunked\r\n\r\n";
                [head.as_bytes(), &chunked()].concat()
            }
        }
    }

    /// The content of the right response.
    pub(crate) fn content(self) -> Vec<u8> {
        match self {
            Exchange::Plain | Exchange::Browser => HELLO.into(),
            Exchange::Json => page_json(),
            Exchange::Echo(len) => filler(len),
            Exchange::Upload => (PIECE * PIECES).to_string().into_bytes(),
            Exchange::Download => [b'x'; PIECE].repeat(PIECES),
        }
    }
}

/// Content that goes up or down chunked: so many bytes at once, so many times.
pub(crate) const PIECE: usize = 4 << 10;
pub(crate) const PIECES: usize = 16;
/// One piece.
pub(crate) static PIECE_BYTES: [u8; PIECE] = [b'x'; PIECE];

/// All pieces, a chunk each.
pub(crate) fn chunked() -> Vec<u8> {
    let chunk = [format!("{PIECE:x}\r\n").as_bytes(), &PIECE_BYTES, b"\r\n"].concat();
    [&chunk.repeat(PIECES)[..], b"0\r\n\r\n"].concat()
}

/// The length of what clients are sent, and send.
pub(crate) const LARGE: usize = 1 << 20;

/// A body that shows when a part of it is missing or out of place.
pub(crate) fn filler(len: usize) -> Vec<u8> {
    (b'a'..=b'z').cycle().take(len).collect()
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n").into_bytes()
}

/// A page of a shop: what an API sends, 1 KiB as JSON.
#[derive(Serialize)]
pub(crate) struct Page {
    id: u32,
    title: &'static str,
    tags: [&'static str; 4],
    items: [Item; 10],
    next: Option<&'static str>,
    note: &'static str,
}

#[derive(Clone, Copy, Serialize)]
struct Item {
    sku: u32,
    name: &'static str,
    price: u32,
    stock: u32,
    sold_out: bool,
}

impl Page {
    pub(crate) fn new() -> Page {
        let item = |index: u32| Item {
            sku: 100_001 + index,
            name: "A cup of black coffee",
            price: 1_250 + index,
            stock: 17 + index,
            sold_out: index == 3,
        };
        Page {
            id: 4_711,
            title: "Things to drink and to eat",
            tags: ["coffee", "tea", "cake", "water"],
            items: std::array::from_fn(|index| item(index as u32)),
            next: None,
            note: "Prices are in cents and include tax.",
        }
    }
}

/// The page as it goes on the wire.
pub(crate) fn page_json() -> Vec<u8> {
    serde_json::to_vec(&Page::new()).expect("a page has no maps, so it has no keys that are not text")
}

/// The head of a browser: 14 fields.
const BROWSER: &str = "GET / HTTP/1.1\r\n\
    Host: 127.0.0.1:8080\r\n\
    Connection: keep-alive\r\n\
    Cache-Control: max-age=0\r\n\
    sec-ch-ua: \"Chromium\";v=\"142\", \"Google Chrome\";v=\"142\", \"Not_A Brand\";v=\"99\"\r\n\
    sec-ch-ua-mobile: ?0\r\n\
    sec-ch-ua-platform: \"Linux\"\r\n\
    Upgrade-Insecure-Requests: 1\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
    Sec-Fetch-Site: none\r\n\
    Sec-Fetch-Mode: navigate\r\n\
    Sec-Fetch-Dest: document\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Accept-Language: en-US,en;q=0.9\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::{BROWSER, page_json};

    #[test]
    fn sizes_are_as_the_tables_say() {
        assert_eq!(page_json().len(), 1_024);
        assert_eq!(BROWSER.matches(": ").count(), 14);
    }
}
