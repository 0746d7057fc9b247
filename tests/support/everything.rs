//! Reads and formats all that a message has, as a hook, a log or a caller may. None of it may panic, whatever has become
//! of the message.

use corehttp::{Headers, Request, Response};

/// All of a request, as text.
pub fn of_request(request: &Request) -> String {
    let target = request.target();
    let shown = format!("{request} {request:?} {target} {target:?} {:?}", request.method());
    let parts = format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        (request.path(), request.path_decoded().ok(), request.mounted_path(), request.matched_pattern()),
        (request.authority(), request.host(), target.form(), target.scheme(), target.host()),
        target.segments().collect::<Vec<_>>(),
        request.query().iter().collect::<Vec<_>>(),
        request.params().iter().collect::<Vec<_>>(),
        request
            .cookies()
            .iter()
            .chain(request.cookies().all("a").map(|value| ("a", value)))
            .collect::<Vec<_>>(),
        (
            request.bearer_auth(),
            request.basic_auth().is_some(),
            request.form().is_ok(),
            request.text().is_ok()
        ),
        (request.preferred_type(["text/html", "text/plain"]), request.preferred_language(["de", "en"])),
    );
    assert_eq!(&request.clone(), request);
    [shown, parts, of_headers(&request.headers), of_headers(&request.trailers)].concat()
}

/// All of a response, as text.
pub fn of_response(response: &Response) -> String {
    let shown = format!("{response} {response:?} {:?} {:?}", response.url, response.text().is_ok());
    [shown, of_headers(&response.headers), of_headers(&response.trailers)].concat()
}

/// All lines, by each of the ways to them.
pub fn of_headers(headers: &Headers) -> String {
    let mut shown = format!("{headers:?} {:?} {}", headers.iter(), headers.is_empty());
    assert_eq!((headers.iter().len(), headers.iter().count()), (headers.len(), headers.len()));
    for (name, value) in headers {
        assert!(headers.contains(name) && headers.all(name).any(|own| own == value), "{headers:?}");
    }
    let names = headers.iter().map(|(name, _)| name);
    for name in names.chain(NAMES.iter().copied()) {
        shown += &format!(
            "{:?} {:?} {:?} {:?} {:?} {:?}",
            headers.get_bytes(name),
            headers.get(name),
            headers.members(name).collect::<Vec<_>>(),
            headers.weighted(name).collect::<Vec<_>>(),
            headers.parameter(name, "q"),
            (headers.date(name), headers.contains_token(name, "a")),
        );
    }
    let (mut copy, mut both) = (headers.clone(), headers.clone());
    assert_eq!(&copy, headers);
    both.append_all(headers);
    assert_eq!(both.len(), 2 * headers.len());
    for name in NAMES {
        copy.set(name, "a longer value than was there before").expect("it is a field");
        assert!(copy.remove(name) && !copy.contains(name));
    }
    shown + &format!("{:?} {:?} {:?}", headers.content_type(), headers.content_length(), headers.host())
}

const NAMES: &[&str] =
    &["host", "user-agent", "referer", "cookie", "x-forwarded-for", "forwarded", "content-length", "a"];
