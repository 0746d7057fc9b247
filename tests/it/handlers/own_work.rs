//! A peer that has closed its sending half is answered, unless the application waits.
#![allow(clippy::unwrap_used, reason = "a test is short, and may panic")]

use std::fs;
use std::io::{self, Read, Write};
use std::iter;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use corehttp::fs::{DirSource, FileCacheLimits, Files};
use corehttp::health::Health;
use corehttp::middleware::{Compress, Next, wrap};
use corehttp::{BoxHandler, Context, Handler, Server, block_on, routes};
use flate2::write::GzEncoder;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use super::departures::is_whole;
use crate::support::{Served, streaming};

/// The server's own work is no wait of the handler, whose peer may have closed its sending half: a look at the disk, work on
/// another thread, and its turn among the tasks of the core.
#[test]
fn a_peer_that_has_ended_is_answered_unless_the_application_waits() {
    let dir = TempDir::new().unwrap();
    let text = "compressed, as text of this kind is. ".repeat(11_000);
    for (name, content) in [("small.txt", "small"), ("large.txt", &text), ("large.txt.gz", "coded")] {
        fs::write(dir.path().join(name), content).unwrap();
    }
    let mut coder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    coder.write_all(text.as_bytes()).unwrap();
    let (coded, gzip) = (coder.finish().unwrap(), "content-encoding: gzip\r\n");
    let form =
        format!("--b\r\ncontent-disposition: form-data; name=a; filename=f\r\n\r\n{text}\r\n--b--\r\n");
    let of_form = "content-type: multipart/form-data; boundary=b\r\n";
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let count = async move |ctx: &mut Context, next: Next<'_>| -> corehttp::Result {
        counted.fetch_add(1, Relaxed);
        next.handle(ctx).await
    };
    let handler = Arc::new(BoxHandler::new(wrap(count, own_work(dir.path(), text.clone()))));
    let served = Served::with(|server| server.half_close(false), handler.clone());
    let mut cut = Vec::new();
    for (path, fields, content) in [
        ("/files/small.txt", "", &b""[..]),
        ("/files/none", "", b""),
        ("/uncached/small.txt", "", b""),
        ("/uncached/large.txt", "", b""),
        ("/precompressed/large.txt", "", b""),
        ("/listing/", "", b""),
        ("/source/large.txt", "", b""),
        ("/compressed/large.txt", "", b""),
        ("/compressed", "", b""),
        ("/sent", "", b""),
        ("/written", "", b""),
        ("/made", "", b""),
        ("/ready", "", b""),
        ("/decoded", gzip, &coded),
        ("/decoded/piecewise", gzip, &coded),
        ("/buffered", "", text.as_bytes()),
        ("/saved", of_form, form.as_bytes()),
    ] {
        let common = "HTTP/1.1\r\nhost: a\r\naccept-encoding: gzip\r\n";
        let method = if content.is_empty() { "GET" } else { "POST" };
        let head = format!("{method} {path} {common}{fields}content-length: {}\r\n\r\n", content.len());
        let request = [head.as_bytes(), content].concat();
        let expected = if path.ends_with("none") { "HTTP/1.1 404 " } else { "HTTP/1.1 200 " };
        let over_tcp = (0..20).map(|_| {
            let mut peer = served.connect();
            peer.send(&request);
            peer.end();
            let mut received = Vec::new();
            let _ = peer.stream.read_to_end(&mut received);
            received
        });
        let in_memory = iter::once_with(|| block_on(ask_in_memory(handler.clone(), &request)).unwrap());
        for received in over_tcp.chain(in_memory) {
            // A character for each octet, since content may be coded.
            let received: String = received.into_iter().map(char::from).collect();
            // A core that is behind calls no handler for such a peer.
            let is_called = calls.swap(0, Relaxed) > 0;
            if is_called && !(received.starts_with(expected) && is_whole(&received)) {
                cut.push(format!("{path}: {:?}", received.chars().take(20).collect::<String>()));
            }
        }
    }
    assert_eq!(cut, [""; 0]);
}

/// Handlers that wait for nothing of the application.
fn own_work(dir: &Path, text: String) -> impl Handler + Send + Sync + use<> {
    let files = || Files::new(dir).unwrap();
    let uncached = || files().cache(FileCacheLimits { files_max: 0, ..Default::default() });
    let (small, saved) = (dir.join("small.txt"), dir.to_owned());
    routes! {
        mount "/files" => files(),
        mount "/uncached" => uncached(),
        mount "/precompressed" => uncached().precompressed(true),
        mount "/listing" => files().listing(true),
        mount "/source" => Files::from_source(DirSource::new(dir).unwrap()),
        mount "/compressed" => wrap(Compress::new(), uncached()),
        GET "/compressed" => wrap(Compress::new(), move |ctx: &mut Context| ctx.response.set_text(&text)),
        GET "/sent" => async move |ctx: &mut Context| ctx.send_file(&small).await,
        GET "/written" => async |ctx: &mut Context| -> corehttp::Result {
            let mut out = ctx.body_writer().await?;
            for _ in 0..100 {
                out.write_all(&[b'x'; 30_000]).await?;
            }
            Ok(out.finish().await?)
        },
        GET "/made" => |ctx: &mut Context| {
            ctx.response.body.set_stream(tokio::io::repeat(b'x').take(3_000_000), None);
        },
        GET "/ready" => {
            let health = Health::new().keep_outcome_for(Duration::ZERO);
            health.check("disk", async || Ok::<_, io::Error>(())).ready()
        },
        POST "/decoded" => async |ctx: &mut Context| -> corehttp::Result { Ok(ctx.decode_body().await?) },
        POST "/decoded/piecewise" => streaming(async |ctx: &mut Context| -> corehttp::Result {
            let mut body = ctx.body_reader().decoded_up_to(64 << 20)?;
            while body.chunk().await?.is_some() {}
            Ok(())
        }),
        POST "/buffered" => streaming(async |ctx: &mut Context| -> corehttp::Result { Ok(ctx.buffer_body().await?) }),
        POST "/saved" => streaming(async move |ctx: &mut Context| -> corehttp::Result {
            let mut parts = ctx.multipart()?;
            while let Some(mut part) = parts.part().await? {
                part.save(&saved).await?;
            }
            Ok(())
        }),
    }
}

/// All that a peer without a socket receives, which sends `request` and closes its sending half.
async fn ask_in_memory(handler: Arc<BoxHandler>, request: &[u8]) -> Vec<u8> {
    let service = Server::new().service(handler);
    let (near, far) = duplex(8 << 10);
    let (mut read, mut write) = tokio::io::split(near);
    let mut received = Vec::new();
    let send = async {
        let _ = write.write_all(request).await;
        let _ = write.shutdown().await;
    };
    let _ = tokio::join!(service.serve_connection(far), send, read.read_to_end(&mut received));
    received
}
