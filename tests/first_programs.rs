//! Programs of people in their first hour, who come from axum, actix, hyper, fasthttp or reqwest: all of these compile,
//! and do what is meant. `tests/compile_fail` has what cannot compile, with what the compiler says to write instead.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::error::Error as StdError;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::middleware::{Next, wrap};
use corehttp::net::MemoryListener;
use corehttp::{
    BoxHandler, Client, Context, Error, Handler, IntoHandler, Method, Request, Response, Server, Status,
};
use serde::Deserialize;

/// The response of `handler` to a GET of `path`.
fn get<Kind>(handler: impl IntoHandler<Kind>, path: &str) -> Response {
    respond(handler, Request::get(path).unwrap())
}

fn respond<Kind>(handler: impl IntoHandler<Kind>, request: Request) -> Response {
    corehttp::block_on(Server::new().service(handler).respond(request)).unwrap()
}

#[track_caller]
fn check<Kind>(handler: impl IntoHandler<Kind>, path: &str, status: u16, text: &str) {
    let response = get(handler, path);
    assert_eq!((response.status.as_u16(), response.text().unwrap()), (status, text));
}

mod closures {
    use super::*;

    async fn item(ctx: &mut Context) {
        ctx.response.set_text("item");
    }

    #[test]
    fn an_async_fn_is_a_handler() {
        check(item, "/", 200, "item");
    }

    #[test]
    fn an_async_closure_is_a_handler_and_may_end_with_ok() {
        let handler = async |ctx: &mut Context| {
            item(ctx).await;
            Err(Status::GONE)?;
            Ok(())
        };
        check(handler, "/", 410, "Gone");
        check(async |ctx: &mut Context| ctx.response.set_text("async"), "/", 200, "async");
    }

    /// As in axum: a block that does not borrow the context may outlive the call.
    #[test]
    fn a_closure_may_return_a_block_that_borrows_nothing() {
        check(|_: &mut Context| async { Err::<(), _>(Error::from(Status::GONE)) }, "/", 410, "Gone");
    }

    #[test]
    fn state_is_shared_by_arc_and_moved_in() {
        let hits = Arc::new(AtomicU32::new(0));
        let seen = hits.clone();
        let handler = async move |ctx: &mut Context| {
            ctx.response.set_text(hits.fetch_add(1, Ordering::Relaxed).to_string());
        };
        check(handler, "/", 200, "0");
        assert_eq!(seen.load(Ordering::Relaxed), 1);
        let names = Arc::new(Mutex::new(vec!["Ada"]));
        check(move |ctx: &mut Context| ctx.response.set_text(names.lock().unwrap()[0]), "/", 200, "Ada");
    }

    #[test]
    fn state_of_one_core_needs_no_lock() {
        let running = Server::bind(MemoryListener::new()).cores(1).start_per_core(async |_| {
            let hits = Rc::new(Cell::new(0));
            Ok(move |ctx: &mut Context| ctx.response.set_text(hits.replace(hits.get() + 1).to_string()))
        });
        running.unwrap().stop(Duration::ZERO);
    }

    /// Data that is copied out of the context can be moved into a task.
    #[test]
    fn work_is_spawned_with_owned_data() {
        let handler = async |ctx: &mut Context| -> corehttp::Result {
            let path = ctx.request.path().to_owned();
            let shouted = tokio::task::spawn_blocking(move || path.to_uppercase()).await?;
            ctx.response.set_text(shouted);
            Ok(())
        };
        check(handler, "/a", 200, "/A");
    }
}

mod views {
    use super::*;

    async fn greet(ctx: &mut Context, name: &str) -> corehttp::Result {
        ctx.response.set_text(format!("Hello, {name}!"));
        Ok(())
    }

    async fn write(response: &mut Response, name: &str) {
        response.set_text(format!("Hello, {name}!"));
    }

    #[derive(Deserialize)]
    struct Order<'a> {
        item: &'a str,
    }

    #[test]
    fn a_view_is_copied_before_the_context_is_lent_on() {
        let handler = async |ctx: &mut Context| {
            let name = ctx.request.path()[1..].to_owned();
            greet(ctx, &name).await
        };
        check(handler, "/Ada", 200, "Hello, Ada!");
    }

    #[test]
    fn request_and_response_are_lent_on_separately() {
        let handler = async |ctx: &mut Context| {
            let Context { request, response, .. } = ctx;
            write(response, &request.path()[1..]).await;
        };
        check(handler, "/Ada", 200, "Hello, Ada!");
    }

    #[test]
    fn the_request_is_taken_out_and_put_back() {
        let handler = async |ctx: &mut Context| {
            let request = std::mem::take(&mut ctx.request);
            let outcome = greet(ctx, &request.path()[1..]).await;
            ctx.request = request;
            outcome
        };
        check(handler, "/Ada", 200, "Hello, Ada!");
    }

    #[test]
    fn borrowed_json_is_kept_while_the_response_is_written() {
        let handler = async |ctx: &mut Context| {
            let Context { request, response, .. } = ctx;
            let order: Order<'_> = request.json()?;
            write(response, order.item).await;
            Ok(())
        };
        let mut request = Request::post("/").unwrap();
        request.set_json(&HashMap::from([("item", "tea")])).unwrap();
        assert_eq!(respond(handler, request.clone()).body.text(), Ok("Hello, tea!"));

        let handler = async |ctx: &mut Context| {
            let request = std::mem::take(&mut ctx.request);
            let order: Order<'_> = request.json()?;
            greet(ctx, order.item).await
        };
        assert_eq!(respond(handler, request).body.text(), Ok("Hello, tea!"));
    }
}

mod errors {
    use super::*;

    fn boxed() -> Result<(), Box<dyn StdError + Send + Sync>> {
        Err("boxed")?
    }

    fn boxed_for_one_thread() -> Result<(), Box<dyn StdError>> {
        Err("one thread")?
    }

    fn with_status() -> Result<(), Box<dyn StdError + Send + Sync>> {
        Err(Status::CONFLICT)?
    }

    #[track_caller]
    fn check(fail: fn() -> corehttp::Result, status: u16, text: &str) {
        let error = fail().unwrap_err();
        assert_eq!((error.status().as_u16(), error.to_string().as_str()), (status, text));
        assert_eq!(get(move |_: &mut Context| fail(), "/").status, status);
    }

    #[test]
    fn errors_of_libraries_convert_by_question_mark() {
        check(|| Err(std::io::Error::other("lost"))?, 500, "lost");
        check(|| Ok(_ = "x".parse::<u8>()?), 500, "invalid digit found in string");
        check(|| Ok(_ = "x".parse::<f64>()?), 500, "invalid float literal");
        let json = "expected value at line 1 column 1";
        check(|| Ok(serde_json::from_str::<()>("x")?), 500, json);
        check(|| Err(std::fmt::Error)?, 500, &std::fmt::Error.to_string());
    }

    #[test]
    fn errors_of_other_types_convert_by_name() {
        check(|| "x".parse::<u8>().map_err(|_| "text").map(drop).map_err(Error::other), 500, "text");
        check(|| Err(Error::other("text")), 500, "text");
        check(|| Err(Error::other(String::from("text"))), 500, "text");
        check(|| None.ok_or("none").map_err(Error::other)?, 500, "none");
        check(|| Err(anyhow::anyhow!("anyhow")).map_err(Error::other)?, 500, "anyhow");
        check(|| boxed().map_err(Error::other), 500, "boxed");
        let text = |error: Box<dyn StdError>| Error::other(error.to_string());
        assert_eq!(boxed_for_one_thread().map_err(text).unwrap_err().to_string(), "one thread");
        check(|| None.ok_or(Status::NOT_FOUND)?, 404, "404 Not Found");
        let bad = |error: anyhow::Error| Error::new(Status::BAD_REQUEST, error);
        assert_eq!(Err::<(), _>(anyhow::anyhow!("x")).map_err(bad).unwrap_err().status(), 400);
    }

    #[test]
    fn a_boxed_cause_may_choose_the_status() {
        check(|| with_status().map_err(Error::other), 409, "409 Conflict");
    }

    #[test]
    fn main_may_return_the_error_in_a_box() {
        fn start() -> Result<(), Box<dyn StdError>> {
            Ok(Server::new().run(|_: &mut Context| ())?)
        }
        fn start_to_send() -> Result<(), Box<dyn StdError + Send + Sync>> {
            Ok(Server::new().run(|_: &mut Context| ())?)
        }
        assert_eq!(start().unwrap_err().to_string(), start_to_send().unwrap_err().to_string());
    }
}

mod boxed {
    use super::*;

    struct Hello;

    impl Handler for Hello {
        fn on_head(&self, ctx: &mut Context) -> corehttp::BodyPlan {
            match ctx.request.path() {
                "/refused" => corehttp::BodyPlan::Refuse(Status::CONFLICT),
                _ => corehttp::BodyPlan::Buffer,
            }
        }

        async fn handle(&self, ctx: &mut Context) -> corehttp::Result {
            tokio::task::yield_now().await;
            ctx.response.set_text("hello");
            Ok(())
        }
    }

    fn is_for_all_cores<H: Handler + Send + Sync>(handler: H) -> H {
        handler
    }

    #[test]
    fn a_pointer_to_a_dyn_handler_is_a_handler() {
        let boxed: Box<dyn Handler + Send + Sync> = Box::new(Hello);
        check(is_for_all_cores(boxed), "/", 200, "hello");
        let shared: Arc<dyn Handler + Send + Sync> = Arc::new(Hello);
        check(is_for_all_cores(shared.clone()), "/", 200, "hello");
        check(shared, "/refused", 409, "Conflict");
        let boxed: Box<dyn Handler> = Box::new(Hello);
        check(boxed, "/refused", 409, "Conflict");
        let shared: Rc<dyn Handler> = Rc::new(Hello);
        check(shared.clone(), "/", 200, "hello");
        check(shared, "/refused", 409, "Conflict");
        check(Box::new(Hello), "/refused", 409, "Conflict");
        check(Hello.boxed(), "/refused", 409, "Conflict");
    }

    #[test]
    fn handlers_of_several_types_are_in_one_map() {
        struct Routes(HashMap<&'static str, Box<dyn Handler + Send + Sync>>);

        impl Handler for Routes {
            async fn handle(&self, ctx: &mut Context) -> corehttp::Result {
                let route = self.0.get(ctx.request.path()).ok_or(Status::NOT_FOUND)?;
                route.handle(ctx).await
            }
        }

        let routes = || {
            let closure = |ctx: &mut Context| ctx.response.set_text("closure");
            Routes(HashMap::from([
                ("/hello", Box::new(Hello) as Box<dyn Handler + Send + Sync>),
                ("/closure", Box::new(closure.into_handler())),
                (
                    "/boxed",
                    Box::new(BoxHandler::new(async |ctx: &mut Context| ctx.response.set_text("boxed"))),
                ),
            ]))
        };
        for (path, status, text) in [
            ("/hello", 200, "hello"),
            ("/closure", 200, "closure"),
            ("/boxed", 200, "boxed"),
            ("/none", 404, "Not Found"),
        ] {
            check(is_for_all_cores(routes()), path, status, text);
        }
    }

    #[test]
    fn middleware_is_generic_over_boxed_handlers_too() {
        async fn tag(ctx: &mut Context, next: Next<'_>) -> corehttp::Result {
            ctx.response.headers.set("x-tag", 1)?;
            next.handle(ctx).await
        }
        let inner: Box<dyn Handler + Send + Sync> = Box::new(Hello);
        let response = get(wrap(tag, inner), "/");
        assert_eq!((response.headers.get("x-tag"), response.text()), (Some("1"), Ok("hello")));
    }
}

mod addresses {
    use super::*;

    #[track_caller]
    fn check(server: Server) {
        let running = server.cores(1).start(|ctx: &mut Context| ctx.response.set_text("hi")).unwrap();
        let url = format!("http://{}/", running.local_addr());
        let client = Client::builder().build();
        let text =
            corehttp::block_on(async { client.get(&url).await.unwrap().body.text().map(String::from) });
        assert_eq!(text.unwrap().unwrap(), "hi");
        running.stop(Duration::ZERO);
        running.wait().unwrap();
    }

    #[test]
    fn an_address_is_spelled_in_many_ways() {
        let port: u16 = "0".parse().unwrap();
        let text = format!("127.0.0.1:{port}");
        check(Server::bind(("127.0.0.1", port)));
        let host = String::from("localhost");
        check(Server::bind((&host, port)));
        check(Server::bind((host, port)));
        check(Server::bind(("localhost", 0)));
        check(Server::bind("localhost:0"));
        check(Server::bind(&text));
        check(Server::bind(text));
        check(Server::bind(([127, 0, 0, 1], port)));
        check(Server::bind((Ipv4Addr::LOCALHOST, port)));
        check(Server::bind((IpAddr::from([127, 0, 0, 1]), port)));
        check(Server::bind(SocketAddr::from(([127, 0, 0, 1], port))));
        let addresses: [SocketAddr; 1] = ["127.0.0.1:0".parse().unwrap()];
        check(Server::bind(addresses[0]));
        for address in &addresses {
            check(Server::bind(address));
        }
        if std::net::TcpListener::bind("[::1]:0").is_ok() {
            check(Server::bind((Ipv6Addr::LOCALHOST, port)));
            check(Server::bind(0));
            check(Server::bind(":0"));
        }
    }
}

mod texts {
    use super::*;

    #[test]
    fn requests_are_made_of_strings() {
        let (method, url) = (String::from("PUT"), String::from("http://a/b"));
        for request in [
            Request::new(&method, &url),
            Request::new(method.as_str(), &url),
            Request::new("PUT", &url),
            Request::new(Method::Put, &url),
            Request::new(method.clone(), &url),
            Request::put(&url),
        ] {
            let request = request.unwrap();
            assert_eq!((request.method(), request.target().as_str()), (Method::Put, "http://a/b"));
        }
        assert!(Request::new(String::from("a b"), &url).is_err());
    }

    #[test]
    fn texts_of_all_types_are_content_and_fields() {
        let owned = String::from("text");
        let set: [fn(&mut Response, &String); 6] = [
            |response, owned| response.set_text(owned),
            |response, owned| response.set_text(owned.clone()),
            |response, owned| response.set_text(format!("{}{}", &owned[..2], &owned[2..])),
            |response, owned| response.set_text(Cow::from(owned)),
            |response, owned| response.set_text(owned.as_str()),
            |response, owned| response.set_text(owned.clone().into_boxed_str()),
        ];
        for set in set {
            let mut response = Response::new();
            set(&mut response, &owned);
            assert_eq!(response.text(), Ok("text"));
            response.headers.set("x-number", 7).unwrap();
            response.headers.set("x-owned", owned.clone()).unwrap();
            response.headers.set("x-lent", &owned).unwrap();
            response.headers.set("x-made", format!("{owned}-{}", 7)).unwrap();
            let values = ["x-number", "x-owned", "x-lent", "x-made"].map(|name| response.headers.get(name));
            assert_eq!(values, [Some("7"), Some("text"), Some("text"), Some("text-7")]);
            assert_eq!(response.headers.get("x-none").unwrap_or("none"), "none");
            assert_eq!(response.headers.get_bytes("x-none").unwrap_or(b"none"), b"none");
        }
    }

    #[test]
    fn a_status_is_compared_with_a_number_and_made_of_one() {
        let mut response = Response::new();
        assert!(response.status == 200 && response.status != 404);
        assert_eq!(response.status, 200);
        response.status = Status::new(404).unwrap();
        assert_eq!(response.status, Status::NOT_FOUND);
        response.status = 410.try_into().unwrap();
        assert_eq!(response.status, Status::GONE);
    }
}

#[cfg(unix)]
mod stopping {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::process::{self, Command};
    use std::sync::mpsc;
    use std::task::Poll;

    use super::*;

    #[test]
    fn a_server_stops_on_ctrl_c_and_on_sigterm() {
        for signal in ["INT", "TERM"] {
            let (tell, told) = mpsc::channel();
            let asked = async move {
                let mut asked = pin!(corehttp::shutdown_signal());
                let polled = poll_fn(|cx| Poll::Ready(asked.as_mut().poll(cx))).await;
                tell.send(polled.is_pending()).unwrap();
                asked.await
            };
            let server = Server::bind(MemoryListener::new()).cores(1).stop_on(asked, Duration::ZERO);
            let running = server.start(|_: &mut Context| ()).unwrap();
            assert!(told.recv().unwrap(), "nobody has sent a signal");
            let kill = format!("kill -{signal} {}", process::id());
            assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
            running.wait().unwrap();
        }
    }
}

/// The advice of the compiler, taken.
mod advice {
    use std::sync::PoisonError;

    use super::*;

    fn boxed() -> Result<(), Box<dyn StdError>> {
        Ok(())
    }

    fn owned() -> Result<(), Box<dyn StdError + Send + Sync>> {
        Ok(())
    }

    fn count(visits: &Mutex<u64>) -> corehttp::Result<u64> {
        *visits.lock().map_err(|error| corehttp::Error::other(error.to_string()))? += 1;
        Ok(*visits.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn handler(ctx: &mut Context) -> corehttp::Result {
        boxed().map_err(|error| corehttp::Error::other(error.to_string()))?;
        owned().map_err(corehttp::Error::other)?;
        Some(()).ok_or("no user").map_err(corehttp::Error::other)?;
        Some(()).ok_or("no user").map_err(|error| corehttp::Error::other(error.to_string()))?;
        ctx.response.set_text(count(&Mutex::new(0))?.to_string());
        Ok(())
    }

    #[test]
    fn it_compiles() {
        check(handler, "/", 200, "1");
    }
}
