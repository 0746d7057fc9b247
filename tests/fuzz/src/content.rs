//! The content of messages: forms in parts, events, queries, cookies, targets and credentials. Each is read alike however it
//! is cut, and what was read can be written and read again.

use std::io;

use corehttp::jar::Jar;
use corehttp::multipart::{Multipart, MultipartLimits};
use corehttp::sse::{Event, EventReader};
use corehttp::{Form, FormBuf, Headers, Request, SetCookie, Target};
use tokio::runtime::Runtime;

use crate::memory::bounded;
use crate::oracle::form;
use crate::settings::Settings;
use crate::wired::{Pieces, paused};

/// The three lowest bits say which kind of content it is.
pub fn run(data: &[u8]) {
    let Some((settings, content)) = Settings::split(data) else { return };
    bounded(MEMORY_MAX + 200 * content.len(), || match settings.flags & 7 {
        0 => check_parts(settings, content),
        1 => check_events(settings, content),
        2 => check_form(content),
        3 => check_cookies(content),
        4 => check_set_cookie(content),
        5 => check_target(content),
        6 => check_join(content),
        _ => check_credentials(content),
    });
}

const MEMORY_MAX: usize = 256 << 10;

thread_local! {
    static RUNTIME: Runtime = paused();
}

/// A body in parts, with the boundary `b`.
fn check_parts(settings: Settings, content: &[u8]) {
    let whole = parts(vec![content.to_vec()]);
    assert_eq!(parts(settings.cut(content)), whole, "cut otherwise: {}", content.escape_ascii());
}

/// Each part, and how the last one ends.
fn parts(pieces: Vec<Vec<u8>>) -> (Vec<String>, Result<(), String>) {
    let limits = MultipartLimits::default();
    let mut all = Vec::new();
    let end = RUNTIME.with(|runtime| {
        runtime.block_on(async {
            let mut form = Multipart::new(Pieces(pieces.into()), "b", limits).unwrap();
            while let Some(mut part) = form.part().await? {
                let head = format!("{:?} {:?} {:?}", part.name(), part.file_name(), part.headers());
                all.push(head);
                let content = part.bytes().await?;
                all.push(content.escape_ascii().to_string());
            }
            io::Result::Ok(())
        })
    });
    (all, end.map_err(|error| error.to_string()))
}

fn check_events(settings: Settings, content: &[u8]) {
    let whole = events(vec![content.to_vec()]);
    assert_eq!(events(settings.cut(content)), whole, "cut otherwise: {}", content.escape_ascii());
}

fn events(pieces: Vec<Vec<u8>>) -> (Vec<String>, Option<String>) {
    let mut all = Vec::new();
    let id = RUNTIME.with(|runtime| {
        runtime.block_on(async {
            let mut reader = EventReader::new(Pieces(pieces.into()));
            while let Some(Event { id, event, data, retry }) = reader.event().await.unwrap() {
                assert!(data.is_some_and(|data| !data.contains('\r')), "CR ends a line (HTML §9.2.6)");
                assert!([id, event].into_iter().flatten().all(|it| !it.contains(['\r', '\n'])));
                all.push(format!("{id:?} {event:?} {data:?} {retry:?}"));
            }
            reader.last_id().map(str::to_owned)
        })
    });
    (all, id)
}

fn check_form(content: &[u8]) {
    let Ok(text) = str::from_utf8(content) else { return };
    let (form, mut copy) = (Form::new(text), FormBuf::new());
    assert_eq!(form.iter().count(), form.len());
    for (name, value) in form.iter() {
        assert!(form.contains(&name), "{name:?} of {text:?}");
        assert!(form.all(&name).any(|other| other == value), "{name:?} of {text:?}");
        copy.append(&name, &*value);
    }
    let pairs: Vec<_> = form.iter().filter(|(name, value)| !(name.is_empty() && value.is_empty())).collect();
    let copied: Vec<_> =
        copy.as_form().iter().filter(|(name, value)| !(name.is_empty() && value.is_empty())).collect();
    assert_eq!(copied, pairs, "{text:?}, as {:?}", copy.as_str());
    assert!(copy.as_form().strict().is_ok());
}

/// A field that a browser may have sent.
fn check_cookies(content: &[u8]) {
    let mut request = Request::get("/").unwrap();
    if request.headers.set("cookie", content).is_err() {
        return;
    }
    let cookies = request.cookies();
    for (name, value) in cookies.iter() {
        assert!(cookies.all(name).any(|other| other == value), "{name:?} of {}", content.escape_ascii());
        assert!(!value.contains(';') && !name.contains([';', '=']), "{name:?} of {}", content.escape_ascii());
    }
}

fn check_set_cookie(content: &[u8]) {
    let target = Request::get("http://a.example/b/c").unwrap().target().clone();
    let (jar, mut headers) = (Jar::new(), Headers::new());
    if headers.set("set-cookie", content).is_ok() {
        jar.store(&target, &headers);
        assert!(jar.len() <= 1);
        // The value that is sent is one of a field.
        let field = jar.cookie_header(&target);
        field.iter().for_each(|field| headers.set("cookie", field).unwrap());
    }
    let Some(cookie) = SetCookie::parse(content) else { return };
    let mut response = corehttp::Response::new();
    if response.set_cookie(&cookie).is_ok() {
        let sent = response.headers.get_bytes("set-cookie").unwrap();
        let again = SetCookie::parse(sent).expect("it can be read again");
        assert_eq!((again.name, again.value), (cookie.name, cookie.value), "{}", content.escape_ascii());
        assert_eq!(again.path, cookie.path, "{}", content.escape_ascii());
    }
}

/// A URL that a program gives.
fn check_target(content: &[u8]) {
    let Ok(text) = str::from_utf8(content) else { return };
    if let Ok(request) = Request::get(text) {
        check_sent(request.target(), text);
    }
}

/// A reference that a server answers with.
fn check_join(content: &[u8]) {
    let base = Request::get("http://a.example/b/c?d").unwrap();
    if let Ok(target) = base.target().join(content) {
        check_sent(&target, &content.escape_ascii().to_string());
    }
}

/// The target that is sent is RFC 3986's, and its components are those of the whole.
fn check_sent(target: &Target, from: &str) {
    let text = target.as_str();
    assert!(form(b"GET", text.as_bytes(), false).is_some() || is_generous(text), "{text:?} of {from:?}");
    let again = Request::get(text).unwrap();
    assert_eq!(again.target().as_str(), text, "{from:?}");
    assert!(text.contains(target.path()) || target.path() == "/", "{text:?} of {from:?}");
    assert!(target.path().len() <= text.len() + 1);
    let segments = target.segments().count();
    assert!(segments <= text.len() + 1, "{text:?} of {from:?}");
    let _ = (target.path_decoded(), target.query().iter().count());
    for reference in ["", "?q", "../x", "//h"] {
        let joined = target.join(reference);
        assert!(joined.is_err() || Request::get(joined.unwrap().as_str()).is_ok(), "{reference} on {text:?}");
    }
}

/// Octets that a program may give, and that are sent as they are.
fn is_generous(text: &str) -> bool {
    form(b"GET", text.as_bytes(), true).is_some()
}

fn check_credentials(content: &[u8]) {
    let mut request = Request::get("/").unwrap();
    if request.headers.set("authorization", content).is_ok() {
        let token = request.bearer_auth().map(str::to_owned);
        token.iter().for_each(|token| request.set_bearer_auth(token).unwrap());
        assert_eq!(request.bearer_auth(), token.as_deref(), "{}", content.escape_ascii());
        if let Some(basic) = request.basic_auth() {
            request.set_basic_auth(&basic.user_id, &basic.password).unwrap();
            let again = request.basic_auth().unwrap();
            let pair = (&again.user_id, &again.password);
            assert_eq!(pair, (&basic.user_id, &basic.password), "{}", content.escape_ascii());
        }
    }
    let text = String::from_utf8_lossy(content);
    let (user_id, password) = text.split_once('\n').unwrap_or((&text, ""));
    if request.set_basic_auth(user_id, password).is_ok() {
        let basic = request.basic_auth().expect("it can be read again");
        assert_eq!((&*basic.user_id, &*basic.password), (user_id, password));
    }
}
