//! A reverse proxy: `cargo run --release --example proxy -- BACKEND [ADDR]`.
//!
//! What comes in at ADDR (default `127.0.0.1:8080`) goes out to BACKEND, a URL such as `http://127.0.0.1:9000`. Both
//! bodies flow at the same time, piece by piece, with their trailers behind them: files of any size pass in constant
//! memory, and so does a backend that answers while it reads.

use std::env;

use corehttp::{
    BodyPlan, CallReader, CallWriter, Client, ClientError, Context, Error, Handler, Reader, Request,
    Response, Server, Writer,
};

struct Proxy {
    backend: String,
    client: Client,
}

impl Handler for Proxy {
    fn on_head(&self, _: &Request) -> BodyPlan {
        BodyPlan::Stream
    }

    async fn handle(&self, ctx: &mut Context) -> corehttp::Result {
        let mut onward = ctx.request.target_to(&self.backend)?;
        // Who sends on says so (RFC 9110 §7.6.3).
        onward.headers.append("via", format!("{} corehttp", ctx.request.version()))?;
        let (writer, mut answer) = self.client.open(&onward).await.map_err(owed)?.split();
        let (mut pump, mut response) = (Pump { writer, piece: Vec::new(), sent: 0 }, Response::new());
        let mut body = ctx.body_reader();
        tokio::select! {
            head = answer.head(&mut response) => head.map_err(owed)?,
            sent = pump.run(&mut body) => {
                sent?;
                answer.head(&mut response).await.map_err(owed)?;
            }
        }
        ctx.response = response.forwarded();
        let (mut body, out) = ctx.duplex().await?;
        tokio::try_join!(pump.run(&mut body), relay(answer, out)).map(drop)
    }
}

/// What brings the request's body to the backend. It can be stopped at any time, and goes on where it was.
struct Pump {
    writer: CallWriter,
    piece: Vec<u8>,
    /// So much of the piece has gone out.
    sent: usize,
}

impl Pump {
    async fn run(&mut self, body: &mut Reader<'_>) -> corehttp::Result {
        loop {
            while self.sent < self.piece.len() {
                self.sent += self.writer.write(&self.piece[self.sent..]).await.map_err(owed)?;
            }
            let Some(chunk) = body.chunk().await? else { break };
            self.piece.clear();
            self.piece.extend_from_slice(chunk);
            self.sent = 0;
        }
        self.writer.finish_with(body.trailers()).await.map_err(owed)
    }
}

/// Brings the answer's body to whoever has asked.
async fn relay(mut answer: CallReader, mut out: Writer<'_>) -> corehttp::Result {
    while let Some(chunk) = answer.chunk().await.map_err(owed)? {
        out.write_all(chunk).await?;
        out.flush().await?;
    }
    Ok(out.finish_with(answer.trailers()).await?)
}

fn owed(error: ClientError) -> Error {
    Error::new(error.owed(), error)
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
