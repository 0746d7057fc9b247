//! A form and a session: a page to sign in at, `cargo run --release --example forms -- [ADDR]`.
//!
//! Open `http://localhost:8080/`, or try it with curl:
//!
//! ```text
//! curl -i -c jar -d 'name=Ada+Lovelace&dark=on' http://localhost:8080/sign-in
//! curl -b jar http://localhost:8080/
//! curl -i -b jar -c jar -d '' http://localhost:8080/sign-out
//! ```
//!
//! | request | response |
//! |---|---|
//! | GET `/` | a greeting to the user who is signed in, and a form for the others |
//! | POST `/sign-in` with a `name`, and with `dark` or without | begins a session, sets a cookie, and redirects to `/` |
//! | POST `/sign-out` | ends the session, and redirects to `/` |

use std::time::Duration;

use corehttp::message::escape_html;
use corehttp::middleware::CrossOriginProtection;
use corehttp::middleware::wrap;
use corehttp::session::{MemoryStore, Session, Sessions};
use corehttp::{Context, Result, Server, SetCookie, Status, routes, shutdown_signal};

fn main() -> Result {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".into());
    let router = routes! {
        GET "/" => show,
        POST "/sign-in" => sign_in,
        POST "/sign-out" => sign_out,
    };
    // No page of another site can send these forms, and sessions that strangers begin are bounded.
    let app = wrap((CrossOriginProtection::new(), Sessions::new(MemoryStore::new())), router);
    let running = Server::bind(address).stop_on(shutdown_signal(), Duration::from_secs(10)).start(app)?;
    println!("listening on {running}");
    running.wait()
}

fn show(ctx: &mut Context) -> Result {
    let Context { request, response, extensions, .. } = ctx;
    let scheme = if request.cookies().get_as(DARK)?.unwrap_or(false) { "dark" } else { "light dark" };
    match Session::from_extensions(extensions)?.get::<&str>("name")? {
        Some(name) => {
            let greeting = format!("<p>Hello, {}!</p>{SIGN_OUT}", escape_html(name));
            response.set_html(page("Welcome", scheme, &greeting));
        }
        None => response.set_html(page("Sign in", scheme, SIGN_IN)),
    }
    // The page names its reader, so no cache on the way may keep it.
    Ok(response.headers.set("cache-control", "private, no-store")?)
}

fn sign_in(ctx: &mut Context) -> Result {
    // `?` answers 415 if it is no form, and 400 if `dark` is neither a yes nor a no.
    let form = ctx.request.form()?;
    let is_name = |name: &str| (1..=100).contains(&name.chars().count());
    let name = form.get("name").filter(|name| is_name(name)).ok_or(Status::BAD_REQUEST)?;
    let dark = if form.get_as("dark")?.unwrap_or(false) { "1" } else { "0" };
    let session = Session::from_extensions(&mut ctx.extensions)?;
    session.renew();
    session.set("name", &name)?;
    ctx.response.set_cookie(&SetCookie::new(DARK, dark))?;
    Ok(ctx.response.set_redirect(Status::SEE_OTHER, "/")?)
}

fn sign_out(ctx: &mut Context) -> Result {
    Session::from_extensions(&mut ctx.extensions)?.delete();
    Ok(ctx.response.set_redirect(Status::SEE_OTHER, "/")?)
}

/// The name of the cookie with the colors that the user prefers, which any page may read.
const DARK: &str = "dark";

fn page(title: &str, scheme: &str, content: &str) -> String {
    format!(
        "{HEAD}<style>:root {{ color-scheme: {scheme} }}</style>\n<title>{title}</title>\n\
         <main>\n<h1>{title}</h1>\n{content}</main>\n"
    )
}

const HEAD: &str = r#"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
  :root { background: Canvas; color: CanvasText }
  body { font: 1rem/1.5 system-ui, sans-serif; max-width: 40rem; margin: 2rem auto; padding: 0 1rem }
  label { display: block; margin-bottom: 1rem }
  input, button { font: inherit; max-width: 100% }
</style>
"#;

const SIGN_IN: &str = r#"<form method="post" action="/sign-in">
  <label>Name <input name="name" autocomplete="username" required maxlength="100"></label>
  <label><input type="checkbox" name="dark"> Dark colors</label>
  <button>Sign in</button>
</form>
"#;

const SIGN_OUT: &str = r#"<form method="post" action="/sign-out"><button>Sign out</button></form>
"#;
