//! Writes that fail because the peer has closed: what it has sent before is received all the same, and so is the code of
//! its close frame (RFC 6455 §7.1.5).

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use corehttp::websocket::{self, CloseCode, Role, WebSocket};
use corehttp::{BoxHandler, Client, Context, Server, block_on};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::clients::accept;
use super::support::{CLOSE, HEAD, PING, TEXT, close, frame, unmasked};
use crate::support::{Served, paused};

/// The messages that a peer sends before it closes, and the code of its close frame.
const LAST: &str = "bye 1008";

fn last_of_client() -> Vec<u8> {
    [frame(TEXT, "bye"), close(1008, "")].concat()
}

fn last_of_server() -> Vec<u8> {
    [unmasked(TEXT, "bye"), unmasked(CLOSE, 1008_u16.to_be_bytes())].concat()
}

/// Sends until a write fails. Over TCP, the first one has a reset for an answer.
async fn send_in_vain<E: Role>(socket: &mut WebSocket<E>) {
    while socket.send("x").await.is_ok() {
        sleep(Duration::from_millis(1)).await;
    }
    let late = socket.send("x").await.unwrap_err();
    assert!(matches!(late.get_ref().unwrap().downcast_ref(), Some(websocket::Error::Closed)), "{late:?}");
    assert!(socket.writer.is_closed());
}

/// The messages that are received up to the end, and the code of the close frame, or an error.
async fn received<E: Role>(socket: &mut WebSocket<E>) -> String {
    let mut received = Vec::new();
    let end = loop {
        match socket.receive().await {
            Ok(Some(message)) => received.push(message.text().unwrap().to_owned()),
            Ok(None) => break None,
            Err(error) => break Some(error.to_string()),
        }
    };
    received.extend(end);
    received.extend(socket.close_reason().map(|reason| reason.code.0.to_string()));
    received.join(" ")
}

/// Reads the head of a message.
fn read_head(peer: &mut impl Read) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut octet = [0];
        peer.read_exact(&mut octet).unwrap();
        head.extend(octet);
    }
    String::from_utf8(head).unwrap()
}

/// A handler that sends in vain once its peer has closed, and what it receives then.
struct Late {
    go: Arc<Notify>,
    received: mpsc::Receiver<String>,
}

impl Late {
    fn new() -> (BoxHandler, Late) {
        let go = Arc::<Notify>::default();
        let (sender, texts) = mpsc::channel();
        let late = Late { go: go.clone(), received: texts };
        let handler = async move |ctx: &mut Context| -> corehttp::Result {
            let mut socket = ctx.websocket(&websocket::Options::default()).await?;
            go.notified().await;
            send_in_vain(&mut socket).await;
            let _ = sender.send(received(&mut socket).await);
            Ok(())
        };
        (BoxHandler::new(handler), late)
    }

    #[track_caller]
    fn check(&self, mut peer: impl Read + Write) {
        peer.write_all(format!("{HEAD}\r\n").as_bytes()).unwrap();
        read_head(&mut peer);
        peer.write_all(&last_of_client()).unwrap();
        drop(peer);
        self.go.notify_one();
        assert_eq!(self.received.recv().unwrap(), LAST);
    }
}

#[test]
fn a_server_receives_what_came_before_a_failed_write_rfc6455_7_1_5() {
    let (handler, late) = Late::new();
    let served = Served::new(handler);
    late.check(served.connect().stream);
    #[cfg(feature = "tls")]
    {
        use crate::protocol::tls::{Secured, connect_to};

        let secured = Secured::new();
        let (handler, late) = Late::new();
        let served = Served::with(|server| server.tls(secured.tls.clone()), handler);
        late.check(connect_to(&served, secured.peer(), "a.example"));
    }
    #[cfg(unix)]
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let (handler, late) = Late::new();
        let running = Server::bind(format!("unix:{}", path.display())).cores(1).start(handler).unwrap();
        late.check(std::os::unix::net::UnixStream::connect(&path).unwrap());
        running.stop(Duration::ZERO);
        running.wait().unwrap();
    }
    let (handler, late) = Late::new();
    let service = Server::new().service(handler);
    paused(async {
        let (mut near, far) = duplex(1 << 16);
        near.write_all(format!("{HEAD}\r\n").as_bytes()).await.unwrap();
        near.write_all(&last_of_client()).await.unwrap();
        let leaves = async {
            while near.read_u8().await.unwrap() != b'\n' {}
            drop(near);
            late.go.notify_one();
        };
        let _ = tokio::join!(service.serve_connection(far), leaves);
    });
    assert_eq!(late.received.recv().unwrap(), LAST);
}

/// A client of `url` sends in vain to the server at the other end of the stream that `accepted` returns.
#[track_caller]
fn check_client<S: Read + Write>(client: &Client, url: &str, accepted: impl FnOnce() -> S + Send + 'static) {
    let (go, told) = mpsc::channel();
    let (gone, is_gone) = mpsc::channel();
    let server = thread::spawn(move || {
        let mut stream = accepted();
        let head = read_head(&mut stream);
        let key = head.lines().find_map(|line| line.strip_prefix("sec-websocket-key: ")).unwrap();
        let fields = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: ";
        stream.write_all(format!("HTTP/1.1 101 x\r\n{fields}{}\r\n\r\n", accept(key)).as_bytes()).unwrap();
        stream.flush().unwrap();
        told.recv().unwrap();
        stream.write_all(&last_of_server()).unwrap();
        drop(stream);
        gone.send(()).unwrap();
    });
    let received = block_on(async {
        let mut socket = client.websocket(url).await.unwrap();
        go.send(()).unwrap();
        is_gone.recv().unwrap();
        send_in_vain(&mut socket).await;
        received(&mut socket).await
    });
    assert_eq!(received.unwrap(), LAST);
    server.join().unwrap();
}

#[test]
fn a_client_receives_what_came_before_a_failed_write_rfc6455_7_1_5() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    check_client(&Client::new(), &url, move || listener.accept().unwrap().0);
    #[cfg(unix)]
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let client = Client::builder().connect_to(format!("unix:{}", path.display())).build();
        check_client(&client, "ws://a/", move || listener.accept().unwrap().0);
    }
    #[cfg(feature = "tls")]
    {
        use corehttp::tls::{ClientTls, Roots};
        use tokio_rustls::rustls::pki_types::pem::PemObject;
        use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
        use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned, crypto::ring};

        use crate::support::certificates::Authority;

        let authority = Authority::new("ours");
        let issued = authority.issue(&["127.0.0.1"]);
        let chain = CertificateDer::pem_slice_iter(issued.chain.as_bytes()).map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("wss://{}/", listener.local_addr().unwrap());
        let roots = Roots::from_pem(authority.pem()).unwrap();
        let client = Client::builder().tls(ClientTls::new().roots(roots)).build();
        check_client(&client, &url, move || {
            let connection = ServerConnection::new(Arc::new(config)).unwrap();
            StreamOwned::new(connection, listener.accept().unwrap().0)
        });
    }
}

/// The peer has sent many messages and closed, and is read slowly by one half while the other one sends. The messages
/// fit the buffer of a socket: a peer that has closed sends nothing more once a reset has come.
#[test]
fn a_writer_takes_nothing_from_a_reader_in_another_task() {
    const COUNT: usize = 40;
    let (sender, counted) = mpsc::channel();
    let served = Served::new(async move |ctx: &mut Context| -> corehttp::Result {
        let WebSocket { mut reader, mut writer, .. } = ctx.websocket(&websocket::Options::default()).await?;
        let reads = tokio::task::spawn_local(async move {
            let mut count = 0;
            while let Ok(Some(message)) = reader.receive().await {
                assert_eq!(message.as_bytes().len(), 1000);
                count += 1;
                sleep(Duration::from_millis(6)).await;
            }
            (count, reader.close_reason().map(|reason| reason.code))
        });
        while writer.send("x").await.is_ok() {
            sleep(Duration::from_millis(4)).await;
        }
        let _ = sender.send(reads.await.unwrap());
        Ok(())
    });
    let mut peer = served.connect();
    peer.send(format!("{HEAD}\r\n"));
    peer.receive();
    peer.send([frame(TEXT, "x".repeat(1000)).repeat(COUNT), close(1000, "")].concat());
    drop(peer);
    assert_eq!(counted.recv().unwrap(), (COUNT, Some(CloseCode::NORMAL)));
}

/// How a server ends whose peer has sent these frames and gone, by `end`.
#[track_caller]
fn check_gone(
    sent: &[u8],
    expected: &str,
    end: impl AsyncFn(&mut WebSocket) -> String + Send + Sync + 'static,
) {
    let (sender, told) = mpsc::channel();
    let service = Server::new().service(async move |ctx: &mut Context| -> corehttp::Result {
        let mut socket = ctx.websocket(&websocket::Options::default()).await?;
        sleep(Duration::from_secs(1)).await;
        let _ = sender.send(end(&mut socket).await);
        Ok(())
    });
    paused(async {
        let (mut near, far) = duplex(1 << 20);
        near.write_all(format!("{HEAD}\r\n").as_bytes()).await.unwrap();
        near.write_all(sent).await.unwrap();
        let leaves = async {
            while near.read_u8().await.unwrap() != b'\n' {}
            drop(near);
        };
        let _ = tokio::join!(service.serve_connection(far), leaves);
    });
    assert_eq!(told.recv().unwrap(), expected);
}

/// A pong is sent while the reader waits for more.
#[test]
fn a_pong_that_fails_is_not_the_end_of_the_reader() {
    let (ping, long) = (frame(PING, "p"), "y".repeat(20_000));
    let sent = [ping.clone(), frame(TEXT, &long), ping, frame(TEXT, "bye"), close(1008, "")].concat();
    check_gone(&sent, &format!("{long} {LAST}"), async |socket| received(socket).await);
    check_gone(
        &sent[..sent.len() - 8],
        &format!("{long} bye the peer closed the connection without a close frame"),
        async |socket| received(socket).await,
    );
}

#[test]
fn a_close_that_crosses_that_of_a_peer_which_is_gone_is_no_error_rfc6455_7_1_5() {
    check_gone(&last_of_client(), "Ok(()) Some(1008)", async |socket| {
        let closed = socket.close(CloseCode::NORMAL, "").await;
        format!("{closed:?} {:?}", socket.close_reason().map(|reason| reason.code.0))
    });
    check_gone(&frame(TEXT, "a"), "BrokenPipe None", async |socket| {
        let error = socket.close(CloseCode::NORMAL, "").await.unwrap_err();
        format!("{:?} {:?}", error.kind(), socket.close_reason())
    });
}

/// The peer takes nothing more, and neither sends nor closes.
#[cfg(unix)]
#[test]
fn a_reader_that_is_left_alone_has_the_time_of_a_close() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let (sender, told) = mpsc::channel();
    let go = Arc::<Notify>::default();
    let gone = go.clone();
    let settings = websocket::Options {
        ping_interval: None,
        close_timeout: Duration::from_millis(100),
        ..websocket::Options::default()
    };
    let handler = async move |ctx: &mut Context| -> corehttp::Result {
        let mut socket = ctx.websocket(&settings).await?;
        gone.notified().await;
        let WebSocket { reader, writer, .. } = &mut socket;
        let start = Instant::now();
        // The reader waits already when the write fails.
        let (received, ()) = tokio::join!(reader.receive(), async {
            sleep(Duration::from_millis(10)).await;
            writer.send("x").await.unwrap_err();
        });
        let _ = sender.send((received.map(drop).unwrap_err().to_string(), start.elapsed()));
        Ok(())
    };
    let running = Server::bind(format!("unix:{}", path.display())).cores(1).start(handler).unwrap();
    let mut peer = std::os::unix::net::UnixStream::connect(&path).unwrap();
    peer.write_all(format!("{HEAD}\r\n").as_bytes()).unwrap();
    read_head(&mut peer);
    peer.shutdown(std::net::Shutdown::Read).unwrap();
    go.notify_one();
    let (error, took) = told.recv().unwrap();
    assert_eq!(error, "the wait for the peer to close took longer than 100 ms");
    assert!(took >= Duration::from_millis(100), "{took:?}");
    running.stop(Duration::ZERO);
    running.wait().unwrap();
}
