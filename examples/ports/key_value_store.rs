//! `key-value-store` of axum: values of any type under keys, in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use corehttp::access_log::{AccessLog, Format};
use corehttp::middleware::{Compress, ConcurrencyLimit};
use corehttp::middleware::{guard, limits, wrap};
use corehttp::{Context, Handler, Result, Server, Status, Timeouts, routes, with_state};

pub fn main() -> Result {
    let timeouts = Timeouts { handler: Some(Duration::from_secs(10)), ..Timeouts::default() };
    Server::bind("127.0.0.1:3000")
        .timeouts(timeouts)
        .observe(AccessLog::open("/dev/stderr", Format::Common)?)
        .run(app())
}

fn app() -> impl Handler + Send + Sync {
    let store = Arc::new(Store::default());
    let router = routes! {
        GET "/{key}" => wrap(Compress::new(), with_state(&store, get)),
        POST "/{key}" => wrap(limits(|limits| limits.body_max = 5000 << 10), with_state(&store, set)),
        GET "/keys" => with_state(&store, keys),
        wrap guard(is_admin) => {
            DELETE "/admin/keys" => with_state(&store, delete_all),
            DELETE "/admin/key/{key}" => with_state(&store, delete),
        },
    };
    wrap(ConcurrencyLimit::new(1024), router)
}

type Store = RwLock<BTreeMap<String, Vec<u8>>>;

fn get(store: &Store, ctx: &mut Context) -> Result {
    let store = store.read().unwrap();
    let value = store.get(&*ctx.params().get("key")?).ok_or(Status::NOT_FOUND)?;
    Ok(ctx.response.set_bytes("application/octet-stream", value)?)
}

fn set(store: &Store, ctx: &mut Context) -> Result {
    let key = ctx.params().get("key")?.into_owned();
    store.write().unwrap().insert(key, ctx.request.bytes().to_vec());
    Ok(())
}

fn keys(store: &Store, ctx: &mut Context) {
    let store = store.read().unwrap();
    ctx.response.set_text(Vec::from_iter(store.keys().map(String::as_str)).join("\n"));
}

fn delete_all(store: &Store, _: &mut Context) {
    store.write().unwrap().clear();
}

fn delete(store: &Store, ctx: &mut Context) -> Result {
    store.write().unwrap().remove(&*ctx.params().get("key")?);
    Ok(())
}

fn is_admin(ctx: &mut Context) -> Result {
    if ctx.request.bearer_auth() == Some("secret-token") { Ok(()) } else { Err(Status::UNAUTHORIZED.into()) }
}

#[cfg(test)]
mod tests {
    use corehttp::{Request, block_on};

    use super::*;

    #[test]
    fn values_are_set_listed_and_deleted_by_the_administrator() {
        let service = Server::new().service(app());
        let ask = |method: &str, path: &str, token: &str, body: &[u8]| {
            let mut request = Request::new(method, path).unwrap();
            request.set_bearer_auth(token).unwrap();
            request.set_bytes("text/plain", body).unwrap();
            let response = block_on(service.respond(request)).unwrap();
            (response.status.as_u16(), response.text().unwrap().to_owned())
        };
        let ok = |text: &str| (200, text.to_owned());
        assert_eq!(ask("GET", "/a", "-", b"").0, 404);
        assert_eq!(ask("POST", "/a", "-", b"one"), ok(""));
        assert_eq!(ask("POST", "/b%2Fc", "-", &vec![b'x'; 5000 << 10]), ok(""));
        assert_eq!(ask("POST", "/d", "-", &vec![b'x'; (5000 << 10) + 1]).0, 413);
        assert_eq!(ask("GET", "/a", "-", b""), ok("one"));
        assert_eq!(ask("GET", "/keys", "-", b""), ok("a\nb/c"));
        assert_eq!(ask("DELETE", "/admin/key/a", "-", b"").0, 401);
        assert_eq!(ask("DELETE", "/admin/key/a", "secret-token", b""), ok(""));
        assert_eq!(ask("GET", "/keys", "-", b""), ok("b/c"));
        assert_eq!(ask("DELETE", "/admin/keys", "secret-token", b""), ok(""));
        assert_eq!(ask("GET", "/keys", "-", b""), ok(""));
    }
}
