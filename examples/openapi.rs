//! An OpenAPI document of a service, by the crate utoipa: `cargo run --release --example openapi --features openapi -- [ADDR]`.
//!
//! The documentation of an operation stands at its handler. The router lists its routes, so the program refuses to start if one
//! of them is not documented, or if an operation is documented that no route has.
//!
//! ```text
//! curl http://127.0.0.1:8080/openapi.json
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use corehttp::{Context, Handler, Result, Router, Server, Status, routes, shutdown_signal};
use serde::Serialize;
use utoipa::openapi::PathItem;
use utoipa::{OpenApi, ToSchema};

/// A note.
#[derive(Serialize, ToSchema)]
struct Note {
    id: u64,
    text: String,
}

#[derive(OpenApi)]
#[openapi(info(title = "Notes"), paths(list, show, remove))]
struct Document;

/// All notes.
#[utoipa::path(get, path = "/notes", responses((status = 200, body = [Note])))]
fn list(ctx: &mut Context) -> Result {
    ctx.response.set_json(&[note(1)])?;
    Ok(())
}

/// One note.
#[utoipa::path(get, path = "/notes/{id}", params(("id" = u64, Path)), responses((status = 200, body = Note), (status = 404)))]
fn show(ctx: &mut Context) -> Result {
    let id: u64 = ctx.params().get_as("id")?;
    if id != 1 {
        return Err(Status::NOT_FOUND.into());
    }
    ctx.response.set_json(&note(id))?;
    Ok(())
}

/// Removes a note. Of this one, nothing is left to be removed.
#[utoipa::path(delete, path = "/notes/{id}", params(("id" = u64, Path)), responses((status = 404)))]
fn remove(_: &mut Context) -> Result {
    Err(Status::NOT_FOUND.into())
}

fn note(id: u64) -> Note {
    Note { id, text: "milk".into() }
}

fn app() -> Result<impl Handler + Send + Sync> {
    let document = Document::openapi();
    let text = document.to_pretty_json()?;
    let show_document =
        move |ctx: &mut Context| ctx.response.set_bytes("application/json", &text).map_err(Into::into);
    let router = routes! {
        GET "/notes" => list,
        GET "/notes/{id}" => show,
        DELETE "/notes/{id}" => remove,
        GET "/openapi.json" => show_document,
    };
    check(&router, &document).map_err(corehttp::Error::other)?;
    Ok(router)
}

/// Compares the routes of a router with the operations of its document.
fn check<S>(router: &Router<S>, document: &utoipa::openapi::OpenApi) -> std::result::Result<(), String> {
    let route =
        |route: corehttp::routing::RouteInfo<'_>| Some(format!("{} {}", route.method()?, route.pattern()));
    let listed = router.routes().filter(|route| route.pattern() != "/openapi.json");
    let routes: BTreeSet<String> = listed.filter_map(route).collect();
    let paths = document.paths.paths.iter();
    let documented: BTreeSet<String> = paths.flat_map(|(path, item)| operations(path, item)).collect();
    match routes.symmetric_difference(&documented).next() {
        Some(one) => Err(format!("{one} is either no route or not documented")),
        None => Ok(()),
    }
}

fn operations(path: &str, item: &PathItem) -> Vec<String> {
    let methods = [
        ("GET", &item.get),
        ("HEAD", &item.head),
        ("POST", &item.post),
        ("PUT", &item.put),
        ("PATCH", &item.patch),
        ("DELETE", &item.delete),
    ];
    let has_one = methods.into_iter().filter(|(_, operation)| operation.is_some());
    has_one.map(|(method, _)| format!("{method} {path}")).collect()
}

fn main() -> Result {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".into());
    let server = Server::bind(address).stop_on(shutdown_signal(), Duration::from_secs(10));
    let running = server.start(app()?)?;
    println!("listening on {running}");
    running.wait()
}

#[cfg(test)]
mod tests {
    use corehttp::Request;

    use super::*;

    #[test]
    fn each_route_is_documented() -> Result {
        let service = Server::new().service(app()?);
        let response = corehttp::block_on(service.respond(Request::get("/openapi.json")?))?;
        for part in ["\"/notes/{id}\"", "\"One note.\"", "\"delete\"", "\"#/components/schemas/Note\""] {
            assert!(response.text()?.contains(part), "{part}: {}", response.text()?);
        }
        Ok(())
    }

    #[test]
    fn a_route_without_documentation_is_an_error() {
        let router = routes! { GET "/notes" => list, POST "/notes" => list };
        let error = check(&router, &Document::openapi()).unwrap_err();
        assert!(error.starts_with("DELETE /notes/{id} "), "{error}");
    }
}
