//! Broadcasts: one message for many WebSockets, on all cores.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use corehttp::websocket::{self, Broadcast, CloseCode, DeflateOptions, Message, OnLag, WebSocket};
use corehttp::{Client, Context, Server, block_on};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::{spawn_local, yield_now};
use tokio::time::sleep;

use super::support::{HEAD, RSV1, TEXT, close, frame, read_all, shown};
use crate::protocol::turns::{Flood, most_in_a_turn};
use crate::support::{ErrorReports, Served, eventually, paused};

async fn chat(ctx: &mut Context, room: &Broadcast, settings: &websocket::Options) -> corehttp::Result {
    let mut socket = ctx.websocket(settings).await?;
    let WebSocket { reader, writer, .. } = &mut socket;
    let mut member = room.join(OnLag::Skip);
    tokio::select! {
        biased;
        done = member.forward(writer) => done?,
        done = pass_on(reader, room) => done?,
    }
    Ok(())
}

async fn pass_on(reader: &mut websocket::Reader, room: &Broadcast) -> io::Result<()> {
    while let Some(message) = reader.receive().await? {
        room.send(message);
    }
    Ok(())
}

#[test]
fn a_message_reaches_all_members_on_all_cores() {
    let (room, deflate) =
        (Broadcast::new(16), Some(DeflateOptions { message_min: 100, ..DeflateOptions::default() }));
    let settings = websocket::Options { deflate, ..websocket::Options::default() };
    let (shared, offered) = (room.clone(), settings.clone());
    let served = Served::with(
        |server| server.cores(2),
        async move |ctx: &mut Context| chat(ctx, &shared, &settings).await,
    );
    let url = format!("ws://{}/", served.addr());
    block_on(async {
        let (client, mut members) = (Client::new(), Vec::new());
        for at in 0..40 {
            let request = client.websocket(&url);
            let request = if at % 2 == 0 { request.options(&offered) } else { request };
            members.push(request.await.unwrap());
        }
        eventually("all have joined", || room.members() == 40);
        let long = "all work and no play ".repeat(2000);
        for text in ["short", &long] {
            members[7].send(text).await.unwrap();
            for member in &mut members {
                assert_eq!(member.receive().await.unwrap(), Some(Message::Text(text)));
            }
        }
        assert_eq!(room.send(b"from the server".as_slice()), 40);
        for mut member in members {
            assert_eq!(member.receive().await.unwrap(), Some(Message::Binary(b"from the server")));
            member.close(CloseCode::NORMAL, "").await.unwrap();
        }
        eventually("all have left", || room.members() == 0);
    })
    .unwrap();
}

/// To compress a message takes long, and what comes out is small.
#[test]
fn a_member_that_compresses_takes_turns() {
    for (text, turns_min) in [("x".repeat(64 << 10), 14), ("short".to_owned(), 1)] {
        let polled = Rc::<Cell<usize>>::default();
        let polls = Rc::clone(&polled);
        let forwards = async move |ctx: &mut Context| -> corehttp::Result {
            let deflate = Some(DeflateOptions::default());
            let mut socket =
                ctx.websocket(&websocket::Options { deflate, ..websocket::Options::default() }).await?;
            let room = Broadcast::new(64);
            let mut member = room.join(OnLag::Skip);
            (0..64).for_each(|_| _ = room.send(&text));
            drop(room);
            let mut forwarding = pin!(member.forward(&mut socket.writer));
            let counted = poll_fn(|cx| {
                polls.set(polls.get() + 1);
                forwarding.as_mut().poll(cx)
            });
            Ok(counted.await?)
        };
        let peer = Flood::new(&format!("{HEAD}{DEFLATE}\r\n"), "x");
        most_in_a_turn(Server::new().service(forwards), peer, &polled);
        assert!((turns_min..=turns_min + 4).contains(&polled.get()), "{} turns", polled.get());
    }
}

/// The bytes are the same for all members, compressed or not.
#[test]
fn a_message_is_encoded_once() {
    let (room, deflate) = (Broadcast::new(16), Some(DeflateOptions::default()));
    let settings = websocket::Options { deflate, ..websocket::Options::default() };
    let shared = room.clone();
    let served = Served::new(async move |ctx: &mut Context| chat(ctx, &shared, &settings).await);
    let small = DEFLATE.replace("deflate\r", "deflate; server_max_window_bits=9\r");
    let mut peers = [(); 5].map(|()| served.connect());
    for (peer, lines) in peers.iter_mut().zip(["", DEFLATE, DEFLATE, &small, &small]) {
        peer.send(format!("{HEAD}{lines}\r\n"));
        peer.receive();
    }
    eventually("all have joined", || room.members() == 5);
    // A repetition is out of sight of a small window.
    let scattered = |at: u32| char::from(b'a' + (at.wrapping_mul(2_654_435_761) >> 16) as u8 % 26);
    let line: String = (0..800).map(scattered).collect();
    room.send(&line.repeat(3));
    let received = peers.map(|mut peer| {
        peer.send(close(1000, ""));
        let mut received = Vec::new();
        std::io::Read::read_to_end(&mut peer.stream, &mut received).unwrap();
        received
    });
    assert_eq!((received[0][0], received[1][0]), (TEXT, TEXT | RSV1));
    assert!(received[1] == received[2] && received[3] == received[4] && received[3][0] == TEXT | RSV1);
    let lens = received.map(|received| received.len());
    assert!(lens[0] > 2400 && lens[1] < lens[3] && lens[3] < lens[0], "{lens:?}");
}

const DEFLATE: &str = "Sec-WebSocket-Extensions: permessage-deflate\r\n";

/// A member that reads nothing loses messages, and is skipped or closed.
#[test]
fn slow_members_are_skipped_or_closed() {
    for slow in [OnLag::Skip, OnLag::Close] {
        let (room, reports) = (Broadcast::new(2), ErrorReports::default());
        let shared = room.clone();
        let served = Served::with(
            |server| reports.attach(server),
            async move |ctx: &mut Context| -> corehttp::Result {
                let mut socket = ctx.websocket(&websocket::Options::default()).await?;
                // The member waits until it has lost some.
                let mut member = shared.join(slow);
                socket.receive().await?;
                tokio::select! {
                    done = member.forward(&mut socket.writer) => Ok(done?),
                    done = async { while socket.reader.receive().await?.is_some() {} io::Result::Ok(()) } => Ok(done?),
                }
            },
        );
        let mut peer = served.connect();
        peer.send(format!("{HEAD}\r\n"));
        peer.receive();
        eventually("it has joined", || room.members() == 1);
        (0..10).for_each(|at| assert_eq!(room.send(&format!("{at}")), 1));
        peer.send(frame(TEXT, "go"));
        match slow {
            OnLag::Skip => {
                assert_eq!(peer.receive_through("9"), "\u{fffd}\u{1}8\u{fffd}\u{1}9");
                peer.send(close(1000, ""));
                peer.receive_all();
                assert_eq!(reports.take(), []);
            }
            _ => {
                let mut received = Vec::new();
                std::io::Read::read_to_end(&mut peer.stream, &mut received).unwrap();
                assert_eq!(received, [0x88, 2, 0x03, 0xf5]);
                drop(served);
                let lost = "the peer has not kept up with a broadcast, and has lost 8 messages";
                assert_eq!(reports.take(), [(0, lost.to_owned())]);
            }
        }
    }
    // Without members, a message is sent to nobody.
    assert_eq!(Broadcast::new(1).send("a"), 0);
}

/// So is a member that falls behind while it is sent another message.
#[test]
fn members_that_fall_behind_meanwhile_are_skipped_or_closed() {
    for (slow, expected) in [
        (OnLag::Skip, &["text of 1000", "text \"8\"", "text \"9\""][..]),
        (OnLag::Close, &["text of 1000", "close 1013 \"\""]),
    ] {
        let room = Broadcast::new(2);
        let shared = room.clone();
        let settings = websocket::Options { buffer_max: 10, ..websocket::Options::default() };
        let service = Server::new().service(async move |ctx: &mut Context| -> corehttp::Result {
            let mut socket = ctx.websocket(&settings).await?;
            Ok(shared.join(slow).forward(&mut socket.writer).await?)
        });
        let (mut near, far) = duplex(400);
        let serve = async {
            let _ = service.serve_connection(far).await;
            std::future::pending::<()>().await
        };
        let talk = async {
            near.write_all(format!("{HEAD}\r\n").as_bytes()).await.unwrap();
            let mut received = Vec::new();
            while !received.ends_with(b"\r\n\r\n") || room.members() == 0 {
                let _ = tokio::time::timeout(Duration::from_millis(1), near.read_buf(&mut received)).await;
            }
            received.clear();
            room.send(&"x".repeat(1000));
            sleep(Duration::from_millis(1)).await;
            (0..10).for_each(|at| assert_eq!(room.send(&format!("{at}")), 1));
            read_all(&mut near, &mut received).await;
            received
        };
        let received = paused(async {
            tokio::select! { () = serve => Vec::new(), received = talk => received }
        });
        assert_eq!(shown(&received), expected, "{slow:?}");
    }
}

/// Each member gets each message once, and those of a thread in their order.
#[test]
fn messages_of_many_threads_reach_all_members() {
    const SENDERS: usize = 3;
    const EACH: usize = 300;
    let room = Broadcast::new(SENDERS * EACH);
    let shared = room.clone();
    let served = Served::with(
        |server| server.cores(2),
        async move |ctx: &mut Context| chat(ctx, &shared, &websocket::Options::default()).await,
    );
    let mut peers = [(); 12].map(|()| served.connect());
    for peer in &mut peers {
        peer.send(format!("{HEAD}\r\n"));
        peer.receive();
    }
    eventually("all have joined", || room.members() == peers.len());
    thread::scope(|scope| {
        for sender in 0..SENDERS {
            let room = &room;
            scope.spawn(move || {
                for at in 0..EACH {
                    room.send([sender as u8, at as u8, (at >> 8) as u8].as_slice());
                }
            });
        }
    });
    for peer in &mut peers {
        let mut next = [0; SENDERS];
        for _ in 0..SENDERS * EACH {
            let mut message = [0; 5];
            io::Read::read_exact(&mut peer.stream, &mut message).unwrap();
            let [0x82, 3, sender, low, high] = message else { panic!("{message:02x?}") };
            assert_eq!(u16::from_le_bytes([low, high]), next[usize::from(sender)]);
            next[usize::from(sender)] += 1;
        }
    }
}

/// The members of a broadcast that is over get what was sent before, and go on.
#[test]
fn a_broadcast_ends_with_its_last_clone() {
    for messages in [0, 1, 2] {
        let room = Broadcast::new(2);
        let member = Mutex::new(Some(room.join(OnLag::Skip)));
        let served = Served::new(async move |ctx: &mut Context| -> corehttp::Result {
            let mut socket = ctx.websocket(&websocket::Options::default()).await?;
            let member = member.lock().unwrap().take();
            member.unwrap().forward(&mut socket.writer).await?;
            Ok(socket.close(CloseCode::NORMAL, "over").await?)
        });
        let mut peer = served.connect();
        peer.send(format!("{HEAD}\r\n"));
        peer.receive();
        for _ in 0..messages {
            room.clone().send("a");
        }
        drop(room);
        let expected = format!("{}\u{fffd}\u{6}\u{3}\u{fffd}over", "\u{fffd}\u{1}a".repeat(messages));
        assert_eq!(peer.receive_through("over"), expected);
        peer.send(close(1000, ""));
        assert_eq!(peer.receive_all(), "");
    }
}

/// A message that comes behind the close frame of a stop is not sent, and the handler waits for its peer to close, too.
#[test]
fn a_stop_closes_members_with_1001() {
    let (room, reports) = (Broadcast::new(16), ErrorReports::default());
    let shared = room.clone();
    let served = Served::with(
        |server| reports.attach(server),
        async move |ctx: &mut Context| chat(ctx, &shared, &websocket::Options::default()).await,
    );
    let mut peers = [(); 3].map(|()| served.connect());
    for peer in &mut peers {
        peer.send(format!("{HEAD}\r\n"));
        peer.receive();
    }
    eventually("all have joined", || room.members() == peers.len());
    served.running.stop(Duration::from_secs(30));
    for peer in &mut peers {
        assert_eq!(peer.receive_through("\u{3}"), "\u{fffd}\u{2}\u{3}");
    }
    room.send("late");
    for mut peer in peers {
        peer.send([frame(TEXT, "on its way"), close(1001, "")].concat());
        assert_eq!(peer.receive_all(), "\u{fffd}");
    }
    served.running.wait().unwrap();
    assert_eq!(reports.take(), []);
}

/// A member whose WebSocket is closed is done with the next message, even if the reader is in another task.
#[test]
fn a_close_ends_a_member_in_a_task_of_its_own() {
    let (room, done) = (Broadcast::new(16), Arc::<AtomicBool>::default());
    let (shared, noted) = (room.clone(), done.clone());
    let served = Served::new(async move |ctx: &mut Context| -> corehttp::Result {
        let WebSocket { mut reader, mut writer, .. } = ctx.websocket(&websocket::Options::default()).await?;
        let (mut member, noted) = (shared.join(OnLag::Skip), noted.clone());
        spawn_local(async move { noted.store(member.forward(&mut writer).await.is_ok(), Relaxed) });
        assert!(reader.receive().await?.is_none());
        Ok(())
    });
    let mut peer = served.connect();
    peer.send(format!("{HEAD}\r\n"));
    peer.receive();
    eventually("it has joined", || room.members() == 1);
    peer.send(close(1000, ""));
    assert_eq!(peer.receive_all(), "\u{fffd}\u{2}\u{3}\u{fffd}");
    assert_eq!((done.load(Relaxed), room.send("late")), (false, 1));
    eventually("it is done", || done.load(Relaxed));
}

/// A message for many does not keep the core to itself.
#[test]
fn other_tasks_have_turns_while_a_message_is_sent() {
    const MEMBERS: usize = 400;
    let room = Broadcast::new(4);
    let shared = room.clone();
    let service =
        Rc::new(Server::new().service(async move |ctx: &mut Context| {
            chat(ctx, &shared, &websocket::Options::default()).await
        }));
    let received = Rc::<Cell<usize>>::default();
    let most = block_on(async {
        let mut peers = Vec::new();
        for _ in 0..MEMBERS {
            let (near, far) = duplex(4096);
            let (service, received) = (service.clone(), received.clone());
            spawn_local(async move { service.serve_connection(far).await });
            peers.push(spawn_local(receive_one(near, received)));
        }
        while room.members() < MEMBERS {
            yield_now().await;
        }
        let (received, sent) = (received.clone(), room.clone());
        let turns = spawn_local(async move {
            sent.send("a");
            let (mut before, mut most) = (0, 0);
            while before < MEMBERS {
                yield_now().await;
                most = most.max(received.get() - before);
                before = received.get();
            }
            most
        });
        turns.await.unwrap()
    });
    let most = most.unwrap();
    assert!(most < MEMBERS / 2, "{most} members in a turn");
}

/// Opens a WebSocket, and counts the message that comes.
async fn receive_one(mut near: DuplexStream, received: Rc<Cell<usize>>) -> DuplexStream {
    near.write_all(format!("{HEAD}\r\n").as_bytes()).await.unwrap();
    let mut wire = Vec::new();
    while !wire.ends_with(&[TEXT, 1, b'a']) {
        assert!(near.read_buf(&mut wire).await.unwrap() > 0, "{wire:02x?}");
    }
    received.set(received.get() + 1);
    near
}
