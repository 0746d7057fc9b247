//! The crawler with reqwest, reqwest-middleware and reqwest-retry.

use std::collections::HashSet;
use std::env;
use std::error::Error;
use std::time::Duration;

use reqwest::Url;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_retry::RetryTransientMiddleware;
use reqwest_retry::policies::ExponentialBackoff;
use tokio::task::JoinSet;

const AT_ONCE: usize = 200;
const PAGES_MAX: usize = 100_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let start = Url::parse(&env::args().nth(1).ok_or("usage: crawler URL")?)?;
    let policy = ExponentialBackoff::builder()
        .retry_bounds(Duration::from_millis(1), Duration::from_millis(100))
        .build_with_max_retries(2);
    let client = reqwest::Client::builder().timeout(Duration::from_secs(60)).build()?;
    let client = ClientBuilder::new(client).with(RetryTransientMiddleware::new_with_policy(policy)).build();
    let mut known = HashSet::from([start.clone()]);
    let mut due = vec![start];
    let mut fetching = JoinSet::new();
    let (mut pages, mut failed) = (0, 0);
    loop {
        while fetching.len() < AT_ONCE
            && let Some(url) = due.pop()
        {
            fetching.spawn(links_of(client.clone(), url));
        }
        let Some(fetched) = fetching.join_next().await else { break };
        match fetched? {
            Ok(links) => {
                pages += 1;
                due.extend(
                    links.into_iter().filter(|it| known.len() < PAGES_MAX && known.insert(it.clone())),
                );
            }
            Err(error) => {
                failed += 1;
                eprintln!("{error}");
            }
        }
    }
    println!("{pages} pages, {failed} failed");
    Ok(())
}

/// Fetches a page, and returns what it links to on the same site.
async fn links_of(client: ClientWithMiddleware, url: Url) -> Result<Vec<Url>, reqwest_middleware::Error> {
    let response = client.get(url).send().await?.error_for_status()?;
    let page = response.url().clone();
    let text = response.text().await?;
    let references = text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let links = references.filter_map(|reference| page.join(reference).ok()).map(|mut link| {
        link.set_fragment(None);
        link
    });
    Ok(links.filter(|link| link.origin() == page.origin()).collect())
}
