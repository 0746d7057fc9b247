//! [`Expectation`]: what the standards want an end to make of the octets of its peer (RFC 6455, RFC 7692).

use corehttp::websocket::Options;

use super::Outcome;
use super::inflate::Inflate;
use crate::oracle::Next;
use crate::oracle::websocket::{Event, FrameReader, Message, Sender, is_about_content, may_be_text};
use crate::settings::Settings;

/// All that decides what an end makes of the octets of its peer.
pub struct Expectation<'a> {
    pub settings: Settings,
    pub options: Options,
    pub wire: &'a [u8],
    pub sender: Sender,
}

/// Why an end received no more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// The connection has ended.
    Cut,
    Protocol,
    /// A text that is not UTF-8, or a message that cannot be decompressed.
    Content,
    /// More than the limits allow.
    Bound,
}

impl Expectation<'_> {
    /// Reads what the end has received, event by event, beside what it made of each.
    ///
    /// # Panics
    ///
    /// If it made something else of it.
    #[track_caller]
    pub fn check(&self, outcome: &Outcome) {
        let mut reader = FrameReader::new(self.wire, self.sender, self.settings.flag(2));
        let (mut inflate, mut controls) = (Inflate::new(self.settings.flag(3)), 0);
        let mut messages = outcome.messages.iter();
        let mut answers = Answers::new(self, &outcome.answers);
        let (close, faults): (_, &[Fault]) = loop {
            let next = reader.event();
            if matches!(next, Next::Whole(Event::Ping(_) | Event::Pong(_) | Event::Close(..))) {
                controls += 1;
            }
            // Fragments are read before the control frames between them.
            let (open, rule) = unfinished(&reader, &next);
            if let Some(message) = &open
                && let Err(faults) = self.content(message, false, &mut inflate.clone())
                // One library finds a fault some octets earlier than another, so this one may not be found yet.
                && (!message.is_compressed || is_one_of(outcome.fault, faults) && answers.are_over())
            {
                break (None, faults);
            }
            match next {
                Next::Whole(Event::Message(message)) => {
                    let mut before = inflate.clone();
                    match self.content(&message, true, &mut inflate) {
                        Ok(content) => {
                            let message = (message.is_text, content);
                            assert_eq!(messages.next(), Some(&message), "{self}");
                            answers.expect_message(&message);
                        }
                        // Where contexts are kept, a message that is cut short passes for a whole one.
                        Err(_) if message.is_compressed && self.settings.flag(3) && messages.len() > 0 => {
                            let Err(cut) = before.message(&message.content, true, self.options.message_max)
                            else {
                                panic!("a text that is none was received: {self}");
                            };
                            assert_eq!(messages.next(), Some(&(message.is_text, cut.before)), "{self}");
                            return;
                        }
                        Err(faults) => break (None, faults),
                    }
                }
                Next::Whole(_) if controls > 10 * self.options.control_rate_max => {
                    break (None, &[Fault::Bound]);
                }
                Next::Whole(Event::Ping(payload)) => answers.expect(Event::Pong(payload)),
                Next::Whole(Event::Pong(_)) => {}
                Next::Whole(Event::Close(code, text)) => break (Some((code, text)), &[]),
                Next::Nothing | Next::Partial(_) => break (None, &[Fault::Cut]),
                Next::Refused(..) if is_about_content(rule) => break (None, &[Fault::Content]),
                Next::Refused(..) => break (None, &[Fault::Protocol]),
            }
        };
        assert_eq!(messages.next(), None, "never said: {self}");
        assert_eq!(outcome.close, close, "{self}");
        let is_expected = faults.is_empty() && outcome.fault.is_none() || is_one_of(outcome.fault, faults);
        assert!(is_expected, "{:?}, and not one of {faults:?}: {self}", outcome.fault);
        answers.expect_end(outcome);
    }

    /// The content of a message, or of as much as there is of it; or the reasons for which it may be refused.
    fn content(
        &self,
        message: &Message,
        is_whole: bool,
        inflate: &mut Inflate,
    ) -> Result<Vec<u8>, &'static [Fault]> {
        let Options { message_max, frame_max, fragments_max, .. } = self.options;
        let is_beyond = message.frames > fragments_max as usize
            || message.longest > frame_max as u64
            || message.announced > message_max as u64;
        let (is_bounded, most) = match self.settings.flag(5) {
            true => (false, usize::MAX / 2),
            false => (true, message_max),
        };
        let (content, faults): (_, &[Fault]) = match message.is_compressed {
            true => {
                let faults = &[Fault::Content, Fault::Bound];
                (inflate.message(&message.content, is_whole, most).map_err(|_| faults.as_slice())?, faults)
            }
            false => (message.content.clone(), &[Fault::Content]),
        };
        match is_bounded && is_beyond {
            true if message.is_compressed => Err(faults),
            true => Err(&[Fault::Bound]),
            false if message.is_text && !may_be_text(&content, is_whole) => Err(faults),
            false => Ok(content),
        }
    }
}

/// The message of which the end is missing when `next` is read, and the rule that is broken.
fn unfinished(reader: &FrameReader<'_>, next: &Next<Event>) -> (Option<Message>, &'static str) {
    let (open, rule) = match next {
        Next::Whole(Event::Message(_)) | Next::Nothing => (None, ""),
        Next::Whole(_) => (reader.open(), ""),
        Next::Partial(open) => (open.clone(), ""),
        Next::Refused(open, rule) => (open.clone(), *rule),
    };
    match open {
        Some(Event::Message(message)) => (Some(message), rule),
        _ => (None, rule),
    }
}

fn is_one_of(fault: Option<Fault>, faults: &[Fault]) -> bool {
    fault.is_some_and(|fault| faults.contains(&fault))
}

impl std::fmt::Display for Expectation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.wire.escape_ascii().fmt(f)
    }
}

/// The frames that an end has sent.
struct Answers<'a> {
    asked: &'a Expectation<'a>,
    reader: FrameReader<'a>,
    inflate: Inflate,
}

impl<'a> Answers<'a> {
    fn new(asked: &'a Expectation<'a>, wire: &'a [u8]) -> Answers<'a> {
        let sender = match asked.sender {
            Sender::Client => Sender::Server,
            Sender::Server => Sender::Client,
        };
        let reader = FrameReader::new(wire, sender, asked.settings.flag(2));
        Answers { asked, reader, inflate: Inflate::new(asked.settings.flag(3)) }
    }

    #[track_caller]
    fn expect(&mut self, event: Event) {
        assert_eq!(self.reader.event(), Next::Whole(event), "answers {}", self.asked);
    }

    /// Whether there are no answers but the last one.
    fn are_over(&self) -> bool {
        matches!(self.reader.clone().event(), Next::Nothing | Next::Whole(Event::Close(..)))
    }

    /// The message is sent back, perhaps compressed.
    #[track_caller]
    fn expect_message(&mut self, (is_text, content): &(bool, Vec<u8>)) {
        let Next::Whole(Event::Message(message)) = self.reader.event() else {
            panic!("does not send back {content:?}: {}", self.asked)
        };
        let sent = match message.is_compressed {
            true => {
                self.inflate.message(&message.content, true, content.len()).expect("it is compressed well")
            }
            false => message.content,
        };
        assert_eq!((message.is_text, &sent), (*is_text, content), "sent back to {}", self.asked);
    }

    /// A close frame with the code that the end of it all asks for, and nothing after it (RFC 6455 §7.4.1).
    #[track_caller]
    fn expect_end(mut self, outcome: &Outcome) {
        let codes: &[u16] = match (&outcome.close, outcome.fault) {
            (Some((code, _)), _) => &[*code],
            (None, Some(Fault::Protocol)) => &[1002],
            (None, Some(Fault::Content)) => &[1007],
            (None, Some(Fault::Bound)) => &[1008, 1009],
            (None, Some(Fault::Cut) | None) => &[],
        };
        if !codes.is_empty() {
            let next = self.reader.event();
            let is_good = matches!(&next, Next::Whole(Event::Close(code, _)) if codes.contains(code));
            assert!(is_good, "{next:?}, and not one of {codes:?}: answers {}", self.asked);
        }
        assert_eq!(self.reader.event(), Next::Nothing, "answers {}", self.asked);
    }
}
