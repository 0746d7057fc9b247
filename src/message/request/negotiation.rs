//! The preferred media type and language of a client, among those on offer (RFC 9110 §12.5.1, §12.5.4).

use super::request::Request;
use crate::message::Parameters;

impl Request {
    /// Returns the media type that the client prefers of those `offered`, by its `accept` (RFC 9110 §12.5.1). Among
    /// equals, the first of `offered` wins, also without a preference. `None` if the client accepts none of them. Then
    /// answer with 406, or send one nevertheless.
    ///
    /// Of the ranges that include a type, the most specific one counts. A range with parameters includes only types with
    /// these parameters, except for `charset`, which is ignored. A response that depends on this has a field `vary:
    /// accept`, for caches.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Context, Request, Server, Status};
    ///
    /// fn item(ctx: &mut Context) -> corehttp::Result {
    ///     let Context { request, response, .. } = ctx;
    ///     response.headers.append("vary", "accept")?;
    ///     match request.preferred_type(["application/json", "text/html"]) {
    ///         Some("text/html") => response.set_html("<h1>Tea</h1>"),
    ///         Some(json) => response.set_shared_bytes(json, r#"{"name":"Tea"}"#)?,
    ///         None => return Err(Status::NOT_ACCEPTABLE.into()),
    ///     }
    ///     Ok(())
    /// }
    /// # let service = Server::new().service(item);
    /// let mut request = Request::get("/items/1")?;
    /// request.headers.set("accept", "text/html,application/xml;q=0.9,*/*;q=0.8")?; // as browsers do
    /// # let response = corehttp::block_on(service.respond(request))?;
    /// assert_eq!(response.text()?, "<h1>Tea</h1>");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("accept", "accepts", "negotiate"))]
    pub fn preferred_type<'o>(&self, offered: impl IntoIterator<Item = &'o str>) -> Option<&'o str> {
        self.preferred("accept", offered, type_match)
    }

    /// Returns the language that the user prefers of those `offered`, by the `accept-language` of the request (RFC 9110
    /// §12.5.4). Among equals, the first of `offered` wins, also without a preference. `None` if the user reads none of
    /// them. Then send the default, which is better than nothing.
    ///
    /// A range such as `de` includes `de-CH` (RFC 4647 §3.3.1). If no range includes a language, a narrower range finds
    /// it, such as `de-CH` for `de` (§3.4).
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Request;
    ///
    /// let mut request = Request::get("/")?;
    /// request.headers.set("accept-language", "de-CH, fr;q=0.9, en;q=0.5")?;
    /// assert_eq!(request.preferred_language(["en", "fr", "de"]), Some("de"));
    /// assert_eq!(request.preferred_language(["it", "en-GB"]), Some("en-GB"));
    /// assert_eq!(request.preferred_language(["it"]).unwrap_or("en"), "en");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("accept-language", "locale"))]
    pub fn preferred_language<'o>(&self, offered: impl IntoIterator<Item = &'o str>) -> Option<&'o str> {
        self.preferred("accept-language", offered, language_match)
    }

    /// The first of the values with the greatest weight. `rank` returns how closely a member of the list matches a value.
    fn preferred<'o, R: Ord>(
        &self,
        list: &str,
        offered: impl IntoIterator<Item = &'o str>,
        rank: fn(&str, &'o str) -> Option<R>,
    ) -> Option<&'o str> {
        // An empty or malformed list states no preference.
        let has_preference = self.headers.weighted(list).next().is_some();
        let mut most = 0;
        let mut preferred = None;
        for value in offered {
            let ranked = self
                .headers
                .weighted(list)
                .filter_map(|(member, weight)| Some((rank(member, value)?, weight)));
            let weight = match has_preference {
                true => weight_of_closest(ranked),
                false => 1,
            };
            if weight > most {
                most = weight;
                preferred = Some(value);
            }
        }
        preferred
    }
}

/// The weight of the closest match, the greatest if there are several; 0 if there is none.
fn weight_of_closest<R: Ord>(ranked: impl Iterator<Item = (R, u16)>) -> u16 {
    ranked.max().map_or(0, |(_, weight)| weight)
}

/// How closely a media range matches a media type: by its type, by its subtype, and by how many parameters.
fn type_match(range: &str, media_type: &str) -> Option<(bool, bool, usize)> {
    let (range, wanted) = Parameters::split(range.as_bytes());
    let (media_type, parameters) = Parameters::split(media_type.as_bytes());
    let mut count = 0;
    for parameter in wanted {
        let (name, value) = parameter.ok()?;
        if !name.eq_ignore_ascii_case("charset") {
            count += 1;
            let found = parameters.get(name).ok()??;
            found.eq_ignore_ascii_case(&value).then_some(())?;
        }
    }
    let slash = |of: &[u8]| of.iter().position(|octet| *octet == b'/');
    let ((kind, subtype), (other_kind, other_subtype)) =
        (range.split_at(slash(range)?), media_type.split_at(slash(media_type)?));
    match (kind, subtype) {
        (b"*", b"/*") => Some((false, false, count)),
        _ if !kind.eq_ignore_ascii_case(other_kind) => None,
        (_, b"/*") => Some((true, false, count)),
        _ => subtype.eq_ignore_ascii_case(other_subtype).then_some((true, true, count)),
    }
}

/// How closely a language range matches a language: by all of itself, and otherwise by the language as its front.
fn language_match(range: &str, language: &str) -> Option<(bool, usize)> {
    match range {
        "*" => Some((false, 0)),
        _ if begins_with_subtags(language, range) => Some((true, range.len())),
        _ if begins_with_subtags(range, language) => Some((false, language.len())),
        _ => None,
    }
}

/// Whether the subtags of `language` begin with those of `front`, in any case.
fn begins_with_subtags(language: &str, front: &str) -> bool {
    let (language, front) = (language.as_bytes(), front.as_bytes());
    language
        .split_at_checked(front.len())
        .is_some_and(|(begin, rest)| begin.eq_ignore_ascii_case(front) && matches!(rest, [] | [b'-', ..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> Request {
        let mut request = Request::get("/").unwrap();
        // A `|` begins another line, over which a list may be spread (§5.3).
        value.split('|').for_each(|line| request.headers.append(name, line).unwrap());
        request
    }

    #[track_caller]
    fn check_type(accept: &str, offered: &[&str], expected: Option<&str>) {
        let request = with("accept", accept);
        assert_eq!(request.preferred_type(offered.iter().copied()), expected, "{accept:?} of {offered:?}");
    }

    #[test]
    fn the_most_specific_range_counts_rfc9110_12_5_1() {
        const OFFERED: [&str; 3] = ["application/json", "text/html", "text/plain"];
        assert_eq!(Request::default().preferred_type(OFFERED), Some("application/json"));
        check_type("", &OFFERED, Some("application/json"));
        check_type("*/*", &OFFERED, Some("application/json"));
        check_type("text/*", &OFFERED, Some("text/html"));
        check_type("TEXT/Plain", &OFFERED, Some("text/plain"));
        check_type("text/plain;q=0.5|text/html;q=0.4", &OFFERED, Some("text/plain"));
        check_type(
            "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            &OFFERED,
            Some("text/html"),
        );
        check_type("application/json, text/plain, */*", &OFFERED, Some("application/json"));
        check_type("*/*, application/json;q=0", &OFFERED, Some("text/html"));
        check_type("text/*, text/html;q=0.1, application/*;q=0.5", &OFFERED, Some("text/plain"));
        check_type("text/html;q=0.2, text/html", &["text/html", "text/plain"], Some("text/html"));
        check_type("image/*, text, html, text/htm, */html", &OFFERED, None);
        check_type("*/*;q=0", &OFFERED, None);
        check_type(
            "application/json; charset=utf-8, */*;q=0.1",
            &["a/b", "application/json"],
            Some("application/json"),
        );
        check_type("*/*", &[], None);
    }

    /// The example of §12.5.1.
    #[test]
    fn parameters_make_a_range_more_specific_rfc9110_12_5_1() {
        let accept = "text/*;q=0.3, text/plain;q=0.7, text/plain;format=flowed, text/plain;format=fixed;q=0.4, */*;q=0.5";
        for (offered, weight) in [
            ("text/plain;format=flowed", 1000),
            ("text/plain", 700),
            ("text/html", 300),
            ("image/jpeg", 500),
            ("text/plain; format=\"fixed\"", 400),
            ("text/html;level=3", 300),
        ] {
            let request = with("accept", accept);
            let ranked = request.headers.weighted("accept");
            let ranked = ranked.filter_map(|(range, weight)| Some((type_match(range, offered)?, weight)));
            assert_eq!(weight_of_closest(ranked), weight, "{offered}");
        }
        check_type("text/html;level=1", &["text/html"], None);
        check_type("text/html;level=1;x", &["text/html;level=1"], None);
    }

    #[track_caller]
    fn check_language(accept: &str, offered: &[&str], expected: Option<&str>) {
        let request = with("accept-language", accept);
        assert_eq!(
            request.preferred_language(offered.iter().copied()),
            expected,
            "{accept:?} of {offered:?}"
        );
    }

    #[test]
    fn a_range_includes_narrower_languages_and_finds_wider_ones_rfc4647_3() {
        assert_eq!(Request::default().preferred_language(["en", "de"]), Some("en"));
        check_language("da, en-gb;q=0.8, en;q=0.7", &["en", "en-GB", "da"], Some("da"));
        check_language("da, en-gb;q=0.8, en;q=0.7", &["en", "en-GB"], Some("en-GB"));
        check_language("da, en-gb;q=0.8, en;q=0.7", &["fr", "en-US"], Some("en-US"));
        check_language("de-CH-1996, en;q=0.9", &["en", "de"], Some("de"));
        check_language("de-CH;q=0.8, de;q=0.1", &["de", "de-CH"], Some("de-CH"));
        check_language("de-CH;q=0, de", &["de-CH", "de-AT"], Some("de-AT"));
        check_language("en-US, fr;q=0.95, en-GB;q=0.9", &["fr", "en"], Some("en"));
        check_language("*, de;q=0.5", &["de", "fr"], Some("fr"));
        check_language("*;q=0.1, de-DE", &["fr", "de"], Some("de"));
        check_language("d, deu, de_CH", &["de"], None);
        check_language("en;q=0", &["en"], None);
        check_language("fr", &["en", "de"], None);
        check_language("", &["en", "de"], Some("en"));
    }
}
