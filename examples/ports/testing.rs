//! `testing` of axum: an app, and how it is tested.

use corehttp::access_log::{AccessLog, Format};
use corehttp::{Context, Handler, Result, Server, routes};
use serde_json::{Value, json};

pub fn main() -> Result {
    Server::bind("127.0.0.1:3000").observe(AccessLog::open("/dev/stderr", Format::Common)?).run(app())
}

fn app() -> impl Handler + Send + Sync {
    routes! {
        GET "/" => |ctx: &mut Context| ctx.response.set_text("Hello, World!"),
        POST "/json" => |ctx: &mut Context| -> Result {
            let data: Value = ctx.request.json()?;
            Ok(ctx.response.set_json(&json!({"data": data}))?)
        },
        GET "/requires-connect-info" => |ctx: &mut Context| {
            ctx.response.set_text(format!("Hi {}", ctx.peer_addr()));
        },
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use corehttp::{Client, Request, Status, block_on};

    use super::*;

    #[tokio::test]
    async fn hello_world() {
        let response = Server::new().service(app()).respond(Request::get("/").unwrap()).await;
        assert_eq!((response.status, response.text()), (Status::OK, Ok("Hello, World!")));
    }

    #[tokio::test]
    async fn echoes_json() {
        let mut request = Request::post("/json").unwrap();
        request.set_json(&[1, 2, 3, 4]).unwrap();
        let response = Server::new().service(app()).respond(request).await;
        assert_eq!(response.json::<Value>().unwrap(), json!({"data": [1, 2, 3, 4]}));
    }

    #[tokio::test]
    async fn not_found() {
        let request = Request::get("/does-not-exist").unwrap();
        assert_eq!(Server::new().service(app()).respond(request).await.status, Status::NOT_FOUND);
    }

    #[test]
    fn the_real_deal() {
        let server = Server::bind("127.0.0.1:0").cores(1).start(app()).unwrap();
        let url = format!("http://{}/", server.local_addr());
        let response = block_on(Client::new().get(&url)).unwrap().unwrap();
        assert_eq!(response.text(), Ok("Hello, World!"));
    }

    #[tokio::test]
    async fn several_requests() {
        let service = Server::new().service(app());
        for _ in 0..2 {
            assert_eq!(service.respond(Request::get("/").unwrap()).await.status, Status::OK);
        }
    }

    #[tokio::test]
    async fn the_address_of_the_peer() {
        let (service, peer) = (Server::new().service(app()), SocketAddr::from(([0, 0, 0, 0], 3000)));
        let request = Request::get("/requires-connect-info").unwrap();
        let response = service.respond_from(peer.into(), request).await;
        assert_eq!(response.text(), Ok("Hi 0.0.0.0:3000"));
    }
}
