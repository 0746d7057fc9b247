//! hyper-util's client.

use std::net::SocketAddr;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use super::{Ask, Fault, Task, check};

pub(super) fn client() -> Client<HttpConnector, Full<Bytes>> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    Client::builder(TokioExecutor::new()).build(connector)
}

pub(super) struct HyperUtil {
    client: Client<HttpConnector, Full<Bytes>>,
    task: Task,
    uri: Uri,
}

impl HyperUtil {
    pub(super) fn new(
        client: &Client<HttpConnector, Full<Bytes>>,
        task: Task,
        address: SocketAddr,
    ) -> HyperUtil {
        let uri = task.url(address).parse().expect("the URL is good");
        HyperUtil { client: client.clone(), task, uri }
    }
}

impl Ask for HyperUtil {
    async fn ask(&mut self) -> Result<(), Fault> {
        let content = self.task.content();
        let mut request =
            Request::new(content.map_or_else(Full::default, |it| Full::new(Bytes::from_static(it))));
        *request.method_mut() = if content.is_some() { Method::POST } else { Method::GET };
        *request.uri_mut() = self.uri.clone();
        let response = self.client.request(request).await?;
        check(&response.into_body().collect().await?.to_bytes(), self.task)
    }
}
