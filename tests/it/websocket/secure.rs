//! WebSockets over TLS, straight and through the tunnel of a proxy, with the fields of their client (RFC 6455 §4.1).

use corehttp::client::{Proxies, Proxy};
use corehttp::middleware::wrap;
use corehttp::tls::{self, ClientTls, ServerTls};
use corehttp::websocket::{self, CloseCode, Message};
use corehttp::{BodyPlan, Client, Context, Method, Server, block_on};
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;

use crate::support::Served;
use crate::support::certificates::Authority;

/// A proxy that opens tunnels.
fn proxy() -> Served {
    Served::new(wrap(BodyPlan::Tunnel, async |ctx: &mut Context| -> corehttp::Result {
        assert_eq!(ctx.request.method(), Method::Connect);
        let mut behind = TcpStream::connect(ctx.request.target().as_str()).await?;
        let mut near = ctx.accept_tunnel().await?;
        copy_bidirectional(&mut near, &mut behind).await?;
        Ok(())
    }))
}

#[test]
fn a_secure_websocket_opens_with_and_without_a_proxy() {
    let authority = Authority::new("ours");
    let issued = authority.issue(&["127.0.0.1"]);
    let identity = tls::Identity::from_pem(&issued.chain, &issued.key).unwrap();
    let served = Served::with(
        |server: Server| server.tls(ServerTls::new(identity)),
        async |ctx: &mut Context| -> corehttp::Result {
            let token = ctx.request.bearer_auth().unwrap_or("none").to_owned();
            let has_field = ctx.request.headers.get_bytes("x-room") == Some(b"7".as_slice());
            let mut socket = ctx.websocket(&websocket::Options::default()).await?;
            let received = socket.receive().await?.map_or(0, |message| message.as_bytes().len());
            socket.send(&format!("{token} {has_field} {received}")).await?;
            Ok(socket.close(CloseCode::NORMAL, "").await?)
        },
    );
    let proxy = proxy();
    let builder = || {
        let roots = tls::Roots::from_pem(authority.pem()).unwrap();
        Client::builder().tls(ClientTls::new().roots(roots))
    };
    let through = Proxies::all(Proxy::new(&format!("http://{}", proxy.addr())).unwrap());
    for client in [builder().build(), builder().proxies(through).build()] {
        block_on(async {
            let request = client.websocket(&format!("wss://{}/", served.addr()));
            let mut socket = request.bearer_auth("t0k3n").header("x-room", "7").await.unwrap();
            socket.send(&vec![7; 300_000]).await.unwrap();
            assert_eq!(socket.receive().await.unwrap(), Some(Message::Text("t0k3n true 300000")));
            assert_eq!(socket.receive().await.unwrap(), None);
        })
        .unwrap();
    }
    assert_eq!(proxy.running.counts().total.requests, 1);
}
