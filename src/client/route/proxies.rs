//! [`Proxies`]: which proxy is used for which URL; [`Bypass`]: which hosts are reached without one, by the rules of
//! curl's `NO_PROXY`.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::{env, fmt};

use super::origin::Origin;
use super::proxy::{Proxy, ProxyError};
use crate::message::{Authority, Scheme, decimal, split_port, uri_host};
use crate::net::UriHost;

/// The proxies for the URLs of a client. Default: none.
///
/// # Examples
///
/// ```
/// use corehttp::client::{Proxies, Proxy};
///
/// let proxies = Proxies::all(Proxy::new("http://proxy:3128")?)
///     .https(Proxy::new("socks5h://127.0.0.1")?)
///     .except("localhost, .internal, 10.0.0.0/8");
/// # Ok::<(), corehttp::client::ProxyError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Proxies {
    http: ProxySetting,
    https: ProxySetting,
    /// Chooses the proxy in place of both, if there is one.
    chooser: Option<ProxyChooser>,
    bypass: Bypass,
}

/// A function that returns the proxy for an origin.
#[derive(Clone)]
struct ProxyChooser(Arc<ChooseProxy>);

type ChooseProxy = dyn Fn(&str) -> Option<Proxy> + Send + Sync;

/// The proxy for the URLs of one scheme, if there is one.
#[derive(Clone, Debug, Default)]
enum ProxySetting {
    #[default]
    Direct,
    Through(Proxy),
    /// `all_proxy`, which names no proxy. That is an error once a request would use it.
    Unusable(ProxyError),
}

impl Proxies {
    /// Uses no proxy.
    pub fn none() -> Proxies {
        Proxies::default()
    }

    /// Uses one proxy for all URLs.
    pub fn all(proxy: Proxy) -> Proxies {
        let (http, https) = (ProxySetting::Through(proxy.clone()), ProxySetting::Through(proxy));
        Proxies { http, https, ..Proxies::default() }
    }

    /// Uses the proxy that `choose` returns for an origin, such as `https://api.example` or `http://api.example:8080`. The
    /// origin is in lower case, and without a default port. With `None`, there is no proxy.
    ///
    /// The function is called when a pool for the origin begins, in each runtime, and not for each request. The client is
    /// locked meanwhile, so the function must not use it.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Client;
    /// use corehttp::client::{Proxies, Proxy};
    ///
    /// let proxy = Proxy::new("http://proxy:3128")?;
    /// let abroad = Proxies::by(move |origin| (!origin.ends_with(".internal")).then(|| proxy.clone()));
    /// let client = Client::builder().proxies(abroad).build();
    /// # drop(client);
    /// # Ok::<(), corehttp::client::ProxyError>(())
    /// ```
    pub fn by(choose: impl Fn(&str) -> Option<Proxy> + Send + Sync + 'static) -> Proxies {
        Proxies { chooser: Some(ProxyChooser(Arc::new(choose))), ..Proxies::default() }
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
    /// Each may also be written in upper case. Of both, the one in lower case wins. Blanks around a value are ignored, and an
    /// empty variable counts as unset.
    ///
    /// `HTTP_PROXY` is ignored if `REQUEST_METHOD` is set. In a CGI program, a client can set `HTTP_PROXY` with a field
    /// `Proxy`. On Windows, where names have no case, `http_proxy` is then ignored as well.
    ///
    /// An unused variable may have any value. Unused are `all_proxy` beside the other two, and all three beside `no_proxy=*`.
    /// Desktops export `all_proxy` with the scheme `socks`. If it names no proxy and is the only one for a scheme, requests of
    /// this scheme fail with [`ClientCause::Proxy`](crate::client::ClientCause::Proxy).
    ///
    /// # Errors
    ///
    /// Fails with [`ProxyError::Variable`] if `http_proxy` or `https_proxy` does not name a proxy. The error names the variable
    /// and quotes its value.
    pub fn from_env() -> Result<Proxies, ProxyError> {
        // A value that is not UTF-8 becomes a text that is not valid in a proxy's URL.
        Proxies::from_vars(|name| env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    fn from_vars(var: impl Fn(&str) -> Option<String>) -> Result<Proxies, ProxyError> {
        let in_this_case = |name: String| {
            let value = var(&name)?;
            let value = value.trim_ascii();
            (!value.is_empty()).then(|| (name, value.to_owned()))
        };
        let in_either_case =
            |name: &str| in_this_case(name.to_owned()).or_else(|| in_this_case(name.to_ascii_uppercase()));
        let proxies = match in_either_case("no_proxy") {
            Some((_, hosts)) => Proxies::none().except(&hosts),
            None => Proxies::none(),
        };
        if proxies.bypass.covers_all() {
            return Ok(proxies);
        }
        let http = match var("REQUEST_METHOD") {
            Some(_) if cfg!(windows) => None,
            Some(_) => in_this_case("http_proxy".to_owned()),
            None => in_either_case("http_proxy"),
        };
        let all = || {
            in_either_case("all_proxy").map_or(ProxySetting::Direct, |variable| {
                match proxy_of_variable(variable) {
                    Ok(proxy) => ProxySetting::Through(proxy),
                    Err(invalid) => ProxySetting::Unusable(invalid),
                }
            })
        };
        let or_all = |variable: Option<_>| match variable {
            Some(variable) => proxy_of_variable(variable).map(ProxySetting::Through),
            None => Ok(all()),
        };
        Ok(Proxies { http: or_all(http)?, https: or_all(in_either_case("https_proxy"))?, ..proxies })
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
        let authorization = authorization.to_owned();
        self.change_chosen(move |proxy| proxy.set_default_authorization(&authorization));
    }

    /// Sends each CONNECT with this `user-agent`, unless its proxy has one.
    pub(in crate::client) fn set_default_user_agent(&mut self, user_agent: &[u8]) {
        for setting in [&mut self.http, &mut self.https] {
            if let ProxySetting::Through(proxy) = setting {
                proxy.set_default_user_agent(user_agent);
            }
        }
        let user_agent = user_agent.to_owned();
        self.change_chosen(move |proxy| proxy.set_default_user_agent(&user_agent));
    }

    /// Changes each proxy that a function chooses.
    fn change_chosen(&mut self, change: impl Fn(&mut Proxy) + Send + Sync + 'static) {
        let Some(ProxyChooser(choose)) = self.chooser.take() else { return };
        self.chooser = Some(ProxyChooser(Arc::new(move |origin| {
            let mut proxy = choose(origin)?;
            change(&mut proxy);
            Some(proxy)
        })));
    }

    /// The proxy for `origin`, if one is used.
    ///
    /// # Errors
    ///
    /// Fails if the environment names one that cannot be used.
    pub(in crate::client) fn proxy_for(
        &self,
        origin: &Origin,
    ) -> Result<Option<Cow<'_, Proxy>>, &ProxyError> {
        let setting = match origin.scheme {
            Scheme::Http => &self.http,
            Scheme::Https => &self.https,
        };
        match (&self.chooser, setting) {
            (None, ProxySetting::Direct) => Ok(None),
            _ if self.bypass.covers(origin.host(), origin.port) => Ok(None),
            (Some(ProxyChooser(choose)), _) => Ok(choose(origin.key()).map(Cow::Owned)),
            (None, ProxySetting::Through(proxy)) => Ok(Some(Cow::Borrowed(proxy))),
            (None, ProxySetting::Unusable(invalid)) => Err(invalid),
        }
    }
}

impl fmt::Debug for ProxyChooser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProxyChooser")
    }
}

/// The proxy that a variable of the environment names.
fn proxy_of_variable((name, value): (String, String)) -> Result<Proxy, ProxyError> {
    Proxy::new(&value).map_err(|invalid| ProxyError::from_variable(&name, invalid))
}

/// Hosts that are reached without a proxy.
#[derive(Clone, Debug, Default)]
struct Bypass {
    rules: Vec<Rule>,
}

impl Bypass {
    /// Adds the rules of a list, separated by commas or white space. An item that is not a rule matches no host.
    fn add(&mut self, list: &str) {
        let rules = list.split(|c: char| c == ',' || c.is_ascii_whitespace()).filter_map(Rule::parse);
        self.rules.extend(rules);
    }

    /// Whether no host is reached through a proxy.
    fn covers_all(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule, Rule { hosts: Hosts::All, port: None }))
    }

    /// Whether `host` is reached without a proxy.
    fn covers(&self, host: &str, port: u16) -> bool {
        let host = UriHost::parse(host).ok();
        self.rules.iter().any(|rule| rule.covers(host, port))
    }
}

#[derive(Clone, Debug)]
struct Rule {
    hosts: Hosts,
    /// `None` stands for all ports.
    port: Option<u16>,
}

#[derive(Clone, Debug)]
enum Hosts {
    All,
    /// A domain and all below it, in lower case and without a dot at either end.
    Domain(Box<str>),
    /// The addresses that share this many leading bits with this one.
    Network(IpAddr, u32),
}

impl Rule {
    fn parse(text: &str) -> Option<Rule> {
        if !text.is_ascii() {
            // The hosts of URLs are in ASCII.
            let (host, port) = split_port(text);
            return Rule::parse(&format!("{}:{}", uri_host(host).ok()?, port.unwrap_or_default()));
        }
        if let Some((address, bits)) = text.split_once('/') {
            let address: IpAddr = address.parse().ok()?;
            let bits = decimal(bits.as_bytes()).filter(|bits| *bits <= width(address).into())?;
            return Some(Rule { hosts: Hosts::network(address, bits.try_into().ok()?), port: None });
        }
        if let Ok(address) = text.parse() {
            return Some(Rule { hosts: Hosts::address(address), port: None });
        }
        let Authority { host, port } = Authority::parse(text.as_bytes())?;
        let hosts = match host {
            "*" => Hosts::All,
            host => Hosts::parse(host)?,
        };
        Some(Rule { hosts, port })
    }

    fn covers(&self, host: Option<UriHost<'_>>, port: u16) -> bool {
        let covers = match (&self.hosts, host) {
            (Hosts::All, _) => true,
            (Hosts::Domain(domain), Some(UriHost::Name(name))) => is_in_domain(name, domain),
            (Hosts::Network(network, bits), Some(UriHost::Address(address))) => {
                prefix(*network, *bits) == prefix(address.to_canonical(), *bits)
            }
            (Hosts::Domain(_) | Hosts::Network(..), _) => false,
        };
        covers && self.port.is_none_or(|covered| covered == port)
    }
}

impl Hosts {
    fn parse(text: &str) -> Option<Hosts> {
        // `.example.com` and `*.example.com` mean the same as `example.com`.
        let domain = text.strip_prefix("*.").unwrap_or(text).trim_start_matches('.');
        match UriHost::parse(domain).ok()? {
            UriHost::Address(address) => Some(Hosts::address(address)),
            UriHost::Name(name) => {
                Some(Hosts::Domain(name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase().into()))
            }
        }
    }

    fn address(address: IpAddr) -> Hosts {
        Hosts::network(address, width(address))
    }

    /// A network of IPv4 addresses that are written as IPv6 is one of IPv4, as the addresses in it are.
    fn network(address: IpAddr, bits: u32) -> Hosts {
        match (address.to_canonical(), bits.checked_sub(width(address) - u32::BITS)) {
            (v4 @ IpAddr::V4(_), Some(bits)) => Hosts::Network(v4, bits),
            _ => Hosts::Network(address, bits),
        }
    }
}

fn width(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => u32::BITS,
        IpAddr::V6(_) => u128::BITS,
    }
}

/// The first `bits` of an address, and its width, so that addresses of two families are never equal.
fn prefix(address: IpAddr, bits: u32) -> (u32, Option<u128>) {
    let width = width(address);
    let value = match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    };
    (width, value.checked_shr(width.saturating_sub(bits)))
}

/// Whether `name` is `domain` or below it, ignoring case and a final dot.
fn is_in_domain(name: &str, domain: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let Some(start) = name.len().checked_sub(domain.len()) else { return false };
    // A host name is ASCII, so it can be split anywhere.
    let (below, end) = name.split_at(start);
    end.eq_ignore_ascii_case(domain) && (below.is_empty() || below.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::route::origin::key_of_url;

    /// The environment `vars`, given as `NAME=value`, leads to these proxies for `http://a` and for `https://a`.
    #[track_caller]
    fn check(vars: &[&str], http: Option<&str>, https: Option<&str>) {
        let var = |name: &str| {
            let value = |var: &&str| var.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
            vars.iter().find_map(value)
        };
        let proxies = Proxies::from_vars(var).unwrap();
        let host = |scheme, port| {
            chosen(&proxies, scheme, "a", port).unwrap().map(|proxy| proxy.address().0.to_owned())
        };
        let hosts = (host(Scheme::Http, 80), host(Scheme::Https, 443));
        assert_eq!((hosts.0.as_deref(), hosts.1.as_deref()), (http, https), "{vars:?}");
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
            let proxy = chosen(&proxies, Scheme::Http, host, 80).unwrap();
            assert_eq!(proxy.map(|proxy| proxy.address().0.to_owned()).as_deref(), expected);
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
        assert!(matches!(chosen(&proxies, Scheme::Http, "a", 80), Ok(Some(_))));
        assert_eq!(chosen(&proxies, Scheme::Https, "b", 443), Ok(None));
        let expected = "the variable all_proxy names no proxy: the scheme of the proxy `socks://x` \
                        is none of http, https, socks5 and socks5h";
        let error = chosen(&proxies, Scheme::Https, "a", 443).unwrap_err();
        assert_eq!(format!("{error:#}"), expected);
        let replaced = proxies.https(Proxy::new("s").unwrap());
        assert!(chosen(&replaced, Scheme::Https, "a", 443).is_ok());
    }

    /// The proxy for the origin of these parts.
    fn chosen<'a>(
        proxies: &'a Proxies,
        scheme: Scheme,
        host: &str,
        port: u16,
    ) -> Result<Option<Proxy>, &'a ProxyError> {
        let url = format!("{}://{host}:{port}", scheme.as_str());
        let origin = Origin::from_key(&key_of_url(&url).unwrap()).unwrap();
        proxies.proxy_for(&origin).map(|proxy| proxy.map(Cow::into_owned))
    }

    #[test]
    fn a_function_chooses_the_proxy_of_an_origin() {
        let proxies = Proxies::by(|origin| Proxy::new(origin.strip_suffix(".b")?).ok()).except("c.b");
        for (scheme, host, port, expected) in [
            (Scheme::Http, "a.b", 80, Some("a")),
            (Scheme::Https, "c.b", 443, None),
            (Scheme::Http, "a.b", 81, None),
        ] {
            let proxy = chosen(&proxies, scheme, host, port).unwrap();
            assert_eq!(proxy.map(|proxy| proxy.address().0.to_owned()).as_deref(), expected, "{host}:{port}");
        }
        let proxies = Proxies::by(|origin| (origin == "https://a:8443").then(|| Proxy::new("p").unwrap()));
        assert!(chosen(&proxies, Scheme::Https, "a", 8443).unwrap().is_some());
    }

    #[test]
    fn each_scheme_may_have_its_own_proxy() {
        let proxy = |url| Proxy::new(url).unwrap();
        let proxies = Proxies::none().http(proxy("h"));
        assert_eq!(chosen(&proxies, Scheme::Http, "a", 80), Ok(Some(proxy("h"))));
        assert_eq!(chosen(&proxies, Scheme::Https, "a", 443), Ok(None));
        let proxies = Proxies::all(proxy("x")).https(proxy("s"));
        assert_eq!(chosen(&proxies, Scheme::Http, "a", 80), Ok(Some(proxy("x"))));
        assert_eq!(chosen(&proxies, Scheme::Https, "a", 443), Ok(Some(proxy("s"))));
    }
}

#[cfg(test)]
mod bypass_tests {
    use super::*;

    #[track_caller]
    fn check(list: &str, host: &str, port: u16, covered: bool) {
        let mut bypass = Bypass::default();
        bypass.add(list);
        assert_eq!(bypass.covers(host, port), covered, "{list:?} and {host}:{port}");
    }

    fn check_all(list: &str, covered: &[&str], others: &[&str]) {
        covered.iter().for_each(|host| check(list, host, 80, true));
        others.iter().for_each(|host| check(list, host, 80, false));
    }

    #[test]
    fn a_domain_covers_what_is_below_it() {
        let below = ["example.com", "EXAMPLE.com", "www.example.com", "a.b.example.com", "example.com."];
        let others = ["nonexample.com", "example.com.org", "example.org", "com", "xample.com", "127.0.0.1"];
        for list in
            ["example.com", ".example.com", "*.example.com", "Example.COM", "example.com.", "..example.com"]
        {
            check_all(list, &below, &others);
        }
        check_all("localhost", &["localhost"], &["127.0.0.1", "[::1]", "notlocalhost"]);
    }

    /// Without the feature `idna`, such a rule covers nothing, since no URL with such a host can be requested either.
    #[test]
    fn a_domain_beyond_ascii_covers_its_form_in_ascii() {
        let is_read = cfg!(feature = "idna");
        for list in [
            "b\u{fc}cher.example",
            "*.B\u{dc}CHER.example",
            ".b\u{fc}cher.example:80",
            "b\u{fc}cher\u{3002}example.",
        ] {
            check(list, "xn--bcher-kva.example", 80, is_read);
            check(list, "www.xn--bcher-kva.example", 80, is_read);
            check(list, "bcher.example", 80, false);
        }
        check("b\u{fc}cher.example:81", "xn--bcher-kva.example", 80, false);
        check_all("b\u{fc}cher.example:x,b\u{fc}:99999", &[], &["xn--b-eha", "xn--bcher-kva.example"]);
    }

    #[test]
    fn lists_are_separated_by_commas_and_spaces() {
        for list in ["a,b", "a b", "a, b", " a ,\tb, ", ",,a,,b", "x y,a\nb"] {
            check_all(list, &["a", "b", "c.b"], &["c", "ab"]);
        }
        check_all("", &[], &["a", "127.0.0.1"]);
        check_all(" , ", &[], &["a"]);
    }

    #[test]
    fn a_star_covers_all() {
        for list in ["*", "a,*", " * ", "*:80"] {
            check_all(list, &["a", "127.0.0.1", "[::1]"], &[]);
        }
        check("*:80", "a", 81, false);
        check_all("a*", &[], &["a", "ab"]);
        check_all("**", &[], &["a"]);
    }

    #[test]
    fn addresses_and_networks_are_compared_as_numbers() {
        check_all("192.0.2.1", &["192.0.2.1", "[::ffff:192.0.2.1]"], &["192.0.2.10", "a.192.0.2.1", "[::1]"]);
        check_all("::ffff:192.0.2.1", &["192.0.2.1", "[::ffff:192.0.2.1]"], &["[::c000:201]"]);
        for list in ["::1", "[::1]", "0:0::1", "::1/128"] {
            check_all(list, &["[::1]", "::1"], &["[::2]", "0.0.0.1", "127.0.0.1"]);
        }
        let private = ["10.0.0.0", "10.255.255.255", "[::ffff:10.1.2.3]"];
        check_all("10.0.0.0/8", &private, &["11.0.0.0", "9.255.255.255", "[a00::]"]);
        check_all("10.1.2.3/8", &private, &["11.0.0.0"]);
        check_all("::ffff:10.0.0.0/104", &private, &["11.0.0.0", "[a00::]"]);
        check_all("::/95", &["[::1]"], &["10.0.0.0", "[::2:0:0]"]);
        check_all("192.0.2.128/25", &["192.0.2.128", "192.0.2.255"], &["192.0.2.127"]);
        check_all("192.0.2.1/32", &["192.0.2.1"], &["192.0.2.0", "192.0.2.2"]);
        check_all("0.0.0.0/0", &["0.0.0.0", "255.255.255.255"], &["[::1]", "a"]);
        check_all("2001:db8::/32", &["[2001:db8:ffff::]"], &["[2001:db9::]", "32.1.13.184"]);
        check_all("::/0", &["[::1]", "[ffff::]"], &["127.0.0.1", "a"]);
    }

    #[test]
    fn a_rule_may_be_for_one_port() {
        for (list, host) in [("a:81", "b.a"), ("192.0.2.1:81", "192.0.2.1"), ("[::1]:81", "[::1]")] {
            check(list, host, 81, true);
            check(list, host, 80, false);
        }
        check("a:", "a", 81, true);
    }

    #[test]
    fn an_invalid_rule_covers_nothing() {
        let hosts = ["a", "192.0.2.1", "[::1]", "10.0.0.1", "10.0.0.0"];
        let networks =
            ["10.0.0.0/33", "::/129", "10.0.0.0/+8", "10.0.0.0/", "10.0.0.0/8/8", "10/8", "10.0/8", "a/8"];
        let addresses = ["192.0.2", "192.0.2.01", "[::1", "::1]", "[192.0.2.1]", "3221225985", "0xc0000201"];
        let names = [".", "..", "http://a", "a/", "a:81x", "a:+80", "a:99999", "u@a", "a;", "*a", "é"];
        for list in [&networks[..], &addresses, &names].concat() {
            check_all(list, &[], &hosts);
        }
        check_all("a", &[], &["", "a b", "[a]", "a:80"]);
    }
}
