//! [`Store`]: the cookies of a jar, by site, and which are dropped if there are too many (RFC 6265bis §5.7, §5.8.3).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::SystemTime;

use super::cookie::{Cookie, LIFE_MAX, Rejected, RequestUri};
use super::host;

/// All cookies. Callers pass the current time.
pub(super) struct Store {
    /// No list is empty.
    sites: HashMap<String, Vec<Cookie>>,
    /// Counts cookies set and sent, to order them in time. No two cookies have the same number.
    serial: u64,
    per_site_max: usize,
    cookies_max: usize,
}

impl Store {
    pub(super) fn bounded(per_site_max: usize, cookies_max: usize) -> Store {
        Store { sites: HashMap::new(), serial: 0, per_site_max, cookies_max }
    }

    /// Stores a cookie that a response from `uri` set.
    pub(super) fn insert(
        &mut self,
        uri: &RequestUri<'_>,
        cookie: Cookie,
        now: SystemTime,
    ) -> Result<(), Rejected> {
        let mut known = self.sites.get(host::site(&cookie.domain)).into_iter().flatten();
        if !uri.is_secure && known.any(|other| other.is_alive(now) && cookie.shadows(other)) {
            return Err(Rejected::Insecure);
        }
        self.restore(cookie, now);
        Ok(())
    }

    /// Stores a cookie that has already been checked. An expired one removes the one that it replaces.
    pub(super) fn restore(&mut self, mut cookie: Cookie, now: SystemTime) {
        self.serial += 1;
        (cookie.created, cookie.used) = (self.serial, self.serial);
        cookie.expires = cookie.expires.map(|expires| expires.min(now + LIFE_MAX));
        let site = host::site(&cookie.domain).to_owned();
        let mut cookies = self.sites.remove(&site).unwrap_or_default();
        if let Some(old) = cookies.iter().position(|other| cookie.replaces(other)) {
            cookie.created = cookies.swap_remove(old).created;
        }
        if cookie.is_alive(now) {
            cookies.push(cookie);
        }
        if cookies.len() > self.per_site_max {
            cookies.retain(|cookie| cookie.is_alive(now));
        }
        if cookies.len() > self.per_site_max {
            let least = cookies.iter().map(|cookie| (cookie.secure, cookie.used)).min();
            cookies.retain(|cookie| Some((cookie.secure, cookie.used)) != least);
        }
        if !cookies.is_empty() {
            self.sites.insert(site, cookies);
        }
        self.evict_excess(now);
    }

    fn evict_excess(&mut self, now: SystemTime) {
        if self.len() > self.cookies_max {
            self.retain(|cookie| cookie.is_alive(now));
        }
        if self.len() > self.cookies_max {
            let least = self.iter().map(|cookie| cookie.used).min();
            self.retain(|cookie| Some(cookie.used) != least);
        }
    }

    fn len(&self) -> usize {
        self.sites.values().map(Vec::len).sum()
    }

    /// The value of the `Cookie` field of a request for `uri`.
    pub(super) fn cookie_field(&mut self, uri: &RequestUri<'_>, now: SystemTime) -> Option<Vec<u8>> {
        let cookies = self.sites.get_mut(host::site(&uri.host))?;
        let mut sent: Vec<&mut Cookie> =
            cookies.iter_mut().filter(|cookie| cookie.is_alive(now) && cookie.matches(uri)).collect();
        sent.sort_by_key(|cookie| (Reverse(cookie.path.len()), cookie.created));
        let mut field = Vec::new();
        for cookie in sent {
            self.serial += 1;
            cookie.used = self.serial;
            let between: &[u8] = if field.is_empty() { b"" } else { b"; " };
            let equals: &[u8] = if cookie.name.is_empty() { b"" } else { b"=" };
            field.extend([between, &cookie.name, equals, &cookie.value].concat());
        }
        Some(field).filter(|field| !field.is_empty())
    }

    /// Keeps the cookies that `is_kept` chooses.
    pub(super) fn retain(&mut self, mut is_kept: impl FnMut(&Cookie) -> bool) {
        self.sites.retain(|_, cookies| {
            cookies.retain(|cookie| is_kept(cookie));
            !cookies.is_empty()
        });
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Cookie> {
        self.sites.values().flatten()
    }
}
