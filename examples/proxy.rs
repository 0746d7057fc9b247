//! A reverse proxy: `cargo run --release --example proxy -- BACKEND [ADDR]`.
//!
//! What comes in at ADDR (default `127.0.0.1:8080`) goes out to BACKEND, a URL such as `http://127.0.0.1:9000`. Both
//! bodies flow at the same time, piece by piece: a file of any size passes in constant memory.

use std::env;

use corehttp::{BodyPlan, Client, ClientError, Context, Error, Handler, Request, Response, Server, Status};

struct Proxy {
    backend: String,
    client: Client,
}

impl Handler for Proxy {
    fn on_head(&self, _: &Request) -> BodyPlan {
        BodyPlan::Stream
    }

    async fn handle(&self, ctx: &mut Context) -> corehttp::Result {
        let onward =
            ctx.request.target_to(&self.backend).map_err(|error| Error::new(Status::BAD_REQUEST, error))?;
        let mut call = self.client.open(&onward).await.map_err(bad_gateway)?;
        let mut body = ctx.body_reader();
        while let Some(chunk) = body.chunk().await? {
            call.write_all(chunk).await.map_err(bad_gateway)?;
        }
        let mut received = Response::new();
        let mut answer = call.finish(&mut received).await.map_err(bad_gateway)?;
        ctx.response = received;
        let mut out = ctx.stream().await?;
        while let Some(chunk) = answer.chunk().await.map_err(bad_gateway)? {
            out.write_all(chunk).await?;
            out.flush().await?;
        }
        Ok(out.finish().await?)
    }
}

fn bad_gateway(error: ClientError) -> Error {
    let status = if error.is_timeout() { Status::GATEWAY_TIMEOUT } else { Status::BAD_GATEWAY };
    Error::new(status, error)
}

fn main() -> corehttp::Result {
    let mut arguments = env::args().skip(1);
    let Some(backend) = arguments.next() else {
        println!("usage: proxy BACKEND [ADDR]");
        return Ok(());
    };
    let addr = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    let running = Server::bind(addr.as_str()).start(Proxy { backend, client: Client::new() })?;
    println!("http://{}", running.local_addr());
    running.wait()
}
