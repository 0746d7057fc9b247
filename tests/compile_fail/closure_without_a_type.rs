use corehttp::Server;

fn main() -> corehttp::Result {
    Server::bind("127.0.0.1:0").start(|ctx| ctx.response.set_text("hello"))?;
    Server::bind("127.0.0.1:0").run(|ctx| async move { ctx.response.set_text("hello") })
}
