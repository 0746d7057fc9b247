//! `basics` of actix: some of everything.

use std::sync::Arc;

use corehttp::access_log::{AccessLog, Format};
use corehttp::fs::Files;
use corehttp::middleware::Compress;
use corehttp::middleware::wrap;
use corehttp::{
    Context, Error, Handler, Method, Result, Server, SetCookie, Status, cookies, routes, with_state,
};

pub fn main() -> Result {
    Server::bind("127.0.0.1:8080")
        .cores(2)
        .observe(AccessLog::open("/dev/stderr", Format::Common)?)
        .run(app()?)
}

fn app() -> Result<impl Handler + Send + Sync> {
    let key = Arc::new(cookies::Key::generate()?);
    let router = routes! {
        GET "/" => |ctx: &mut Context| -> Result {
            Ok(ctx.response.set_redirect(Status::FOUND, "/static/welcome.html")?)
        },
        GET "/favicon" => async |ctx: &mut Context| ctx.send_file(STATIC.to_owned() + "/favicon.svg").await,
        GET "/welcome" => with_state(&key, welcome),
        GET "/user/{name}" => greet,
        GET "/async-body/{name}" => greet_in_pieces,
        any "/test" => |ctx: &mut Context| match ctx.request.method() {
            Method::Get => Ok(()),
            Method::Post => Err(Status::METHOD_NOT_ALLOWED.into()),
            _ => Err(Status::NOT_FOUND.into()),
        },
        any "/error" => |_: &mut Context| Err(Error::other("test")),
        mount "/static" => Files::new(STATIC)?.listing(true),
        any "*" => not_found,
    };
    Ok(wrap(Compress::new(), router))
}

const STATIC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/ports/static");

/// Counts the visits of a browser, in a cookie that it cannot change.
fn welcome(key: &cookies::Key, ctx: &mut Context) -> Result {
    let visits = key.signed(ctx.request.cookies()).get("visits").and_then(|visits| visits.parse().ok());
    let visits = visits.map_or(1, |visits: u32| visits + 1).to_string();
    key.set_signed(
        &mut ctx.response,
        &SetCookie { secure: false, ..SetCookie::new_session("visits", &visits) },
    )?;
    ctx.response.set_html(include_str!("static/welcome.html"));
    Ok(())
}

fn greet(ctx: &mut Context) -> Result {
    ctx.response.set_text(format!("Hello {}!", ctx.params().get("name")?));
    Ok(())
}

async fn greet_in_pieces(ctx: &mut Context) -> Result {
    let name = ctx.params().get("name")?.into_owned();
    ctx.response.headers.set("content-type", "text/plain; charset=utf-8")?;
    let mut out = ctx.body_writer().await?;
    for piece in ["Hello ", &name, "!"] {
        out.write_all(piece.as_bytes()).await?;
    }
    Ok(out.finish().await?)
}

async fn not_found(ctx: &mut Context) -> Result {
    if ctx.request.method() != Method::Get {
        return Err(Status::METHOD_NOT_ALLOWED.into());
    }
    ctx.response.status = Status::NOT_FOUND;
    ctx.send_file(STATIC.to_owned() + "/404.html").await
}

#[cfg(test)]
mod tests {
    use corehttp::client::Redirects;
    use corehttp::{Client, Request, block_on};

    use super::*;

    /// Files are streams, so they are asked for over a connection.
    #[test]
    fn each_route_answers() {
        let server = Server::bind("127.0.0.1:0").cores(1).start(app().unwrap()).unwrap();
        let client = Client::builder().redirects(Redirects::Return).build();
        for (method, path, status, text) in [
            ("GET", "/", 302, ""),
            ("GET", "/favicon", 200, "<svg"),
            ("GET", "/user/Ada", 200, "Hello Ada!"),
            ("GET", "/async-body/Ada", 200, "Hello Ada!"),
            ("GET", "/test", 200, ""),
            ("POST", "/test", 405, ""),
            ("PUT", "/test", 404, ""),
            ("GET", "/error", 500, ""),
            ("GET", "/static/welcome.html", 200, "Welcome"),
            ("GET", "/static/", 200, "404.html"),
            ("GET", "/none", 404, "<h1>404</h1>"),
            ("POST", "/none", 405, ""),
        ] {
            let url = format!("http://{}{path}", server.local_addr());
            let response = block_on(client.request(method, &url)).unwrap().unwrap();
            assert_eq!(response.status.as_u16(), status, "{method} {path}");
            assert!(response.text().unwrap().contains(text), "{method} {path}");
        }
    }

    #[test]
    fn visits_are_counted_in_a_cookie() {
        let service = Server::new().service(app().unwrap());
        let key = cookies::Key::generate().unwrap();
        let mut request = Request::get("/welcome").unwrap();
        let mut forged = corehttp::Response::new();
        key.set_signed(&mut forged, &SetCookie::new_session("visits", "9")).unwrap();
        let mut cookie = forged.cookies().next().unwrap().value.to_owned();
        for visits in ["1", "2", "3"] {
            request.headers.set("cookie", format!("visits={cookie}")).unwrap();
            let response = block_on(service.respond(request.clone())).unwrap();
            cookie = response.cookies().next().unwrap().value.to_owned();
            assert_eq!(&cookie[43..], visits, "behind the signature of the cookie");
        }
    }
}
