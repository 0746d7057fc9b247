//! The bounds of a WebSocket: sizes, fragments, and floods.

use std::time::Duration;

use corehttp::WebSocketSettings;

use super::support::{
    BINARY, Echo, FIRST_BINARY, LAST, MORE, PING, TEXT, check_echo, check_with, close, frame, service, shown,
    talk,
};
use crate::support::paused;

fn small() -> WebSocketSettings {
    WebSocketSettings { message_max: 10, frame_max: 6, fragments_max: 4, ..WebSocketSettings::default() }
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
    check_with(&WebSocketSettings::default(), "", &endless, &[TOO_LARGE]);
    let any =
        WebSocketSettings { message_max: usize::MAX, frame_max: usize::MAX, ..WebSocketSettings::default() };
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
    let settings = WebSocketSettings { control_rate_max: 2, ..WebSocketSettings::default() };
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

/// A peer that sends pings and reads nothing gets the answer to the last of them.
#[test]
fn pongs_do_not_pile_up() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    let settings = WebSocketSettings { waiting_max: 1000, ..WebSocketSettings::default() };
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
