//! [`Outcome`]: where a request leads; [`respond`] answers one that has no handler.

use super::spelling::normal_form;
use super::table::{Endpoint, RouteIndex};
use crate::message::{Method, Request, Response, Status};
use crate::server::{Context, Result};

/// Where a request leads.
#[derive(Clone, Copy)]
pub(super) enum Outcome<'t> {
    Route(RouteIndex),
    /// The router itself lists the methods of the path.
    Options(&'t Endpoint),
    NotAllowed(&'t Endpoint),
    NotFound,
    /// The server as a whole, which is the target `*` (RFC 9110 §9.3.7).
    ServerOptions,
    /// A route matches the normal form of the path.
    OtherSpelling,
    /// A route matches the path with another end: with a slash or without.
    OtherEnd,
}

impl<'t> Outcome<'t> {
    #[inline]
    pub(super) fn new(endpoint: &'t Endpoint, method: &Method) -> Outcome<'t> {
        match (endpoint.route(method), method) {
            (Some(route), _) => Outcome::Route(route),
            (None, Method::Options) => Outcome::Options(endpoint),
            (None, _) => Outcome::NotAllowed(endpoint),
        }
    }
}

/// Responds to a request that has no handler.
#[cold]
pub(super) fn respond(ctx: &mut Context, outcome: Outcome<'_>) -> Result {
    let Context { request, response, .. } = ctx;
    match outcome {
        Outcome::NotAllowed(endpoint) => {
            response.headers.set("allow", &endpoint.allow)?;
            return Err(Status::METHOD_NOT_ALLOWED.into());
        }
        Outcome::Options(endpoint) => {
            response.headers.set("allow", &endpoint.allow)?;
            response.status = Status::NO_CONTENT;
        }
        Outcome::ServerOptions => response.status = Status::NO_CONTENT,
        Outcome::OtherSpelling => redirect(response, normal_form(request.path()), request)?,
        // In normal form, since browsers take the `\` of `/\a/` for a slash, and `a` for a host.
        Outcome::OtherEnd => redirect(response, normal_form(&with_other_end(request.path())), request)?,
        Outcome::NotFound | Outcome::Route(_) => return Err(Status::NOT_FOUND.into()),
    }
    Ok(())
}

/// Redirects a request to another path, with the same query.
fn redirect(response: &mut Response, mut path: String, request: &Request) -> Result {
    let query = request.query().as_str();
    if !query.is_empty() {
        path.extend(["?", query]);
    }
    Ok(response.set_redirect(Status::PERMANENT_REDIRECT, &path)?)
}

/// The path with a slash at its end, or without.
pub(super) fn with_other_end(path: &str) -> String {
    path.strip_suffix('/').map_or_else(|| format!("{path}/"), str::to_owned)
}
