//! Gateways: a WebSocket passes through `Context::forward` by itself.

use corehttp::{
    BodyPlan, Client, CloseCode, Context, Message, Response, WebSocketSettings, block_on, with_plan,
};

use super::support::{HEAD, TEXT, close, echo, frame};
use crate::support::{ErrorReports, Served, eventually};

fn gateway(backend: String) -> Served {
    let client = Client::new();
    let pass = async move |ctx: &mut Context| -> corehttp::Result {
        let onward = ctx.request.forwarded_to(&backend)?;
        ctx.forward(client.open(&onward)).await
    };
    Served::new(with_plan(|_| BodyPlan::Stream, pass))
}

#[test]
fn a_websocket_passes_a_gateway() {
    let settings = WebSocketSettings { protocols: vec!["v1".into()], ..WebSocketSettings::default() };
    let offered = settings.clone();
    let behind = Served::new(async move |ctx: &mut Context| echo(ctx, &settings).await);
    let front = gateway(format!("http://{}", behind.addr()));
    block_on(async {
        let client = Client::new();
        let request = client.websocket(&format!("ws://{}/a", front.addr())).settings(&offered);
        let mut socket = request.await.unwrap();
        assert_eq!(socket.protocol.as_deref(), Some("v1"));
        for len in [3, 100_000, 900_000] {
            let bytes = vec![7; len];
            socket.send(&bytes).await.unwrap();
            assert_eq!(socket.receive().await.unwrap(), Some(Message::Binary(&bytes)));
        }
        socket.close(CloseCode::NORMAL, "").await.unwrap();
    })
    .unwrap();
    // Frames may come with the request.
    let mut peer = front.connect();
    peer.send([format!("{HEAD}\r\n").as_bytes(), &frame(TEXT, "early"), &close(1000, "")].concat());
    let received = peer.receive_all();
    assert!(received.contains("101 ") && received.contains("\u{5}early"), "{received}");
}

#[test]
fn a_refusal_passes_a_gateway() {
    let behind = Served::new(|ctx: &mut Context| ctx.response.set_text("no"));
    let front = gateway(format!("http://{}", behind.addr()));
    block_on(async {
        let mut response = Response::new();
        let request = Client::new().websocket(&format!("ws://{}/a", front.addr()));
        assert!(request.open_into(&mut response).await.is_err());
        assert_eq!(response.text().unwrap(), "no");
    })
    .unwrap();
}

/// Either end may vanish.
#[test]
fn an_end_on_one_side_ends_the_other() {
    let settings = WebSocketSettings::default();
    let behind = Served::new(async move |ctx: &mut Context| echo(ctx, &settings).await);
    let front = gateway(format!("http://{}", behind.addr()));
    let mut peer = front.connect();
    peer.send(format!("{HEAD}\r\n"));
    peer.receive();
    peer.reset();
    eventually("the server behind has noticed", || behind.running.stats().total.errors.incomplete == 1);
    let mut peer = front.connect();
    peer.send(format!("{HEAD}\r\n"));
    peer.receive();
    drop(behind);
    peer.receive_all();
}

/// The gateway stops: it closes with 1001, and the answer of the peer closes the server behind.
#[test]
fn a_stop_of_a_gateway_closes_both_sides_with_1001() {
    let (settings, reports) = (WebSocketSettings::default(), ErrorReports::default());
    let behind = Served::with(
        |server| reports.attach(server),
        async move |ctx: &mut Context| echo(ctx, &settings).await,
    );
    let front = gateway(format!("http://{}", behind.addr()));
    let mut socket = front.connect();
    socket.send(format!("{HEAD}\r\n"));
    socket.receive();
    socket.send(frame(TEXT, "a"));
    assert_eq!(socket.receive_through("a"), "\u{fffd}\u{1}a");
    front.running.stop(std::time::Duration::from_secs(30));
    assert_eq!(socket.receive_through("\u{3}").len(), 5);
    // Its last messages still reach the server behind, whose answers come too late.
    socket.send([frame(TEXT, "on its way"), close(1001, "")].concat());
    let rest = socket.receive_all();
    assert!(!rest.contains("on its way") && !rest.contains("Reset"), "{rest}");
    drop(socket);
    front.running.wait().unwrap();
    eventually("the server behind has closed", || behind.running.stats().total.open == 0);
    assert_eq!(behind.running.stats().total.messages_received, 2);
    assert_eq!(reports.take(), []);
}
