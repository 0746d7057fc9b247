use corehttp::Server;
use corehttp::websocket::Settings;

fn main() -> corehttp::Result {
    let settings = Settings::default();
    Server::bind("127.0.0.1:0").run(settings)
}
