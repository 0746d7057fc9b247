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
    http: ProxySetting,
    https: ProxySetting,
    bypass: Bypass,
}

/// The proxy for the URLs of one scheme, if there is one.
#[derive(Clone, Debug, Default)]
enum ProxySetting {
    #[default]
    Direct,
    Through(Proxy),
    /// `all_proxy`, which names no proxy. That is an error once a request would use it.
    Unusable(InvalidProxy),
}

impl Proxies {
    /// Uses no proxy.
    pub fn none() -> Proxies {
        Proxies::default()
    }

    /// Uses one proxy for all URLs.
    pub fn all(proxy: Proxy) -> Proxies {
        let (http, https) = (ProxySetting::Through(proxy.clone()), ProxySetting::Through(proxy));
        Proxies { http, https, bypass: Bypass::default() }
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
    /// Each may also be written in upper case; if both are set, lower case wins. Blanks around a value are ignored, and
    /// an empty variable counts as unset.
    /// `HTTP_PROXY` is ignored if `REQUEST_METHOD` is set, since in a CGI program a client can set it with a field
    /// `Proxy`. On Windows, where names have no case, `http_proxy` is then ignored as well.
    ///
    /// A variable that is not used may have any value: `all_proxy` beside the other two, as desktops export it with the
    /// scheme `socks`, or all three beside `no_proxy=*`. An `all_proxy` that names no proxy and is the only one for a
    /// scheme fails the requests to URLs of that scheme, with [`ClientCause::Proxy`](crate::ClientCause::Proxy).
    ///
    /// # Errors
    ///
    /// Fails with [`InvalidProxy::Variable`], which names the variable and quotes its value, if `http_proxy` or `https_proxy`
    /// does not name a proxy.
    pub fn from_env() -> Result<Proxies, InvalidProxy> {
        // A value that is not UTF-8 becomes a text that is not valid in a proxy's URL.
        Proxies::from_vars(|name| env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    fn from_vars(var: impl Fn(&str) -> Option<String>) -> Result<Proxies, InvalidProxy> {
        let set = |name: String| {
            let value = var(&name)?;
            let value = value.trim_ascii();
            (!value.is_empty()).then(|| (name, value.to_owned()))
        };
        let either = |name: &str| set(name.to_owned()).or_else(|| set(name.to_ascii_uppercase()));
        let proxies = match either("no_proxy") {
            Some((_, hosts)) => Proxies::none().except(&hosts),
            None => Proxies::none(),
        };
        if proxies.bypass.covers_all() {
            return Ok(proxies);
        }
        let http = match var("REQUEST_METHOD") {
            Some(_) if cfg!(windows) => None,
            Some(_) => set("http_proxy".to_owned()),
            None => either("http_proxy"),
        };
        let all = || {
            either("all_proxy").map_or(ProxySetting::Direct, |variable| match proxy_of_variable(variable) {
                Ok(proxy) => ProxySetting::Through(proxy),
                Err(invalid) => ProxySetting::Unusable(invalid),
            })
        };
        let or_all = |variable: Option<_>| match variable {
            Some(variable) => proxy_of_variable(variable).map(ProxySetting::Through),
            None => Ok(all()),
        };
        Ok(Proxies { http: or_all(http)?, https: or_all(either("https_proxy"))?, ..proxies })
    }

    /// Uses `proxy` for `http` URLs.
    pub fn http(mut self, proxy: Proxy) -> Proxies {
        self.http = ProxySetting::Through(proxy);
        self
    }

    /// Uses `proxy` for `https` URLs.
    pub fn https(mut self, proxy: Proxy) -> Proxies {
        self.https = ProxySetting::Through(proxy);
        self
    }

    /// Uses no proxy for `hosts`, which is a list separated by commas or spaces, as in `NO_PROXY`.
    ///
    /// `example.com`, `.example.com` and `*.example.com` stand for that domain and all below it, `192.0.2.1` and `::1`
    /// for an address, `10.0.0.0/8` for a network, and `*` for every host. A port may follow a name, an address
    /// (`[::1]:8080`) or `*`. A domain beyond ASCII needs the feature `idna`, as it does in a URL. Names are not looked
    /// up to find out whether they are in a network. Anything else in the list is ignored. A host that is not in the
    /// list is reached through the proxy, even `localhost`.
    pub fn except(mut self, hosts: &str) -> Proxies {
        self.bypass.add(hosts);
        self
    }

    /// Gives HTTP proxies without credentials this value of `Proxy-Authorization`.
    pub(in crate::client) fn set_default_authorization(&mut self, authorization: &str) {
        for setting in [&mut self.http, &mut self.https] {
            if let ProxySetting::Through(proxy) = setting {
                proxy.set_default_authorization(authorization);
            }
        }
    }

    /// Sends each CONNECT with this `user-agent`, unless its proxy has one.
    pub(in crate::client) fn set_default_user_agent(&mut self, user_agent: &[u8]) {
        for setting in [&mut self.http, &mut self.https] {
            if let ProxySetting::Through(proxy) = setting {
                proxy.set_default_user_agent(user_agent);
            }
        }
    }

    /// The proxy for `host` and `port` of a URL with this scheme, if one is used.
    ///
    /// # Errors
    ///
    /// Fails if the environment names one that cannot be used.
    pub(in crate::client) fn proxy_for(
        &self,
        scheme: Scheme,
        host: &str,
        port: u16,
    ) -> Result<Option<&Proxy>, &InvalidProxy> {
        let setting = match scheme {
            Scheme::Http => &self.http,
            Scheme::Https => &self.https,
        };
        match setting {
            ProxySetting::Direct => Ok(None),
            _ if self.bypass.covers(host, port) => Ok(None),
            ProxySetting::Through(proxy) => Ok(Some(proxy)),
            ProxySetting::Unusable(invalid) => Err(invalid),
        }
    }
}

/// The proxy that a variable of the environment names.
fn proxy_of_variable((name, value): (String, String)) -> Result<Proxy, InvalidProxy> {
    Proxy::new(&value).map_err(|invalid| InvalidProxy::of_variable(&name, invalid))
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
        let host =
            |scheme, port| proxies.proxy_for(scheme, "a", port).unwrap().map(|proxy| proxy.address().0);
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
            let proxy = proxies.proxy_for(Scheme::Http, host, 80).unwrap();
            assert_eq!(proxy.map(|proxy| proxy.address().0), expected);
        }
    }

    #[test]
    fn a_variable_that_names_no_proxy_is_an_error_that_names_it() {
        const SCHEME: [&str; 2] = ["scheme of the proxy", "is none of http, https, socks5 and socks5h"];
        const AUTHORITY: [&str; 2] =
            ["host or the port of the proxy", "is missing or malformed, or something follows"];
        const CREDENTIALS: [&str; 2] = ["username or the password for the proxy", "cannot be sent"];
        for name in ["http_proxy", "HTTPS_PROXY"] {
            for (value, shown, [front, why]) in [
                ("ftp://x", "`ftp://x`", SCHEME),
                ("ftp://joe:secret@x", "`ftp://x`", SCHEME),
                ("h\r\nx", r"`h\r\nx`", AUTHORITY),
                ("h^x", "`h^x`", AUTHORITY),
                ("http://h/p?secret", "`http://h/p`", AUTHORITY),
                ("http://joe:s ecret@h", "`http://h`", CREDENTIALS),
            ] {
                let var = |asked: &str| (asked == name).then(|| value.to_owned());
                let error = Proxies::from_vars(var).unwrap_err();
                let expected = format!("the variable {name} names no proxy: the {front} {shown} {why}");
                assert_eq!(format!("{error:#}"), expected);
                assert!(!format!("{error:?}").contains("ecret"), "{error:?}");
            }
        }
    }

    /// GNOME and Clash export `all_proxy` with a scheme that curl takes for SOCKS4, beside the variables that are used.
    #[test]
    fn a_variable_that_is_not_used_may_have_any_value() {
        for value in ["all_proxy=socks://127.0.0.1:7891/", "ALL_PROXY=ftp://x", "all_proxy=h\r\nx"] {
            check(&["http_proxy=h", "https_proxy=s", value], Some("h"), Some("s"));
            check(&["no_proxy=*", "http_proxy=ftp://x", value], None, None);
        }
        check(&["http_proxy= h ", "https_proxy=s\t", "all_proxy= "], Some("h"), Some("s"));
        check(&["http_proxy= ", "HTTP_PROXY=h\n"], Some("h"), None);
        check(&["http_proxy=h", "HTTP_PROXY=ftp://x"], Some("h"), None);
        check(&["HTTP_PROXY=ftp://x", "REQUEST_METHOD=GET"], None, None);
    }

    #[test]
    fn an_unusable_proxy_for_all_fails_what_would_use_it() {
        let vars = [("http_proxy", "h"), ("all_proxy", "socks://joe:secret@x"), ("no_proxy", "b")];
        let var =
            |asked: &str| vars.iter().find(|(name, _)| asked == *name).map(|(_, value)| (*value).into());
        let proxies = Proxies::from_vars(var).unwrap();
        assert!(matches!(proxies.proxy_for(Scheme::Http, "a", 80), Ok(Some(_))));
        assert_eq!(proxies.proxy_for(Scheme::Https, "b", 443), Ok(None));
        let expected = "the variable all_proxy names no proxy: the scheme of the proxy `socks://x` \
                        is none of http, https, socks5 and socks5h";
        let error = proxies.proxy_for(Scheme::Https, "a", 443).unwrap_err();
        assert_eq!(format!("{error:#}"), expected);
        let replaced = proxies.https(Proxy::new("s").unwrap());
        assert!(replaced.proxy_for(Scheme::Https, "a", 443).is_ok());
    }

    #[test]
    fn each_scheme_may_have_its_own_proxy() {
        let proxy = |url| Proxy::new(url).unwrap();
        let proxies = Proxies::none().http(proxy("h"));
        assert_eq!(proxies.proxy_for(Scheme::Http, "a", 80), Ok(Some(&proxy("h"))));
        assert_eq!(proxies.proxy_for(Scheme::Https, "a", 443), Ok(None));
        let proxies = Proxies::all(proxy("x")).https(proxy("s"));
        assert_eq!(proxies.proxy_for(Scheme::Http, "a", 80), Ok(Some(&proxy("x"))));
        assert_eq!(proxies.proxy_for(Scheme::Https, "a", 443), Ok(Some(&proxy("s"))));
    }
}
