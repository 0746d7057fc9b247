//! WebSockets whose peers say arbitrary octets. A server and a client receive the messages that the oracle reads, however
//! the octets are cut, and answer as the standards ask; a gateway passes octets on unchanged, and stops between frames.

use std::cell::{Cell, RefCell};
use std::io;

use corehttp::client::ClientCause;
use corehttp::error::ExchangeError;
use corehttp::middleware::wrap;
use corehttp::websocket::{self, DeflateOptions, Error, Message, Options, Role, WebSocket};
use corehttp::{BodyPlan, BoxHandler, Client, ClientError, Context, Server, Service};
use tokio::runtime::Runtime;

use self::expectation::{Expectation, Fault};
use self::upgrading::{Plan, Upgrading};
use crate::memory::bounded;
use crate::oracle::websocket::{Sender, frame_ends};
use crate::oracle::{Next, Reader};
use crate::settings::Settings;
use crate::wired::{Wired, paused};

mod expectation;
mod inflate;
mod upgrading;

/// Bits 0 and 1: the peer is a client, a server, or both of them with a gateway in between, which in the fourth case
/// stops. Bit 2: messages may be compressed. Bit 3: they may refer to those before. Bit 4: limits are small. Bit 5:
/// messages are received in parts. For a gateway, two more octets say how much of the rest the client says; the server
/// says what is left.
pub fn run(data: &[u8]) {
    let Some((settings, wire)) = Settings::split(data) else { return };
    match settings.flags & 3 {
        0 => check_end(settings, wire, Sender::Client, at_server),
        1 => check_end(settings, wire, Sender::Server, at_client),
        kind => check_gateway(settings, wire, kind == 3),
    }
}

/// A connection without messages, and what decompresses to more than it was.
const MEMORY_MAX: usize = 1 << 20;
const INFLATED_MAX: usize = 48 << 20;

/// The end of the crate, which its peer sends these octets.
type End = fn(Settings, &[u8], bool) -> Outcome;

/// The messages that an end received, and how it ended.
#[derive(Debug, Default)]
struct Outcome {
    /// Whether they are texts, and their contents.
    messages: Vec<(bool, Vec<u8>)>,
    /// The parts of a message that was not received to its end.
    parts: Vec<u8>,
    /// The code and the reason of the close frame, if there was one.
    close: Option<(u16, String)>,
    fault: Option<Fault>,
    /// All frames that it sent.
    answers: Vec<u8>,
}

fn check_end(settings: Settings, wire: &[u8], sender: Sender, end: End) {
    let most = if settings.flag(2) { INFLATED_MAX } else { MEMORY_MAX + 100 * wire.len() };
    let whole = bounded(most, || end(settings, wire, false));
    let cut = bounded(most, || end(settings, wire, true));
    let is_corrupt = |outcome: &Outcome| matches!(outcome.fault, Some(Fault::Content | Fault::Bound));
    let shown = wire.escape_ascii();
    assert_eq!((&cut.messages, &cut.close), (&whole.messages, &whole.close), "cut otherwise: {shown}");
    // How much of a corrupt message is here decides which of its faults is found first.
    if !settings.flag(2) || !is_corrupt(&whole) || !is_corrupt(&cut) {
        assert_eq!(cut.fault, whole.fault, "cut otherwise: {shown}");
    }
    let expectation = Expectation { settings, options: options(settings), wire, sender };
    expectation.check(&whole);
    expectation.check(&cut);
}

fn options(settings: Settings) -> Options {
    let context_takeover = settings.flag(3);
    let deflate = DeflateOptions { message_min: 0, context_takeover, ..DeflateOptions::default() };
    let deflate = settings.flag(2).then_some(deflate);
    match settings.flag(4) {
        false => Options { message_max: 64 << 10, deflate, ..Options::default() },
        true => Options {
            message_max: 200,
            frame_max: 100,
            fragments_max: 3,
            control_rate_max: 1,
            deflate,
            ..Options::default()
        },
    }
}

thread_local! {
    static SERVER: Wired<BoxHandler> = Wired::new(Server::new(), BoxHandler::new(serve));
    static SERVED: Cell<Option<Settings>> = const { Cell::new(None) };
    static OUTCOME: RefCell<Option<Outcome>> = const { RefCell::new(None) };
    static CLIENT: (Runtime, Client, Upgrading) = {
        let upgrading = Upgrading::default();
        (paused(), Client::builder().dialer(upgrading.clone()).build(), upgrading)
    };
}

async fn serve(ctx: &mut Context) -> corehttp::Result {
    let settings = SERVED.get().expect("the target has set them");
    let outcome = converse(&mut ctx.websocket(&options(settings)).await?, settings).await;
    OUTCOME.set(Some(outcome));
    Ok(())
}

/// A server receives `wire` from a client.
fn at_server(settings: Settings, wire: &[u8], is_cut: bool) -> Outcome {
    SERVED.set(Some(settings));
    let asked = [REQUEST, wire].concat();
    let packets = if is_cut { settings.cut(&asked) } else { vec![asked] };
    let received = SERVER.with(|server| server.ask(packets, true));
    let mut reader = Reader::strict(&received.octets);
    let Next::Whole(response) = reader.response(b"GET", true) else { panic!("it is answered") };
    assert_eq!(response.status, 101, "{response:?}");
    let outcome = OUTCOME.take().expect("the handler has run");
    Outcome { answers: reader.rest().to_vec(), ..outcome }
}

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
    sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    sec-websocket-extensions: permessage-deflate\r\n\r\n";

/// A client receives `wire` from a server.
fn at_client(settings: Settings, wire: &[u8], is_cut: bool) -> Outcome {
    CLIENT.with(|(runtime, client, upgrading)| {
        let extensions = match (settings.flag(2), settings.flag(3)) {
            (false, _) => "",
            (true, true) => "permessage-deflate",
            (true, false) => "permessage-deflate; server_no_context_takeover; client_no_context_takeover",
        };
        let cut = is_cut.then_some(settings);
        upgrading.begin(Plan { said: wire.to_vec(), cut, extensions, ..Plan::default() });
        runtime.block_on(async {
            let socket = client.websocket("ws://a/").options(&options(settings)).await;
            let outcome = converse(&mut socket.expect("it is opened"), settings).await;
            Outcome { answers: upgrading.received().await, ..outcome }
        })
    })
}

/// Receives all messages, and sends them back.
async fn converse<R: Role>(socket: &mut WebSocket<R>, settings: Settings) -> Outcome {
    let mut outcome = Outcome::default();
    let received = match settings.flag(5) {
        true => receive_parts(socket, &mut outcome).await,
        false => receive_whole(socket, &mut outcome).await,
    };
    outcome.fault = received.err().map(|error| Fault::from_error(&error));
    outcome.close = socket.close_reason().map(|reason| (reason.code.0, reason.text.to_string()));
    outcome
}

async fn receive_whole<R: Role>(socket: &mut WebSocket<R>, outcome: &mut Outcome) -> io::Result<()> {
    let WebSocket { reader, writer, .. } = socket;
    while let Some(message) = reader.receive().await? {
        outcome.messages.push((message.text().is_some(), message.as_bytes().to_vec()));
        writer.send(message).await.expect("a peer that reads is answered");
    }
    Ok(())
}

async fn receive_parts<R: Role>(socket: &mut WebSocket<R>, outcome: &mut Outcome) -> io::Result<()> {
    let WebSocket { reader, writer, .. } = socket;
    while let Some(part) = reader.receive_part().await? {
        outcome.parts.extend(part.bytes);
        if part.is_last {
            let content = std::mem::take(&mut outcome.parts);
            let is_text = part.kind == websocket::MessageKind::Text;
            let message = match is_text {
                true => Message::Text(str::from_utf8(&content).expect("its parts are UTF-8 together")),
                false => Message::Binary(&content),
            };
            writer.send(message).await.expect("a peer that reads is answered");
            outcome.messages.push((is_text, content));
        }
    }
    Ok(())
}

impl Fault {
    fn from_error(error: &io::Error) -> Fault {
        let inner = error.get_ref().expect("it has a reason");
        let of_client = inner.downcast_ref().and_then(|error: &ClientError| match error.cause() {
            ClientCause::Exchange(error) => Some(error),
            _ => None,
        });
        match (inner.downcast_ref(), inner.downcast_ref().or(of_client)) {
            (Some(Error::Protocol(_)), _) => Fault::Protocol,
            (Some(Error::Text | Error::Compressed), _) => Fault::Content,
            (Some(Error::MessageTooLarge(_) | Error::FrameTooLarge(_)), _) => Fault::Bound,
            (Some(Error::TooManyFragments(_) | Error::TooManyControls(_)), _) => Fault::Bound,
            (_, Some(ExchangeError::NoCloseFrame)) => Fault::Cut,
            _ => panic!("{error:?}"),
        }
    }
}

/// A gateway passes frames on, whatever they are.
fn check_gateway(settings: Settings, wire: &[u8], stops: bool) {
    let Some((&[low, high], rest)) = wire.split_first_chunk() else { return };
    let (asked, said) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes([low, high]))));
    let (gateway, upgrading) = gateway();
    // A server that stops stays stopped.
    let stopped = stops.then(|| gateway.service().clone());
    STOPPED.set(stopped);
    let stop: Option<fn()> = stops.then_some(|| STOPPED.with_borrow(|it| it.iter().for_each(Service::stop)));
    upgrading.begin(Plan { said: said.to_vec(), cut: Some(settings), stop, ..Plan::default() });
    let received = bounded(MEMORY_MAX + 100 * rest.len(), || {
        gateway.ask(settings.cut(&[REQUEST, asked].concat()), true)
    });
    let shown = wire.escape_ascii();
    let onward = gateway.block_on(upgrading.received());
    assert_eq!(onward.escape_ascii().to_string(), asked.escape_ascii().to_string(), "{shown}");
    let mut reader = Reader::strict(&received.octets);
    let Next::Whole(response) = reader.response(b"GET", true) else { panic!("it is answered: {shown}") };
    assert_eq!(response.status, 101, "{response:?}");
    let (passed, (ends, close)) = (reader.rest(), frame_ends(said));
    let is_between = |len: &usize| *len == 0 || ends.contains(len);
    let is_closed_by = |len: usize| close.is_some_and(|close| close < len);
    let is_away = passed.strip_suffix(&CLOSE_AWAY).is_some_and(|passed| {
        said.starts_with(passed) && is_between(&passed.len()) && !is_closed_by(passed.len())
    });
    let len = passed.len();
    let is_over = said.starts_with(passed) && is_between(&len) && is_closed_by(len);
    assert!(
        passed == said || stops && (is_away || is_over),
        "{} of {}",
        passed.escape_ascii(),
        said.escape_ascii()
    );
}

/// "Going away", from a server.
const CLOSE_AWAY: [u8; 4] = [0x88, 2, 0x03, 0xe9];

thread_local! {
    static STOPPED: RefCell<Option<Service<BoxHandler>>> = const { RefCell::new(None) };
}

/// A gateway, and the servers that it forwards to.
fn gateway() -> (Wired<BoxHandler>, Upgrading) {
    let upgrading = Upgrading::default();
    let client = Client::builder().dialer(upgrading.clone()).build();
    let pass = async move |ctx: &mut Context| {
        let target = ctx.request.forwarded_to("http://b")?;
        ctx.forward(client.open_call(&target)).await
    };
    let handler = BoxHandler::new(wrap(BodyPlan::Stream, pass));
    (Wired::new(Server::new().half_close(true), handler), upgrading)
}
