//! reqwest.

use std::net::SocketAddr;

use reqwest::Client;

use super::{Ask, Fault, Task, check};

pub(super) struct Reqwest {
    client: Client,
    task: Task,
    url: String,
}

impl Reqwest {
    pub(super) fn new(client: &Client, task: Task, address: SocketAddr) -> Reqwest {
        Reqwest { client: client.clone(), task, url: task.url(address) }
    }
}

impl Ask for Reqwest {
    async fn ask(&mut self) -> Result<(), Fault> {
        let request = match self.task.content() {
            Some(content) => self.client.post(&self.url).body(content),
            None => self.client.get(&self.url),
        };
        check(&request.send().await?.bytes().await?, self.task)
    }
}
