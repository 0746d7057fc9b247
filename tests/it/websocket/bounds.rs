//! The bounds of a WebSocket: sizes, fragments, and floods.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use corehttp::websocket::{self, DeflateOptions, Message};
use corehttp::{Context, Server};

use super::compression::{OFFER, compressed, deflate};
use super::support::{
    BINARY, Echo, FIRST_BINARY, HEAD, LAST, MORE, PING, PONG, RSV1, TEXT, check_echo, check_with, close,
    frame, service, shown, talk,
};
use crate::protocol::turns::{Flood, most_in_a_turn};
use crate::support::paused;

fn small() -> websocket::Options {
    websocket::Options { message_max: 10, frame_max: 6, fragments_max: 4, ..websocket::Options::default() }
}

const TOO_LARGE: &str = "close 1009 \"\"";

#[test]
fn messages_and_frames_have_a_greatest_length() {
    let bye = close(1000, "");
    check_with(
        &small(),
        "",
        &[frame(TEXT, "123456"), bye.clone()].concat(),
        &["text \"123456\"", "close 1000 \"\""],
    );
    check_with(&small(), "", &frame(TEXT, "1234567"), &[TOO_LARGE]);
    let ten = [frame(FIRST_BINARY, "123456"), frame(LAST, "7890"), bye.clone()].concat();
    check_with(&small(), "", &ten, &["binary \"1234567890\"", "close 1000 \"\""]);
    check_with(&small(), "", &[frame(FIRST_BINARY, "123456"), frame(LAST, "78901")].concat(), &[TOO_LARGE]);
    // A length alone is refused, before any of it is here.
    check_with(&small(), "", &frame(BINARY, vec![0; 1 << 17])[..14], &[TOO_LARGE]);
    let endless = [BINARY, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    check_with(&websocket::Options::default(), "", &endless, &[TOO_LARGE]);
    let any = websocket::Options {
        message_max: usize::MAX,
        frame_max: usize::MAX,
        ..websocket::Options::default()
    };
    check_with(&any, "", &[&endless[..], b"a"].concat(), &[]);
}

#[test]
fn a_message_has_only_so_many_fragments() {
    let endless = [frame(FIRST_BINARY, ""), frame(MORE, "").repeat(3)].concat();
    let bye = [frame(LAST, ""), close(1000, "")].concat();
    check_with(
        &small(),
        "",
        &[&endless[..endless.len() - 6], &bye].concat(),
        &["binary \"\"", "close 1000 \"\""],
    );
    check_with(&small(), "", &[endless, bye].concat(), &["close 1008 \"\""]);
}

/// Parts of a message are not kept, so it may be of any size.
#[test]
fn parts_have_no_bounds() {
    let sent =
        [frame(FIRST_BINARY, "123456789"), frame(MORE, "").repeat(9), frame(LAST, "0"), close(1000, "")];
    paused(async {
        let (_, received) = talk(&service(Echo::Parts, &small()), "", &[&sent.concat()]).await;
        assert_eq!(shown(&received), ["02 \"123456789\"", "80 \"0\"", "close 1000 \"\""]);
    });
    check_echo(Echo::Parts, &small(), "", &close(1000, ""), &["close 1000 \"\""]);
}

#[test]
fn control_frames_may_not_flood() {
    let settings = websocket::Options { control_rate_max: 2, ..websocket::Options::default() };
    let burst = frame(PING, "").repeat(20);
    let pongs = ["pong \"\""; 20];
    check_with(&settings, "", &burst, &pongs);
    check_with(
        &settings,
        "",
        &[&burst[..], &frame(PING, "")].concat(),
        &[&pongs[..], &["close 1008 \"\""]].concat(),
    );
}

/// Pongs that were asked for are no flood.
#[test]
fn answers_to_pings_do_not_flood() {
    for (pongs, code) in [(40, 1000), (61, 1008)] {
        let settings = websocket::Options { control_rate_max: 2, ..websocket::Options::default() };
        let service = Server::new().service(async move |ctx: &mut Context| -> corehttp::Result {
            let mut socket = ctx.websocket(&settings).await?;
            for _ in 0..40 {
                socket.writer.ping(b"").await?;
            }
            while socket.receive().await?.is_some() {}
            Ok(())
        });
        let sent = [frame(PONG, "").repeat(pongs), close(1000, "")].concat();
        let (_, received) = paused(async { talk(&service, "", &[&sent]).await });
        let pings = ["ping \"\""; 40];
        assert_eq!(shown(&received), [&pings[..], &[&format!("close {code} \"\"")]].concat());
    }
}

/// A pong is seen as the time that its ping took. One that was not asked for is no answer.
#[test]
fn the_answer_to_a_ping_is_measured() {
    let service = Server::new().service(async |ctx: &mut Context| -> corehttp::Result {
        let mut socket = ctx.websocket(&websocket::Options::default()).await?;
        socket.receive().await?;
        assert_eq!(socket.writer.round_trip(), None);
        socket.writer.ping(b"p").await?;
        assert_eq!(socket.writer.round_trip(), None);
        socket.receive().await?;
        assert!(socket.writer.round_trip().is_some());
        Ok(socket.close(corehttp::websocket::CloseCode::NORMAL, "").await?)
    });
    let sent =
        [frame(PONG, "q"), frame(TEXT, "a"), frame(PONG, "p"), frame(TEXT, "b"), close(1000, "")].concat();
    let (_, received) = paused(async { talk(&service, "", &[&sent]).await });
    assert_eq!(shown(&received), ["ping \"p\"", "close 1000 \"\""]);
}

/// A peer that sends pings and reads nothing gets the answer to the last of them.
#[test]
fn pongs_do_not_pile_up() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    let settings = websocket::Options { buffer_max: 1000, ..websocket::Options::default() };
    let service = service(Echo::Whole, &settings);
    paused(async {
        let (mut near, far) = duplex(400);
        near.write_all(format!("{}\r\n", super::support::HEAD).as_bytes()).await.unwrap();
        let talk = async {
            for at in 0..900 {
                near.write_all(&frame(PING, format!("{at:0100}"))).await.unwrap();
            }
            let (mut received, second) = (Vec::new(), Duration::from_secs(1));
            while let Ok(Ok(1..)) = tokio::time::timeout(second, near.read_buf(&mut received)).await {}
            near.write_all(&close(1000, "")).await.unwrap();
            near.read_to_end(&mut received).await.unwrap();
            received
        };
        let (_, received) = tokio::join!(service.serve_connection(far), talk);
        let end = received.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
        let pongs = shown(&received[end..]);
        assert!(pongs.len() < 30, "{}", pongs.len());
        assert_eq!(pongs[pongs.len() - 2], format!("pong \"{:0100}\"", 899));
    });
}

/// A peer that sends `frames` for ever, without ever making the server wait, has no more than `most` bytes received in
/// `parts` or whole, or sent by it, before others have their turn.
#[track_caller]
fn check_turn(
    frames: &[u8],
    parts: bool,
    answer: Option<&'static [u8]>,
    most: std::ops::RangeInclusive<usize>,
) {
    let (done, deflate) = (Rc::<Cell<usize>>::default(), Some(DeflateOptions::default()));
    let settings = websocket::Options {
        deflate,
        message_max: 100 << 20,
        control_rate_max: u32::MAX / 20,
        ..websocket::Options::default()
    };
    let count = Rc::clone(&done);
    let handler = async move |ctx: &mut Context| -> corehttp::Result {
        let mut socket = ctx.websocket(&settings).await?;
        loop {
            let len = match parts {
                true => socket.reader.receive_part().await?.map(|part| part.bytes.len()),
                false => socket.receive().await?.map(|message| message.as_bytes().len()),
            };
            if let Some(answer) = answer {
                socket.send(Message::Binary(answer)).await?;
            }
            count.set(count.get() + answer.map_or(len.unwrap_or(0).max(1), <[u8]>::len));
        }
    };
    let flood = Flood::new(&format!("{HEAD}{OFFER}\r\n"), frames);
    let in_a_turn = most_in_a_turn(Server::new().service(handler), flood, &done);
    assert!(most.contains(&in_a_turn), "{in_a_turn} in a turn");
}

/// A little input may become a lot, and much input nothing.
#[test]
fn a_peer_whose_messages_are_compressed_takes_turns() {
    const TURN: usize = 256 << 10;
    let message = |len| frame(BINARY | RSV1, compressed(&mut deflate(), &vec![0; len]));
    check_turn(&message(20 << 10), false, None, TURN / 2..=TURN + (20 << 10));
    check_turn(&message(20 << 10), true, None, TURN / 2..=TURN + (20 << 10));
    check_turn(&message(10 << 20), true, None, TURN / 2..=TURN + (64 << 10));
    // A message that takes several turns is here in one of the next.
    check_turn(&message(1 << 20), false, None, 1 << 20..=1 << 20);
    // Answers that are compressed to little take time, too.
    check_turn(&frame(BINARY, ""), false, Some(&[0; 20 << 10]), TURN / 2..=TURN + (20 << 10));
}

#[test]
fn a_peer_with_many_messages_takes_turns() {
    check_turn(&frame(BINARY, ""), false, None, 500..=1024);
    check_turn(&frame(BINARY, ""), true, None, 500..=1024);
    let pings = [frame(PING, "").repeat(9), frame(BINARY, "")].concat();
    check_turn(&pings, false, None, 50..=103);
}
