//! [`Extensions`]: values that middleware passes on to the handlers it wraps.

use std::any::{Any, TypeId};
use std::fmt;

/// Values that middleware passes on to handlers, at most one of each type. They are dropped when the exchange is over.
///
/// # Examples
///
/// A guard that checks credentials hands the user to the handler:
///
/// ```
/// use corehttp::middleware::{guard, wrap};
/// use corehttp::{Context, Request, Result, Server, Status};
///
/// struct User(&'static str);
///
/// fn user(request: &Request) -> Option<User> {
///     match request.bearer_auth()? {
///         "8f14e45f" => Some(User("Ada")),
///         _ => None,
///     }
/// }
///
/// fn sign_in(ctx: &mut Context) -> Result {
///     let Some(user) = user(&ctx.request) else {
///         ctx.response.headers.set("www-authenticate", "Bearer")?;
///         return Err(Status::UNAUTHORIZED.into());
///     };
///     ctx.extensions.insert(user);
///     Ok(())
/// }
///
/// fn greet(ctx: &mut Context) -> Result {
///     let User(name) = ctx.extensions.get().ok_or(Status::INTERNAL_SERVER_ERROR)?;
///     ctx.response.set_text(format!("Hello, {name}!"));
///     Ok(())
/// }
///
/// let service = Server::new().service(wrap(guard(sign_in), greet));
/// # corehttp::block_on(async {
/// let mut request = Request::get("/")?;
/// assert_eq!(service.respond(request.clone()).await.status, Status::UNAUTHORIZED);
/// request.set_bearer_auth("8f14e45f")?;
/// assert_eq!(service.respond(request).await.body.bytes(), b"Hello, Ada!");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct Extensions {
    // There are few, so a scan beats hashing.
    values: Vec<(TypeId, Box<dyn Any>)>,
}

impl Extensions {
    /// Inserts `value`, and returns the previous value of its type, if any.
    pub fn insert<T: 'static>(&mut self, value: T) -> Option<T> {
        let old = self.remove::<T>();
        self.values.push((TypeId::of::<T>(), Box::new(value)));
        old
    }

    /// Returns the value of type `T`, if there is one.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.position::<T>().and_then(|at| self.values[at].1.downcast_ref())
    }

    /// Returns the value of type `T`, to be changed, if there is one.
    pub fn get_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.position::<T>().and_then(|at| self.values[at].1.downcast_mut())
    }

    /// Removes the value of type `T`, and returns it.
    pub fn remove<T: 'static>(&mut self) -> Option<T> {
        let at = self.position::<T>()?;
        self.values.swap_remove(at).1.downcast().ok().map(|value| *value)
    }

    pub(in crate::server) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(in crate::server) fn clear(&mut self) {
        // One by one: if two of them panicked while being dropped together, the process would abort.
        while let Some(value) = self.values.pop() {
            drop(value);
        }
    }

    fn position<T: 'static>(&self) -> Option<usize> {
        self.values.iter().position(|(of, _)| *of == TypeId::of::<T>())
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} extensions", self.values.len())
    }
}
