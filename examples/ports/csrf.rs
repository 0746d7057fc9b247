//! `csrf-with-session` of Fiber: pages behind a password, with forms that no other site can send.

use std::collections::HashMap;
use std::fs;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use corehttp::message::escape_html;
use corehttp::middleware::CrossOriginProtection;
use corehttp::middleware::wrap;
use corehttp::server::{ErrorLog, error_page};
use corehttp::session::{MemoryStore, Session, Sessions};
use corehttp::tls::{self, ServerTls};
use corehttp::{Context, Handler, Result, Server, Status, routes, with_state};
use ring::pbkdf2;
use ring::rand::{SecureRandom, SystemRandom};

pub fn main() -> Result {
    server().tls(ServerTls::new(identity("cert.pem", "key.pem")?)).and_bind("127.0.0.1:8443").run(app()?)
}

/// Refusals are pages, JSON or text, as the user agent prefers, and each has a line in the log.
fn server() -> Server {
    Server::new().error_response(error_page).observe(ErrorLog::stderr())
}

fn app() -> Result<impl Handler + Send + Sync> {
    let users = Arc::new(Users::new(&[("user1", "password1"), ("user2", "password2")])?);
    let router = routes! {
        GET "/" => |ctx: &mut Context| ctx.response.set_html(page("Index", INDEX)),
        GET "/login" => |ctx: &mut Context| ctx.response.set_html(page("Login", LOGIN)),
        POST "/login" => with_state(&users, login),
        POST "/logout" => logout,
        GET "/protected" => protected,
        POST "/protected" => protected,
    };
    Ok(wrap((CrossOriginProtection::new(), Sessions::new(MemoryStore::new())), router))
}

fn login(users: &Users, ctx: &mut Context) -> Result {
    let form = ctx.request.form()?;
    let (name, password) =
        (form.get("username").unwrap_or_default(), form.get("password").unwrap_or_default());
    if !users.is_password(&name, &password) {
        let fault = LOGIN.to_owned() + "<p>Error: Invalid credentials";
        ctx.response.set_html(page("Login", &fault));
        return Ok(());
    }
    let session = Session::from_extensions(&mut ctx.extensions)?;
    session.renew();
    session.set("loggedIn", &true)?;
    Ok(ctx.response.set_redirect(Status::SEE_OTHER, "/protected")?)
}

fn logout(ctx: &mut Context) -> Result {
    Session::from_extensions(&mut ctx.extensions)?.delete();
    Ok(ctx.response.set_redirect(Status::SEE_OTHER, "/login")?)
}

/// Shows the message that was sent, if any, to users who are signed in.
fn protected(ctx: &mut Context) -> Result {
    let Context { request, response, extensions, .. } = ctx;
    if Session::from_extensions(extensions)?.get("loggedIn")? != Some(true) {
        return Ok(response.set_redirect(Status::SEE_OTHER, "/login")?);
    }
    let message = request.form().ok().and_then(|form| form.get("message"));
    let message = message.map(|message| format!("<p>Message: {}", escape_html(&message))).unwrap_or_default();
    response.set_html(page("Protected", &(PROTECTED.to_owned() + &message)));
    Ok(())
}

/// Salted hashes of the users' passwords. Of the name that nobody has, it is the hash of a password that nobody knows,
/// so that a wrong name takes as long as a wrong password.
struct Users(HashMap<&'static str, [u8; 48]>);

impl Users {
    fn new(users: &[(&'static str, &str)]) -> Result<Users> {
        let mut hashes = HashMap::new();
        for &(name, password) in [("", "")].iter().chain(users) {
            let mut hash = [0; 48];
            let (salt, key) = hash.split_at_mut(16);
            SystemRandom::new().fill(salt).map_err(|_| corehttp::Error::other("no randomness"))?;
            if !name.is_empty() {
                pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ROUNDS, salt, password.as_bytes(), key);
            }
            hashes.insert(name, hash);
        }
        Ok(Users(hashes))
    }

    fn is_password(&self, name: &str, password: &str) -> bool {
        let (salt, key) = self.0.get(name).unwrap_or(&self.0[""]).split_at(16);
        pbkdf2::verify(pbkdf2::PBKDF2_HMAC_SHA256, ROUNDS, salt, password.as_bytes(), key).is_ok()
    }
}

const ROUNDS: NonZeroU32 = NonZeroU32::new(if cfg!(test) { 1 } else { 100_000 }).unwrap();

/// The certificate and the key in these files, which are made if they are not there.
fn identity(chain: &str, key: &str) -> Result<tls::Identity> {
    if !Path::new(chain).exists() {
        let made = rcgen::generate_simple_self_signed(["localhost".into(), "127.0.0.1".into()])?;
        fs::write(chain, made.cert.pem())?;
        fs::write(key, made.signing_key.serialize_pem())?;
    }
    Ok(tls::Identity::from_files(chain, key)?)
}

fn page(title: &str, content: &str) -> String {
    format!("<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>{content}")
}

const INDEX: &str = "<h1>Welcome</h1><p><a href=\"/login\">Login</a><p><a href=\"/protected\">Protected</a>";

const LOGIN: &str = r#"<h1>Login</h1>
<form method="post"><label>Username <input name="username" required></label>
<label>Password <input type="password" name="password" required></label><button>Login</button></form>"#;

const PROTECTED: &str = r#"<h1>Protected content</h1>
<form method="post" action="/logout"><button>Logout</button></form>
<form method="post"><label>Message <input name="message" required></label><button>Submit</button></form>"#;

#[cfg(test)]
mod tests {
    use corehttp::{FormBuf, Request, block_on};

    use super::*;

    #[test]
    fn forms_are_for_users_and_for_pages_of_this_site() {
        let service = server().service(app().unwrap());
        let mut cookie = String::new();
        let mut ask = |method: &str, path: &str, site: &str, form: &[(&str, &str)]| {
            let mut request = Request::new(method, path).unwrap();
            request.headers.set("sec-fetch-site", site).unwrap();
            request.headers.set("cookie", &cookie).unwrap();
            request.set_form(&FormBuf::from_iter(form.iter().copied()));
            let response = block_on(service.respond(request)).unwrap();
            if let Some(set) = response.cookies().next() {
                cookie = format!("{}={}", set.name, set.value);
            }
            let location = response.headers.get("location").map(str::to_owned);
            (response.status.as_u16(), location.unwrap_or_else(|| response.text().unwrap().to_owned()))
        };
        let user = |password| [("username", "user1"), ("password", password)];
        let redirect = |path: &str| (303, path.to_owned());
        assert_eq!(ask("GET", "/protected", "none", &[]), redirect("/login"));
        assert!(ask("POST", "/login", "same-origin", &user("password2")).1.contains("Invalid credentials"));
        assert!(ask("POST", "/login", "same-origin", &[("username", "")]).1.contains("Invalid credentials"));
        assert_eq!(ask("POST", "/login", "cross-site", &user("password1")).0, 403);
        assert_eq!(ask("POST", "/login", "same-origin", &user("password1")), redirect("/protected"));
        let (status, page) = ask("POST", "/protected", "same-origin", &[("message", "<b>")]);
        assert!(status == 200 && page.contains("Message: &lt;b&gt;"), "{page}");
        assert_eq!(ask("POST", "/protected", "cross-site", &[("message", "a")]).0, 403);
        assert_eq!(ask("POST", "/logout", "same-origin", &[]), redirect("/login"));
        assert_eq!(ask("GET", "/protected", "none", &[]), redirect("/login"));
    }
}
