use corehttp::{Context, Server};

fn handler(_: &mut Context) -> &'static str {
    "hi"
}

fn main() -> corehttp::Result {
    Server::bind("127.0.0.1:0").run(handler)
}
