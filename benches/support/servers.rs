//! The application of `handlers.rs` on real sockets, in corehttp and in hyper, on one core each.

use std::net::SocketAddr;

use corehttp::Server;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;

use crate::child::announce;
use crate::handlers::{SERVER_NAME, hyper_builder, hyper_respond, respond};

pub fn serve_corehttp() {
    let server = Server::bind("127.0.0.1:0").cores(1).name(SERVER_NAME).expect("a valid name");
    let running = server.start(respond).expect("a free port");
    announce(running.local_addr());
    running.wait().expect("corehttp serves for ever");
}

/// hyper as fast as it goes on one core: a runtime of one thread, and no wait for more to write.
pub fn serve_hyper() {
    let builder = hyper_builder();
    serve_tokio(|stream| {
        let connection = builder.serve_connection(TokioIo::new(stream), service_fn(hyper_respond));
        // The load hangs up when it has enough: how a connection ended is no news.
        tokio::spawn(async { drop(connection.await) });
    });
}

/// Has `serve` take each connection, in a runtime of one thread.
pub fn serve_tokio(serve: impl Fn(TcpStream)) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let any: SocketAddr = ([127, 0, 0, 1], 0).into();
        let listener = TcpListener::bind(any).await.expect("a free port");
        announce(listener.local_addr().expect("it is bound"));
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            stream.set_nodelay(true).expect("a socket");
            serve(stream);
        }
    });
}
