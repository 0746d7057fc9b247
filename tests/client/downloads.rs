//! A file that arrives over as many connections as it takes (RFC 9110 §14), from servers that break, change and lie.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use corehttp::Request;
use corehttp::client::{ClientCause, ClientPhase};

use crate::support::Stage;

const WHOLE: &str = "0123456789";

/// A file of its own for each test, which is removed at the end.
struct Target(PathBuf);

impl Target {
    fn new() -> Target {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Target(std::env::temp_dir().join(format!("corehttp-download-{}-{number}", std::process::id())))
    }

    fn create(&self) -> File {
        fs::write(&self.0, "what was there before").unwrap();
        File::options().write(true).open(&self.0).unwrap()
    }

    fn content(&self) -> String {
        fs::read_to_string(&self.0).unwrap()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The whole, of which only these first octets are sent before the connection ends.
fn whole(fields: &str, sent: usize) -> String {
    format!("HTTP/1.1 200 OK\r\n{fields}content-length: 10\r\n\r\n{}", &WHOLE[..sent])
}

/// A part from `first`, of which as many octets are sent.
fn part(first: usize, sent: usize) -> String {
    let len = WHOLE.len() - first;
    let text = &WHOLE[first..first + sent];
    format!(
        "HTTP/1.1 206 x\r\netag: \"a\"\r\ncontent-range: bytes {first}-9/10\r\ncontent-length: {len}\r\n\r\n{text}"
    )
}

/// A server that gives each connection the next of these responses, and closes it.
fn answering(replies: &[String]) -> Stage {
    let replies: Arc<[String]> = replies.into();
    Stage::new(move |mut peer, number| {
        let reply = replies[number.min(replies.len() - 1)].clone();
        async move {
            if peer.request().await?.is_some() {
                peer.send(reply).await?;
            }
            Ok(())
        }
    })
}

/// The content and the length, or the status or `None` of the error; and the `range` and `if-range` of each request.
type End = (Result<(String, u64), Option<u16>>, Vec<Option<String>>);

async fn end(replies: &[String]) -> End {
    let (stage, target) = (answering(replies), Target::new());
    let request = Request::get("http://a/").unwrap();
    let done = stage.client().download(&request, target.create()).await;
    let done = match done {
        Ok(len) => Ok((target.content(), len)),
        Err(error) => Err(match error.cause() {
            ClientCause::Status(status) => Some(status.as_u16()),
            _ => None,
        }),
    };
    let ranges = |request: &String| {
        assert!(request.contains("accept-encoding: identity\r\n"));
        let field = |name: &str| request.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        Some(format!("{} {}", field("range: ")?, field("if-range: ").unwrap()))
    };
    (done, stage.received().iter().map(ranges).collect())
}

#[tokio::test(start_paused = true)]
async fn a_download_goes_on_where_it_stopped_rfc9110_14_2() {
    const TAG: &str = "etag: \"a\"\r\n";
    let done = |content: &str| Ok((content.to_owned(), content.len() as u64));
    let from = |first: usize| Some(format!("bytes={first}- \"a\""));
    let lie = part(4, 6).replace("bytes 4-", "bytes 3-");
    let grown = part(4, 6).replace("/10", "/11");
    let coded = part(4, 6).replace("etag", "content-encoding: gzip\r\netag");
    let changed = |tag: &str| part(4, 6).replace("\"a\"", tag);
    let short = part(4, 3).replace("4-9/", "4-6/").replace("length: 6", "length: 3");
    let chunked = format!("HTTP/1.1 200 OK\r\n{TAG}transfer-encoding: chunked\r\n\r\n4\r\n0123\r\n");
    let dates =
        |changed: &str| format!("last-modified: {changed}\r\ndate: Sun, 06 Nov 1994 08:50:37 GMT\r\n");
    let (early, late) = ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:50:00 GMT");
    let dated = |changed: &str| part(4, 6).replace(TAG, &dates(changed));
    let from_date = Some(format!("bytes=4- {early}"));
    let status = |status: u16| format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n");
    let all_but_end = format!("HTTP/1.1 200 OK\r\n{TAG}transfer-encoding: chunked\r\n\r\na\r\n{WHOLE}\r\n");
    let nothing_left =
        |range: &str| format!("HTTP/1.1 416 x\r\ncontent-range: bytes {range}\r\ncontent-length: 0\r\n\r\n");
    let rows: [(Vec<String>, End); 26] = [
        (vec![whole(TAG, 10)], (done(WHOLE), vec![None])),
        (vec![whole(TAG, 4), part(4, 6)], (done(WHOLE), vec![None, from(4)])),
        (vec![whole(TAG, 4), part(4, 3), part(7, 3)], (done(WHOLE), vec![None, from(4), from(7)])),
        // The content has changed, or the server knows no ranges.
        (vec![whole(TAG, 4), whole("etag: \"b\"\r\n", 10)], (done(WHOLE), vec![None, from(4)])),
        // Nothing stands for the very octets.
        (vec![whole("", 4), whole("", 10)], (done(WHOLE), vec![None, None])),
        (vec![whole("etag: W/\"a\"\r\n", 4), whole("", 10)], (done(WHOLE), vec![None, None])),
        // Another part than that which was asked for, and a whole that has grown.
        (vec![whole(TAG, 4), lie, whole(TAG, 10)], (done(WHOLE), vec![None, from(4), None])),
        (vec![whole(TAG, 4), coded, whole(TAG, 10)], (done(WHOLE), vec![None, from(4), None])),
        (vec![whole(TAG, 4), grown, whole(TAG, 10)], (done(WHOLE), vec![None, from(4), None])),
        (vec![whole(TAG, 4), status(416), whole(TAG, 10)], (done(WHOLE), vec![None, from(4), None])),
        // Only the end of the whole was missing (§15.5.17).
        (vec![all_but_end.clone(), nothing_left("*/10")], (done(WHOLE), vec![None, from(10)])),
        (
            vec![all_but_end.clone(), nothing_left("*/11"), whole(TAG, 10)],
            (done(WHOLE), vec![None, from(10), None]),
        ),
        (
            vec![all_but_end, nothing_left("*/10\r\netag: \"b\""), whole(TAG, 10)],
            (done(WHOLE), vec![None, from(10), None]),
        ),
        // A part of other content, from a server or a cache that overlooks `if-range` (§15.3.7.3).
        (vec![whole(TAG, 4), changed("\"b\""), whole(TAG, 10)], (done(WHOLE), vec![None, from(4), None])),
        (vec![whole(TAG, 4), changed("W/\"a\""), whole(TAG, 10)], (done(WHOLE), vec![None, from(4), None])),
        (
            vec![whole(&dates(early), 4), dated(late), whole("", 10)],
            (done(WHOLE), vec![None, from_date.clone(), None]),
        ),
        // A part need not have the date of the change (§15.3.7), and some have no tag.
        (vec![whole(&dates(early), 4), dated(early)], (done(WHOLE), vec![None, from_date.clone()])),
        (vec![whole(&dates(early), 4), part(4, 6).replace(TAG, "")], (done(WHOLE), vec![None, from_date])),
        (vec![whole(TAG, 4), part(4, 6).replace(TAG, "")], (done(WHOLE), vec![None, from(4)])),
        // A server may send less than was asked for, also of a whole whose length its first response had not (§15.3.7).
        (vec![whole(TAG, 4), short.clone(), part(7, 3)], (done(WHOLE), vec![None, from(4), from(7)])),
        (vec![chunked, short, part(7, 3)], (done(WHOLE), vec![None, from(4), from(7)])),
        // Nothing comes any more.
        (vec![whole(TAG, 4), part(4, 0)], (Err(None), [vec![None], vec![from(4); 5]].concat())),
        (vec![String::new()], (Err(None), vec![None; 5])),
        (vec![status(404)], (Err(Some(404)), vec![None])),
        (vec![part(0, 10)], (Err(Some(206)), vec![None])),
        (vec![whole(TAG, 4), status(503)], (Err(Some(503)), vec![None, from(4)])),
    ];
    for (replies, expected) in rows {
        assert_eq!(end(&replies).await, expected, "{replies:?}");
    }
}

/// Of several servers behind one name, each has content of its own, and none sends it whole.
#[tokio::test(start_paused = true)]
async fn content_that_changes_for_ever_ends_a_download() {
    let turn = [whole("etag: \"a\"\r\n", 4), part(4, 6).replace("\"a\"", "\"b\"")];
    let (done, ranges) = end(&vec![turn; 20].concat()).await;
    assert_eq!((done, ranges.len()), (Err(None), 12));
}

/// A server may send coded content though `identity` is asked for, and what is decoded has other octets than its ranges.
#[cfg(feature = "compress")]
#[tokio::test(start_paused = true)]
async fn content_that_is_decoded_begins_again_rfc9110_14_2() {
    // `0123456789` by zlib, as a block that is not compressed.
    let coded = b"\x78\x01\x01\x0a\x00\xf5\xff0123456789\x0a\xff\x02\x0e";
    let head = "HTTP/1.1 200 OK\r\netag: \"a\"\r\ncontent-encoding: deflate\r\ncontent-length: 21\r\n\r\n";
    let stage = Stage::new(move |mut peer, number| async move {
        if peer.request().await?.is_some() {
            let sent = if number == 0 { 12 } else { coded.len() };
            peer.send([head.as_bytes(), &coded[..sent]].concat()).await?;
        }
        Ok(())
    });
    let target = Target::new();
    let client = stage.builder().decode_up_to(1 << 20).build();
    let len = client.download(&Request::get("http://a/").unwrap(), target.create()).await.unwrap();
    assert_eq!((len, target.content().as_str()), (10, WHOLE));
    let received = stage.received();
    assert!(received.len() == 2 && !received[1].contains("range"), "{received:?}");
}

/// A part of the content would stand in the file as if it were the whole.
#[tokio::test(start_paused = true)]
async fn a_range_of_the_caller_is_an_error_before_anything_is_sent() {
    for field in ["range", "if-range"] {
        let (stage, target) = (answering(&[whole("", 10)]), Target::new());
        let mut request = Request::get("http://a/").unwrap();
        request.headers.set(field, "bytes=3-").unwrap();
        let error = stage.client().download(&request, target.create()).await.unwrap_err();
        assert!(matches!(error.cause(), ClientCause::Request(_)) && !error.is_sent(), "{error:#}");
        assert!(format!("{error:#}").contains(&format!("sets the field {field} by itself")), "{error:#}");
        assert_eq!((stage.received().len(), target.content()), (0, "what was there before".to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_cannot_be_written_ends_it() {
    let target = Target::new();
    drop(target.create());
    let stage = answering(&[whole("", 10)]);
    let request = Request::get("http://a/").unwrap();
    let error = stage.client().download(&request, File::open(&target.0).unwrap()).await.unwrap_err();
    assert_eq!((error.phase(), error.url()), (ClientPhase::Receive, Some("http://a/")));
    assert!(matches!(error.cause(), ClientCause::Other(_)), "{error:#}");
    assert!(format!("{error:#}").contains(" failed: the file cannot be written: "), "{error:#}");
    assert_eq!(stage.received().len(), 1);
}
