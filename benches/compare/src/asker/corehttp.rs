//! corehttp's client.

use std::net::SocketAddr;

use corehttp::client::ClientLimits;
use corehttp::{Client, Request, Response};

use super::{Ask, Fault, Task, check};

pub(super) fn client() -> Client {
    Client::builder()
        .limits(ClientLimits { connections_per_host_max: 2_000, ..ClientLimits::default() })
        .build()
}

pub(super) struct Corehttp {
    client: Client,
    task: Task,
    request: Request,
    response: Response,
}

impl Corehttp {
    pub(super) fn new(client: &Client, task: Task, address: SocketAddr) -> Corehttp {
        let method = if task.content().is_some() { "POST" } else { "GET" };
        let mut request = Request::new(method, &task.url(address)).expect("the URL is good");
        if let Some(content) = task.content() {
            request.body.set_shared_bytes(content);
        }
        Corehttp { client: client.clone(), task, request, response: Response::new() }
    }
}

impl Ask for Corehttp {
    async fn ask(&mut self) -> Result<(), Fault> {
        self.client.send(&self.request, &mut self.response).await?;
        check(self.response.body.bytes(), self.task)
    }
}
