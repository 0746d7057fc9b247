use corehttp::{Context, Server};

fn main() -> corehttp::Result {
    Server::bind("127.0.0.1:0").run(|ctx: &mut Context| {
        let language = ctx.request.headers.get_bytes("accept-language").unwrap_or("en");
        println!("{language:?}");
    })
}
