//! The application in may_minihttp, as far as it goes, with one worker.

use std::io::{self, Read};

use may_minihttp::{HttpServer, HttpService, Request, Response};

use super::free_address;
use crate::application::{HELLO, page_json};
use crate::child::announce;

pub(super) fn serve() -> io::Result<()> {
    may::config().set_workers(1);
    let address = free_address()?;
    let server = HttpServer(Application).start(address)?;
    announce(address);
    server.join().map_err(|_| io::Error::other("may_minihttp ended"))
}

#[derive(Clone)]
struct Application;

impl HttpService for Application {
    fn call(&mut self, request: Request, response: &mut Response) -> io::Result<()> {
        match (request.method(), request.path()) {
            ("GET", "/") => response.header("Content-Type: text/plain").body(HELLO),
            ("GET", "/json") => response.header("Content-Type: application/json").body_vec(page_json()),
            ("POST", "/") => {
                let mut body = Vec::new();
                request.body().read_to_end(&mut body)?;
                response.header("Content-Type: text/plain").body_vec(body);
            }
            _ => drop(response.status_code(404, "Not Found")),
        }
        Ok(())
    }
}
