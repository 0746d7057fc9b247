//! In may_minihttp, as far as it goes: it reads no chunks, and has neither routes nor TLS.

use std::io::{self, BufRead};
use std::sync::Arc;
use std::thread::available_parallelism;

use may_minihttp::{HttpServer, HttpService, Request, Response};

use crate::environment::{dataset, port};
use crate::items::{Item, priced};

pub(super) fn serve() -> io::Result<()> {
    may::config().set_workers(available_parallelism()?.into());
    let server = HttpServer(Application(dataset()?)).start(("0.0.0.0", port("PORT", 8080)))?;
    server.join().map_err(|_| io::Error::other("may_minihttp ended"))
}

#[derive(Clone)]
struct Application(Arc<Vec<Item>>);

impl HttpService for Application {
    fn call(&mut self, request: Request, response: &mut Response) -> io::Result<()> {
        let path = request.path().strip_prefix("/json/").and_then(|path| path.split_once("?m="));
        let page = path.and_then(|(count, multiplier)| Some((count.parse().ok()?, multiplier.parse().ok()?)));
        match (request.method(), request.path(), page) {
            ("GET", _, Some((count, multiplier))) => {
                let content = serde_json::to_vec(&priced(&self.0, count, multiplier))?;
                response.header("Content-Type: application/json").body_vec(content);
            }
            ("GET", "/pipeline", _) => response.header("Content-Type: text/plain").body("ok"),
            ("POST", "/upload", _) => {
                let (mut body, mut len) = (request.body(), 0);
                while let count @ 1.. = body.fill_buf()?.len() {
                    body.consume(count);
                    len += count;
                }
                response.header("Content-Type: text/plain").body_vec(len.to_string().into_bytes());
            }
            _ => drop(response.status_code(404, "Not Found")),
        }
        Ok(())
    }
}
