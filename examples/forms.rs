//! A form and a cookie: a page to sign in at, `cargo run --release --example forms -- [ADDR]`.
//!
//! Open `http://localhost:8080/`, or try it with curl:
//!
//! ```text
//! curl -i -c jar -d 'name=Ada+Lovelace&remember=on' http://localhost:8080/sign-in
//! curl -b jar http://localhost:8080/
//! curl -i -b jar -c jar -d '' http://localhost:8080/sign-out
//! ```
//!
//! | request | response |
//! |---|---|
//! | GET `/` | a greeting to whoever is signed in, and a form for the others |
//! | POST `/sign-in` with a `name`, and with `remember` or without | sets a cookie, and redirects to `/` |
//! | POST `/sign-out` | removes the cookie, and redirects to `/` |

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use corehttp::{Context, Error, Server, SetCookie, Status, routes, shutdown_signal, with_state};

fn main() -> corehttp::Result {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".into());
    let sessions = Arc::new(Sessions::default());
    let router = routes! {
        GET "/" => with_state(&sessions, show),
        POST "/sign-in" => with_state(&sessions, sign_in),
        POST "/sign-out" => with_state(&sessions, sign_out),
    };
    let running = Server::bind(address).on_stop(shutdown_signal(), Duration::from_secs(10)).start(router)?;
    println!("listening on {running}");
    running.wait()
}

fn show(sessions: &Sessions, ctx: &mut Context) -> corehttp::Result {
    let Context { request, response, .. } = ctx;
    match request.cookies().get(COOKIE).and_then(|token| sessions.name(token)) {
        Some(name) => {
            let greeting = format!("<p>Hello, {}!</p>", escaped(&name));
            response.set_html(page("Welcome", &(greeting + SIGN_OUT)));
        }
        None => response.set_html(page("Sign in", SIGN_IN)),
    }
    // The page names its reader, so no cache on the way may keep it.
    Ok(response.headers.set("cache-control", "private, no-store")?)
}

fn page(title: &str, content: &str) -> String {
    format!("{HEAD}<title>{title}</title>\n<main>\n<h1>{title}</h1>\n{content}</main>\n")
}

const HEAD: &str = r#"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
  :root { color-scheme: light dark; background: Canvas; color: CanvasText }
  body { font: 1rem/1.5 system-ui, sans-serif; max-width: 40rem; margin: 2rem auto; padding: 0 1rem }
  label { display: block; margin-bottom: 1rem }
  input, button { font: inherit; max-width: 100% }
</style>
"#;

const SIGN_IN: &str = r#"<form method="post" action="/sign-in">
  <label>Name <input name="name" autocomplete="username" required maxlength="100"></label>
  <label><input type="checkbox" name="remember"> Remember me</label>
  <button>Sign in</button>
</form>
"#;

const SIGN_OUT: &str = r#"<form method="post" action="/sign-out"><button>Sign out</button></form>
"#;

fn sign_in(sessions: &Sessions, ctx: &mut Context) -> corehttp::Result {
    let Context { request, response, .. } = ctx;
    // `?` answers 415 if it is no form, and 400 if `remember` is neither a yes nor a no.
    let form = request.form()?;
    let name = form
        .get("name")
        .filter(|name| (1..=100).contains(&name.chars().count()))
        .ok_or(Status::BAD_REQUEST)?;
    let remember = form.get_as("remember")?.unwrap_or(false);
    let token = sessions.begin(&name)?;
    let max_age = remember.then_some(Duration::from_secs(30 * 86_400));
    response.set_cookie(&SetCookie { max_age, ..SetCookie::new_session(COOKIE, &token) })?;
    Ok(response.set_redirect(Status::SEE_OTHER, "/")?)
}

fn sign_out(sessions: &Sessions, ctx: &mut Context) -> corehttp::Result {
    let Context { request, response, .. } = ctx;
    if let Some(token) = request.cookies().get(COOKIE) {
        sessions.end(token);
    }
    response.set_cookie(&SetCookie::new_session(COOKIE, "").removal())?;
    Ok(response.set_redirect(Status::SEE_OTHER, "/")?)
}

/// The name of the session's cookie. Because of its prefix, browsers accept the cookie only from this very host, for
/// all paths, and over TLS or on this machine. As it is `SameSite=Lax`, it does not come with a form that another site
/// sends.
const COOKIE: &str = "__Host-session";

/// The users who are signed in, by the tokens in their cookies.
#[derive(Default)]
struct Sessions {
    names: Mutex<HashMap<String, String>>,
}

impl Sessions {
    /// The bound on sessions, which strangers can open.
    const MAX: usize = 10_000;

    /// A token that nobody can guess.
    fn begin(&self, name: &str) -> corehttp::Result<String> {
        let mut random = [0; 16];
        getrandom::fill(&mut random)
            .map_err(|error| Error::new(Status::SERVICE_UNAVAILABLE, error.to_string()))?;
        let token = format!("{:032x}", u128::from_ne_bytes(random));
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= Sessions::MAX {
            return Err(Status::SERVICE_UNAVAILABLE.into());
        }
        names.insert(token.clone(), name.to_owned());
        Ok(token)
    }

    fn end(&self, token: &str) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).remove(token);
    }

    fn name(&self, token: &str) -> Option<String> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).get(token).cloned()
    }
}

/// `text` as it may stand in a page.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
