//! A crawler: `cargo run --release --example crawler -- URL`.
//!
//! Fetches the pages of a site that links lead to, 200 at once. A page that fails for a moment is fetched again, within a
//! budget.

use std::collections::HashSet;
use std::env;
use std::time::Duration;

use corehttp::client::{ClientLimits, Retry};
use corehttp::{Client, ClientError, Request, Response};
use tokio::task::JoinSet;

const AT_ONCE: usize = 200;
const PAGES_MAX: usize = 100_000;

fn main() -> corehttp::Result {
    let Some(start) = env::args().nth(1) else { return Err(corehttp::Error::other("usage: crawler URL")) };
    corehttp::block_on(crawl(start))?
}

async fn crawl(start: String) -> corehttp::Result {
    let limits = ClientLimits { connections_per_host_max: AT_ONCE, ..ClientLimits::default() };
    let client =
        Client::builder().limits(limits).retry(Retry::new()).timeout(Duration::from_secs(60)).build();
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
                eprintln!("{error:#}");
            }
        }
    }
    println!("{pages} pages, {failed} failed, {} retries", client.counts().total.retries_by_policy);
    Ok(())
}

/// Fetches a page, and returns what it links to on the same site.
async fn links_of(client: Client, url: String) -> Result<Vec<String>, ClientError> {
    let (page, mut response) = (Request::get(&url)?, Response::new());
    client.send(&page, &mut response).await?;
    let response = response.error_for_status()?;
    let page = match &response.url {
        Some(redirected) => Request::get(redirected)?,
        None => page,
    };
    let site = page.target().join("/")?;
    let text = String::from_utf8_lossy(response.body.bytes());
    let references = text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let links = references.filter_map(|reference| page.target().join(reference).ok());
    let links = links.filter(|link| link.as_str().starts_with(site.as_str()));
    Ok(links.map(|link| link.as_str().to_owned()).collect())
}
