//! A predecessor that sends arbitrary octets, and sockets of any kind. A server takes over from it if an independent
//! reader understands all of them, and serves then; otherwise it does not start, and the predecessor goes on as before.

use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use corehttp::{Context, Server};
use rustix::cmsg_space;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::settings::Settings;

/// The rest of an input is messages: an octet that says which socket goes along, one for the length, and so many octets,
/// in which 1 stands for the address of the server. If the highest bit of the first is set, they are sent as they are;
/// otherwise after their length.
pub fn run(data: &[u8]) {
    let Some((_, rest)) = Settings::split(data) else { return };
    let directory = tempfile::tempdir().unwrap();
    let (path, control) = (directory.path().join("served"), directory.path().join("control"));
    let address = format!("unix:{}", path.display());
    let messages = Message::all(rest, &address);
    let (served, listener) = (UnixListener::bind(&path).unwrap(), UnixListener::bind(&control).unwrap());
    let expected = reading(&messages, &address);
    let sockets = [served.try_clone().unwrap(), listener.try_clone().unwrap()];
    let predecessor = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // A successor that has heard enough closes.
        let _ = messages.iter().try_for_each(|message| message.send(&stream, &sockets));
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    });
    let server = Server::bind(&*address).cores(1).handover(&control);
    let started = server.start(|ctx: &mut Context| ctx.response.set_text("successor"));
    let shown = rest.escape_ascii();
    match (started, expected) {
        (Ok(running), Reading::TakesOver { serves }) => {
            assert!(!serves || ask(&path).ends_with("successor"), "{shown}");
            running.stop(Duration::ZERO);
            running.wait().unwrap();
            assert_eq!(predecessor.join().unwrap(), b"r", "{shown}");
        }
        (Err(_), Reading::Fails | Reading::Binds) => {
            assert_eq!(predecessor.join().unwrap(), b"", "announced, and failed: {shown}");
            assert!(
                control.exists() && UnixStream::connect(&path).is_ok(),
                "the predecessor is cut off: {shown}"
            );
        }
        (started, expected) => panic!("{started:?}, and not {expected:?}: {shown}"),
    }
}

/// A part of what a predecessor sends.
#[derive(Debug)]
struct Message {
    kind: u8,
    octets: Vec<u8>,
}

impl Message {
    fn all(mut rest: &[u8], address: &str) -> Vec<Message> {
        let mut all = Vec::new();
        while let [kind, len, more @ ..] = rest {
            let (text, after) = more.split_at(more.len().min(usize::from(*len)));
            rest = after;
            let mut octets = Vec::new();
            text.iter().for_each(|octet| match octet {
                1 => octets.extend(address.as_bytes()),
                _ => octets.push(*octet),
            });
            if kind & 0x80 == 0 {
                octets.splice(0..0, (octets.len() as u16).to_be_bytes());
            }
            all.push(Message { kind: kind & 0x7f, octets });
        }
        all
    }

    fn socket(&self, [served, listener]: &[UnixListener; 2]) -> Option<OwnedFd> {
        Some(match self.kind % KINDS {
            0 => served.try_clone().unwrap().into(),
            1 => listener.try_clone().unwrap().into(),
            2 => UdpSocket::bind("127.0.0.1:0").unwrap().into(),
            3 => UnixStream::pair().unwrap().0.into(),
            4 => File::open("/dev/null").unwrap().into(),
            _ => return None,
        })
    }

    fn send(&self, stream: &UnixStream, sockets: &[UnixListener; 2]) -> rustix::io::Result<()> {
        if self.octets.is_empty() {
            return Ok(());
        }
        let socket = self.socket(sockets);
        let sent: Vec<_> = socket.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !sent.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&sent));
        }
        let count = sendmsg(stream, &[IoSlice::new(&self.octets)], &mut control, SendFlags::NOSIGNAL)?;
        assert_eq!(count, self.octets.len(), "a stream has room for an input");
        Ok(())
    }
}

const KINDS: u8 = 6;

/// The outcome that a successor should have.
#[derive(Debug)]
enum Reading {
    /// A listener that the predecessor passes for another is taken for that.
    TakesOver {
        serves: bool,
    },
    /// No socket of its address is among them, and it cannot bind another one.
    Binds,
    Fails,
}

/// Reads addresses after their lengths, each of which comes with a socket, up to one that is empty.
fn reading(messages: &[Message], address: &str) -> Reading {
    let octets: Vec<u8> = messages.iter().flat_map(|message| &message.octets).copied().collect();
    // Where each message that has a socket begins and ends. No read goes beyond the end.
    let mut spans = Vec::new();
    let mut at = 0;
    for message in messages.iter().filter(|message| !message.octets.is_empty()) {
        if message.kind % KINDS != KINDS - 1 {
            spans.push((at, at + message.octets.len(), message.kind % KINDS));
        }
        at += message.octets.len();
    }
    let (mut at, mut taken) = (0, Vec::new());
    loop {
        let Some([high, low]) = octets.get(at..at + 2) else { return Reading::Fails };
        let with = spans.iter().find(|(start, ..)| (at..at + 2).contains(start));
        let Some((.., kind)) = with.filter(|(_, end, _)| *end >= at + 2) else { return Reading::Fails };
        let end = at + 2 + usize::from(u16::from_be_bytes([*high, *low]));
        let Some(text) = octets.get(at + 2..end) else { return Reading::Fails };
        let Ok(text) = str::from_utf8(text) else { return Reading::Fails };
        match text {
            "" => break,
            text if text == address => taken.push(*kind),
            _ => {}
        }
        at = end;
    }
    match taken[..] {
        [] => Reading::Binds,
        _ if taken.iter().any(|kind| *kind > 1) => Reading::Fails,
        _ => Reading::TakesOver { serves: taken.contains(&0) },
    }
}

/// The response of the server at that path.
fn ask(path: &Path) -> String {
    let mut stream = UnixStream::connect(path).expect("it is served");
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
    let mut received = String::new();
    stream.read_to_string(&mut received).expect("it is answered");
    received
}
