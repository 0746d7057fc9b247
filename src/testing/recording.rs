//! [`Recording`]: the exchanges of a client with real servers, in a file, for tests without these servers.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncWriteExt, DuplexStream};

use super::recorded_exchange::{RecordedExchange, request_from_wire, response_to_wire, strip_response};
use super::script::receive;
use super::scripted_peer::{STREAM_BYTES, in_memory};
use super::secrets::Secrets;
use crate::client::builder::ClientBuilder;
use crate::client::client::Client;
use crate::client::{Attempt, ClientError, ClientMiddleware, ClientNext, Redirects};
use crate::memory::lock;
use crate::message::{Request, Response, Scheme, split_port};
use crate::net::{Dialer, MemoryStream};
use crate::runtime::Handle;

/// A file with the exchanges of a client with real servers. Tests play it without a network.
///
/// # Examples
///
/// ```
/// use corehttp::testing::Recording;
/// use corehttp::{Client, ClientError};
/// # use corehttp::testing::TestServer;
/// # use corehttp::Context;
///
/// /// The code that is tested.
/// async fn greeting(client: &Client) -> Result<String, ClientError> {
///     let response = client.get("https://api.example/greeting").bearer_auth("8f14e45f").await?;
///     Ok(response.text().unwrap_or_default().to_owned())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> corehttp::Result {
/// # let dir = std::env::temp_dir().join(format!("corehttp-recording-{}", std::process::id()));
/// # let path = dir.join("greeting.http");
/// # let api = TestServer::start(|ctx: &mut Context| {
/// #     ctx.response.headers.set("set-cookie", "sid=7; Path=/; HttpOnly").unwrap();
/// #     ctx.response.set_text("Hello\n");
/// # })?;
/// // Once, with the server:
/// # if false {
/// let recording = Recording::record("tests/exchanges/greeting.http")?;
/// # }
/// # let recording = Recording::record(&path)?.through(api.client());
/// assert_eq!(greeting(&recording.client()).await?, "Hello\n");
///
/// // From then on, without it:
/// # if false {
/// let recording = Recording::play("tests/exchanges/greeting.http")?;
/// # }
/// # let recording = Recording::play(&path)?;
/// let client = recording.client();
/// assert_eq!(greeting(&client).await?, "Hello\n");
/// assert!(recording.unplayed().is_empty());
/// let error = greeting(&client).await.unwrap_err(); // it was recorded once
/// assert!(format!("{error:#}").contains("has no exchange left for GET https://api.example/greeting"));
/// # let text = std::fs::read_to_string(&path)?;
/// # assert!(text.starts_with("=== request\nGET https://api.example/greeting HTTP/1.1\nauthorization: Bearer hidden\n\n"));
/// # assert!(text.contains("\nset-cookie: sid=hidden; Path=/; HttpOnly\n"), "{text}");
/// # assert!(text.ends_with("\n\nHello\n\n"), "{text}");
/// # std::fs::remove_dir_all(dir)?;
/// # Ok(())
/// # }
/// ```
///
/// The file, to be read, changed and committed:
///
/// ```text
/// === request
/// GET https://api.example/greeting HTTP/1.1
/// authorization: Bearer hidden
///
/// === response
/// HTTP/1.1 200 OK
/// content-type: text/plain; charset=utf-8
/// set-cookie: sid=hidden; Path=/; HttpOnly
///
/// Hello
///
/// ```
///
/// # What is recorded
///
/// An exchange is written when it is over. Requests of redirects and retries are exchanges of their own. Not recorded are the
/// fields of connections, `content-length` where there is content, trailers and interim responses. Content is recorded octet by
/// octet, plain text unchanged and other content in base64. Octets of field values that are not UTF-8, and a backslash before
/// an `x`, are written as `\xHH`. Coded content is no plain text, unless the client of [`Recording::through`]
/// [decodes](ClientBuilder::decode_up_to) it. A message has at most 16 MiB, and a file 64 MiB. Streams without an end and
/// failed requests are not in the file. Upgrades and tunnels are refused.
///
/// # What is played
///
/// A request is answered by an exchange of the same method and URL. Each is played once. Of several, one with the same content
/// comes first, and else the next in the order of the file. If none is left, the request fails, without a server and without
/// retries. The error names the request. All this runs in the runtime of the client and on its clock, which may be paused.
///
/// # Secrets
///
/// In the file, the values of `authorization`, `proxy-authorization`, `cookie` and `set-cookie` are `hidden`, but for schemes,
/// and for the names and attributes of cookies. [`Recording::hide_field`] and [`Recording::hide_text`] hide more. They are
/// called for playing as well, to compare requests without their secrets. The recorded client gets responses unchanged.
#[doc(alias("vcr", "cassette", "snapshot", "fixture", "mock"))]
#[derive(Clone, Debug)]
#[must_use]
pub struct Recording {
    path: Arc<Path>,
    mode: Mode,
    secrets: Secrets,
}

#[derive(Clone, Debug)]
enum Mode {
    Record {
        client: Client,
        file: Arc<Mutex<RecordingFile>>,
    },
    /// The exchanges that are left.
    Play(Arc<Mutex<Vec<RecordedExchange>>>),
}

/// The file of a recording that goes on.
#[derive(Debug)]
struct RecordingFile {
    file: File,
    len: usize,
}

impl Recording {
    /// Records to a file. An earlier file is replaced, and a missing directory is made. Requests reach the servers through a
    /// client with defaults, unless there is [another](Recording::through).
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be created.
    pub fn record(path: impl Into<PathBuf>) -> io::Result<Recording> {
        let path = path.into();
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(|error| named(&path, &error))?;
        let file = File::create(&path).map_err(|error| named(&path, &error))?;
        let file = Arc::new(Mutex::new(RecordingFile { file, len: 0 }));
        let mode = Mode::Record { client: transparent(&Client::new()), file };
        Ok(Recording { path: path.into(), mode, secrets: Secrets::default() })
    }

    /// Plays a file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, has more than 64 MiB or is no recording. For a malformed line, the error has its
    /// number.
    pub fn play(path: impl Into<PathBuf>) -> io::Result<Recording> {
        let path = path.into();
        let exchanges = read(&path).and_then(|text| RecordedExchange::parse_all(&text));
        let exchanges = exchanges.map_err(|error| named(&path, &error))?;
        let mode = Mode::Play(Arc::new(Mutex::new(exchanges)));
        Ok(Recording { path: path.into(), mode, secrets: Secrets::default() })
    }

    /// Sets the client that reaches the servers during a recording, such as one with certificates of its own. Redirects and
    /// retries are left to the client that is recorded. Has no effect on a recording that is played.
    pub fn through(mut self, reaching: Client) -> Recording {
        if let Mode::Record { client, .. } = &mut self.mode {
            *client = transparent(&reaching);
        }
        self
    }

    /// Hides the value of a field, such as `x-api-key`.
    pub fn hide_field(mut self, name: &str) -> Recording {
        self.secrets.add_field(name);
        self
    }

    /// Hides no value of this field, which would be hidden by default.
    pub fn keep_field(mut self, name: &str) -> Recording {
        self.secrets.remove_field(name);
        self
    }

    /// Hides a text, such as a password, in URLs, in other fields and in content that is UTF-8. The text is searched in its
    /// sent form. A password in a URL or in JSON may be escaped there, by `%` or `\`.
    pub fn hide_text(mut self, text: &str) -> Recording {
        self.secrets.add_text(text);
        self
    }

    /// A client whose exchanges are recorded or played, whichever hosts it names.
    pub fn client(&self) -> Client {
        self.client_builder().build()
    }

    /// The settings of a client whose exchanges are recorded or played.
    pub fn client_builder(&self) -> ClientBuilder {
        let peer = RecordingPeer { recording: self.clone(), origins: Arc::default() };
        in_memory(Client::builder().dialer(peer.clone()).wrap(peer))
    }

    /// The method and the URL of each exchange that was not played yet, in the order of the file. Empty while this records.
    pub fn unplayed(&self) -> Vec<String> {
        match &self.mode {
            Mode::Record { .. } => Vec::new(),
            Mode::Play(left) => lock(left).iter().map(|exchange| line(&exchange.request)).collect(),
        }
    }

    /// The response to a request on the wire.
    async fn respond(&self, octets: &[u8], origin: &str) -> Vec<u8> {
        let request = match request_from_wire(octets, origin) {
            Ok(request) => request,
            Err(error) => return fault(&error),
        };
        let responded = match &self.mode {
            Mode::Record { client, file } => self.record_exchange(&request, client, file).await,
            Mode::Play(left) => self.play_exchange(&request, left),
        };
        responded.map_or_else(|error| fault(&error), |response| response_to_wire(request.method(), &response))
    }

    async fn record_exchange(
        &self,
        request: &Request,
        client: &Client,
        file: &Mutex<RecordingFile>,
    ) -> io::Result<Response> {
        let mut response = Response::new();
        client
            .send(request, &mut response)
            .await
            .map_err(|error| io::Error::other(format!("it cannot be recorded: {error:#}")))?;
        strip_response(&mut response);
        let hidden = RecordedExchange {
            request: self.secrets.hide_in_request(request).map_err(io::Error::other)?,
            response: self.secrets.hide_in_response(&response).map_err(io::Error::other)?,
        };
        lock(file).append(&hidden.to_text()).map_err(|error| named(&self.path, &error))?;
        Ok(response)
    }

    fn play_exchange(&self, request: &Request, left: &Mutex<Vec<RecordedExchange>>) -> io::Result<Response> {
        let hidden = self.secrets.hide_in_request(request).map_err(io::Error::other)?;
        let mut left = lock(left);
        let is_same = |exchange: &RecordedExchange| {
            exchange.request.method() == hidden.method() && exchange.request.target() == hidden.target()
        };
        let has_same_content = |exchange: &RecordedExchange| {
            is_same(exchange) && exchange.request.body.bytes() == hidden.body.bytes()
        };
        let found = left.iter().position(has_same_content).or_else(|| left.iter().position(is_same));
        let none = || format!("{} has no exchange left for {}", self.path.display(), line(&hidden));
        found.map(|at| left.remove(at).response).ok_or_else(|| io::Error::other(none()))
    }
}

impl RecordingFile {
    /// Appends the text of a whole exchange. The write blocks the thread, which a test can bear.
    fn append(&mut self, text: &str) -> io::Result<()> {
        self.len += text.len();
        if self.len > FILE_MAX {
            return Err(too_large());
        }
        self.file.write_all(text.as_bytes())
    }
}

/// The server in memory that takes the place of all servers.
#[derive(Clone)]
struct RecordingPeer {
    recording: Recording,
    /// By host and port, the origins of requests so far. A dialer is told of no scheme.
    origins: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Dialer for RecordingPeer {
    type Stream = MemoryStream;

    async fn dial(&self, host: &str, port: u16) -> io::Result<MemoryStream> {
        let handle = Handle::current().ok_or_else(|| io::Error::other("there is no runtime"))?;
        let origin = lock(&self.origins).get(&format!("{host}:{port}")).cloned();
        let origin = origin.ok_or(io::ErrorKind::HostUnreachable)?;
        let (near, far) = tokio::io::duplex(STREAM_BYTES);
        let recording = self.recording.clone();
        handle.spawn(async move {
            // A client that leaves early is none of the recording's faults.
            let _ = serve(far, &recording, &origin).await;
        });
        Ok(near)
    }
}

impl ClientMiddleware for RecordingPeer {
    /// Notes where the request goes to, and fails with the fault of the recording, if there is one.
    async fn call(&self, attempt: &mut Attempt<'_>, next: ClientNext<'_>) -> Result<(), ClientError> {
        let origin = attempt.origin();
        lock(&self.origins).insert(dialed(origin), origin.to_owned());
        next.send(attempt).await?;
        match attempt.response().and_then(|response| response.headers.get(FAULT)) {
            Some(fault) => Err(ClientError::other(fault)),
            None => Ok(()),
        }
    }
}

/// Answers the requests of a connection.
async fn serve(mut stream: DuplexStream, recording: &Recording, origin: &str) -> io::Result<()> {
    let mut unread = Vec::new();
    while let Some(octets) = receive(&mut stream, &mut unread).await? {
        stream.write_all(&recording.respond(&octets, origin).await).await?;
    }
    Ok(())
}

/// The response that stands for a fault of the recording, which the middleware of its clients turns into an error.
fn fault(error: &io::Error) -> Vec<u8> {
    let text = error.to_string().replace(char::is_control, " ");
    format!("HTTP/1.1 {FAULT_STATUS} \r\n{FAULT}: {text}\r\ncontent-length: {}\r\n\r\n{text}", text.len())
        .into()
}

const FAULT: &str = "x-recording-fault";
const FAULT_STATUS: u16 = 599;

/// Host and port of an origin, as a dialer is told of them.
fn dialed(origin: &str) -> String {
    let (scheme, authority) = origin.split_once("://").unwrap_or(("", origin));
    let (host, port) = split_port(authority);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let default = Scheme::parse(scheme.as_bytes()).map_or(0, Scheme::port).to_string();
    format!("{host}:{}", port.unwrap_or(&default))
}

/// A client that returns each response as it is.
fn transparent(client: &Client) -> Client {
    client.with_redirects(Redirects::Return).with_retry(None)
}

fn line(request: &Request) -> String {
    format!("{} {}", request.method(), request.target())
}

/// Reads a file of bounded size.
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(FILE_MAX as u64 + 1).read_to_string(&mut text)?;
    match text.len() > FILE_MAX {
        true => Err(too_large()),
        false => Ok(text),
    }
}

fn too_large() -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, "a recording has at most 64 MiB")
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// How large a file may be.
const FILE_MAX: usize = 64 << 20;
