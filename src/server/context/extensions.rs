//! [`Extensions`]: what middleware tells the handlers behind it.

use std::any::{Any, TypeId};
use std::fmt;

/// Values of one exchange, at most one of each type. Empty again for the next exchange.
///
/// # Examples
///
/// Who is let in, and who that is:
///
/// ```
/// use corehttp::{BodyPlan, Context, Handler, IntoHandler, Request, Result, Server, Status};
///
/// struct User(&'static str);
///
/// fn user(request: &Request) -> Option<User> {
///     match request.headers.text("authorization")?.strip_prefix("Bearer ")? {
///         "8f14e45f" => Some(User("Ada")),
///         _ => None,
///     }
/// }
///
/// struct Guarded<H>(H);
///
/// impl<H: Handler> Handler for Guarded<H> {
///     fn on_head(&self, request: &Request) -> BodyPlan {
///         match user(request) {
///             Some(_) => self.0.on_head(request),
///             None => BodyPlan::Stream, // and nobody reads it
///         }
///     }
///
///     async fn handle(&self, ctx: &mut Context) -> Result {
///         let Some(user) = user(&ctx.request) else {
///             ctx.response.headers.set("www-authenticate", "Bearer")?;
///             return Err(Status::UNAUTHORIZED.into());
///         };
///         ctx.extensions.insert(user);
///         self.0.handle(ctx).await
///     }
/// }
///
/// fn greet(ctx: &mut Context) -> Result {
///     let User(name) = ctx.extensions.get().ok_or(Status::INTERNAL_SERVER_ERROR)?;
///     ctx.response.text(format!("Hello, {name}!"));
///     Ok(())
/// }
///
/// let service = Server::new().service(Guarded(greet.into_handler()));
/// # corehttp::block_on(async {
/// let mut request = Request::get("/")?;
/// assert_eq!(service.respond(request.clone()).await.status, Status::UNAUTHORIZED);
/// request.headers.set("authorization", "Bearer 8f14e45f")?;
/// assert_eq!(service.respond(request).await.body.bytes(), b"Hello, Ada!");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct Extensions {
    // Few values: looking at each of them beats hashing.
    values: Vec<(TypeId, Box<dyn Any>)>,
}

impl Extensions {
    /// Puts `value` in, and answers the one of its type that was there.
    pub fn insert<T: 'static>(&mut self, value: T) -> Option<T> {
        let old = self.remove::<T>();
        self.values.push((TypeId::of::<T>(), Box::new(value)));
        old
    }

    /// The value of that type.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.position::<T>().and_then(|at| self.values[at].1.downcast_ref())
    }

    /// The value of that type.
    pub fn get_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.position::<T>().and_then(|at| self.values[at].1.downcast_mut())
    }

    /// Takes the value of that type out.
    pub fn remove<T: 'static>(&mut self) -> Option<T> {
        let at = self.position::<T>()?;
        self.values.swap_remove(at).1.downcast().ok().map(|value| *value)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        // One by one: should two of them panic, and be dropped together, that would be the end of the process.
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
