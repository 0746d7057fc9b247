//! A `Result` in the place of its value.

use std::io::stderr;

use corehttp::access_log::{AccessLog, Format};
use corehttp::fs::Files;
use corehttp::middleware::{Cors, wrap};
use corehttp::{Client, Context, Server, routes};

fn main() {
    let _ = routes! { mount "/static" => Files::new("public") };
    let _ = wrap(Cors::new().allow_origin("https://app.example"), |_: &mut Context| ());
    let _ = Server::new().observe(AccessLog::open("access.log", Format::Json));
    let _ = Client::builder().observe(AccessLog::from_writer(stderr(), Format::Json));
}
