//! [`Extensions`]: what middleware tells the handlers behind it.

use std::any::{Any, TypeId};
use std::fmt;

/// Values of one exchange, at most one of each type. Empty again for the next exchange.
///
/// # Examples
///
/// ```
/// use corehttp::Context;
///
/// struct User(String);
///
/// fn greet(ctx: &mut Context) {
///     let name = ctx.extensions.get::<User>().map_or("nobody", |user| user.0.as_str());
///     ctx.response.text(name);
/// }
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
    pub(super) fn clear(&mut self) {
        // Most exchanges have none, and to clear what is empty is a call.
        if !self.values.is_empty() {
            self.values.clear();
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
