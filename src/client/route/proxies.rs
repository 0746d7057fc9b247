//! [`Proxies`]: which proxy is used for which URL.

use std::env;

use super::bypass::Bypass;
use super::proxy::{InvalidProxy, Proxy};
use crate::message::Scheme;

/// Which proxy is used for which URL. Default: none.
///
/// # Examples
///
/// ```
/// use corehttp::{Proxies, Proxy};
///
/// let proxies = Proxies::all(Proxy::new("http://proxy:3128")?)
///     .https(Proxy::new("socks5h://127.0.0.1")?)
///     .except("localhost, .internal, 10.0.0.0/8");
/// # Ok::<(), corehttp::InvalidProxy>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Proxies {
    http: Option<Proxy>,
    https: Option<Proxy>,
    bypass: Bypass,
}

impl Proxies {
    /// Uses no proxy.
    pub fn none() -> Proxies {
        Proxies::default()
    }

    /// Uses one proxy for all URLs.
    pub fn all(proxy: Proxy) -> Proxies {
        Proxies { http: Some(proxy.clone()), https: Some(proxy), bypass: Bypass::default() }
    }

    /// Uses the proxies that the environment names, by the rules of curl:
    ///
    /// | variable | |
    /// |---|---|
    /// | `http_proxy` | for `http` |
    /// | `https_proxy` | for `https` |
    /// | `all_proxy` | for either scheme, if it has no proxy of its own |
    /// | `no_proxy` | see [`Proxies::except`] |
    ///
    /// Each may also be written in upper case; if both are set, lower case wins. An empty variable counts as unset.
    /// `HTTP_PROXY` is ignored if `REQUEST_METHOD` is set, since in a CGI program a client can set it with a field
    /// `Proxy`. On Windows, where names have no case, `http_proxy` is then ignored as well.
    ///
    /// # Errors
    ///
    /// Fails if one of these variables does not name a proxy.
    pub fn from_env() -> Result<Proxies, InvalidProxy> {
        // A value that is not UTF-8 becomes a text that is not valid in a proxy's URL.
        Proxies::from_vars(|name| env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    fn from_vars(var: impl Fn(&str) -> Option<String>) -> Result<Proxies, InvalidProxy> {
        let set = |name: &str| var(name).filter(|value| !value.is_empty());
        let either = |name: &str| set(name).or_else(|| set(&name.to_ascii_uppercase()));
        let proxy = |value: Option<String>| value.map(|url| Proxy::new(&url)).transpose();
        let http = match var("REQUEST_METHOD") {
            Some(_) if cfg!(windows) => None,
            Some(_) => set("http_proxy"),
            None => either("http_proxy"),
        };
        let all = proxy(either("all_proxy"))?;
        let proxies = Proxies {
            http: proxy(http)?.or_else(|| all.clone()),
            https: proxy(either("https_proxy"))?.or(all),
            bypass: Bypass::default(),
        };
        Ok(proxies.except(&either("no_proxy").unwrap_or_default()))
    }

    /// Uses `proxy` for `http` URLs.
    pub fn http(mut self, proxy: Proxy) -> Proxies {
        self.http = Some(proxy);
        self
    }

    /// Uses `proxy` for `https` URLs.
    pub fn https(mut self, proxy: Proxy) -> Proxies {
        self.https = Some(proxy);
        self
    }

    /// Uses no proxy for `hosts`, which is a list separated by commas or spaces, as in `NO_PROXY`.
    ///
    /// `example.com`, `.example.com` and `*.example.com` stand for that domain and all below it, `192.0.2.1` and `::1`
    /// for an address, `10.0.0.0/8` for a network, and `*` for every host. A port may follow a name, an address
    /// (`[::1]:8080`) or `*`. Names are not looked up to find out whether they are in a network. Anything else in the
    /// list is ignored. A host that is not in the list is reached through the proxy, even `localhost`.
    pub fn except(mut self, hosts: &str) -> Proxies {
        self.bypass.add(hosts);
        self
    }

    /// Gives HTTP proxies without credentials this value of `Proxy-Authorization`.
    pub(in crate::client) fn authorize(&mut self, authorization: &str) {
        for proxy in [&mut self.http, &mut self.https].into_iter().flatten() {
            proxy.authorize(authorization);
        }
    }

    /// Sends each CONNECT with this `user-agent`, unless its proxy has one.
    pub(in crate::client) fn introduce(&mut self, user_agent: &[u8]) {
        for proxy in [&mut self.http, &mut self.https].into_iter().flatten() {
            proxy.introduce(user_agent);
        }
    }

    /// The proxy for `host` and `port` of a URL with this scheme, if one is used.
    pub(in crate::client) fn proxy_for(&self, scheme: Scheme, host: &str, port: u16) -> Option<&Proxy> {
        let proxy = match scheme {
            Scheme::Http => self.http.as_ref(),
            Scheme::Https => self.https.as_ref(),
        };
        proxy.filter(|_| !self.bypass.covers(host, port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The environment `vars`, given as `NAME=value`, leads to these proxies for `http://a` and for `https://a`.
    #[track_caller]
    fn check(vars: &[&str], http: Option<&str>, https: Option<&str>) {
        let var = |name: &str| {
            let value = |var: &&str| var.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
            vars.iter().find_map(value)
        };
        let proxies = Proxies::from_vars(var).unwrap();
        let host = |scheme, port| proxies.proxy_for(scheme, "a", port).map(|proxy| proxy.address().0);
        assert_eq!((host(Scheme::Http, 80), host(Scheme::Https, 443)), (http, https), "{vars:?}");
    }

    #[test]
    fn the_environment_names_proxies() {
        check(&[], None, None);
        check(&["http_proxy=h"], Some("h"), None);
        check(&["HTTP_PROXY=h"], Some("h"), None);
        check(&["https_proxy=s"], None, Some("s"));
        check(&["HTTPS_PROXY=s", "http_proxy=h"], Some("h"), Some("s"));
        check(&["ALL_PROXY=x"], Some("x"), Some("x"));
        check(&["all_proxy=x", "https_proxy=s"], Some("x"), Some("s"));
        check(&["HTTP_PROXY=upper", "http_proxy=lower"], Some("lower"), None);
        check(&["http_proxy=", "HTTP_PROXY=h"], Some("h"), None);
        check(&["http_proxy=", "https_proxy="], None, None);
        check(&["Http_Proxy=h", "proxy=p", "http_proxy_=h"], None, None);
    }

    #[test]
    fn the_field_proxy_names_no_proxy_for_a_cgi_program() {
        check(&["HTTP_PROXY=evil", "REQUEST_METHOD=GET"], None, None);
        check(&["HTTP_PROXY=evil", "REQUEST_METHOD="], None, None);
        let lower = (!cfg!(windows)).then_some("h");
        check(&["HTTP_PROXY=evil", "http_proxy=h", "REQUEST_METHOD=GET"], lower, None);
        check(&["HTTP_PROXY=evil", "ALL_PROXY=x", "REQUEST_METHOD=GET"], Some("x"), Some("x"));
        check(&["HTTP_PROXY=e vil", "HTTPS_PROXY=s", "REQUEST_METHOD=GET"], None, Some("s"));
    }

    #[test]
    fn some_hosts_are_asked_without_a_proxy() {
        for list in ["no_proxy=a", "NO_PROXY=b,a", "no_proxy=*"] {
            check(&["all_proxy=x", list], None, None);
        }
        check(&["all_proxy=x", "no_proxy=b"], Some("x"), Some("x"));
        check(&["all_proxy=x", "no_proxy=a:443"], Some("x"), None);
        check(&["all_proxy=x", "NO_PROXY=a", "no_proxy=b"], Some("x"), Some("x"));
        let proxies = Proxies::all(Proxy::new("x").unwrap()).except("a").except("b");
        for (host, expected) in [("a", None), ("c.b", None), ("c", Some("x"))] {
            assert_eq!(proxies.proxy_for(Scheme::Http, host, 80).map(|proxy| proxy.address().0), expected);
        }
    }

    #[test]
    fn a_variable_that_names_no_proxy_is_an_error() {
        for name in ["http_proxy", "HTTPS_PROXY", "all_proxy"] {
            for value in ["ftp://x", "h\r\nx", "h\u{fffd}", " ", "http://h/p"] {
                let var = |asked: &str| (asked == name).then(|| value.to_owned());
                assert!(Proxies::from_vars(var).is_err(), "{name}={value:?}");
            }
        }
    }

    #[test]
    fn each_scheme_may_have_its_own_proxy() {
        let proxy = |url| Proxy::new(url).unwrap();
        let proxies = Proxies::none().http(proxy("h"));
        assert_eq!(proxies.proxy_for(Scheme::Http, "a", 80), Some(&proxy("h")));
        assert_eq!(proxies.proxy_for(Scheme::Https, "a", 443), None);
        let proxies = Proxies::all(proxy("x")).https(proxy("s"));
        assert_eq!(proxies.proxy_for(Scheme::Http, "a", 80), Some(&proxy("x")));
        assert_eq!(proxies.proxy_for(Scheme::Https, "a", 443), Some(&proxy("s")));
    }
}
