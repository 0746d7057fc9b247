//! [`Hooks`]: the functions that observers attach to one event.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The functions that are attached to one event, in the order in which they are called.
pub(crate) struct Hooks<F: ?Sized>(Vec<Box<F>>);

impl<F: ?Sized> Hooks<F> {
    pub(crate) fn push(&mut self, function: Box<F>) {
        self.0.push(function);
    }

    /// Calls each function. A panic of one must end neither the exchange, the connection nor the core, and the others
    /// are called all the same.
    pub(crate) fn call(&self, call: impl Fn(&F)) {
        for function in self.iter() {
            let _ = catch_unwind(AssertUnwindSafe(|| call(function)));
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &F> {
        self.0.iter().map(|function| &**function)
    }

    /// Whether nothing is attached, so no report needs to be made.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<F: ?Sized> Default for Hooks<F> {
    fn default() -> Hooks<F> {
        Hooks(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::panic::resume_unwind;

    use super::*;

    #[test]
    fn functions_are_called_in_their_order_whatever_the_others_do() {
        // The functions write down what they are given.
        let called = RefCell::new(Vec::new());
        let mut hooks = Hooks::<dyn Fn(u8) + '_>::default();
        assert!(hooks.is_empty());
        hooks.push(Box::new(|given| called.borrow_mut().push(("first", given))));
        hooks.push(Box::new(|_| resume_unwind(Box::new("without a trace"))));
        hooks.push(Box::new(|given| called.borrow_mut().push(("last", given))));
        hooks.call(|function| function(7));
        assert_eq!((hooks.is_empty(), hooks.iter().count()), (false, 3));
        drop(hooks);
        assert_eq!(called.into_inner(), [("first", 7), ("last", 7)]);
    }
}
