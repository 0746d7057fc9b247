//! reqwest.

use std::net::SocketAddr;

use reqwest::{Client, Url};

use super::{Ask, Fault, Task, check};

pub(super) struct Reqwest {
    client: Client,
    task: Task,
    url: Url,
}

impl Reqwest {
    pub(super) fn new(client: &Client, task: Task, address: SocketAddr) -> Reqwest {
        let url = task.url(address).parse().expect("the URL is good");
        Reqwest { client: client.clone(), task, url }
    }
}

impl Ask for Reqwest {
    async fn ask(&mut self) -> Result<(), Fault> {
        let request = match self.task.content() {
            Some(content) => self.client.post(self.url.clone()).body(content),
            None => self.client.get(self.url.clone()),
        };
        check(&request.send().await?.bytes().await?, self.task)
    }
}
