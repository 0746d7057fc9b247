//! [`HandlerSet`]: the handlers of a router, each under its index.

use std::future::ready;

use crate::message::Status;
use crate::server::{BodyPlan, BoxHandler, BoxedFuture, Context, Handler, Refusal, Result};

/// The handlers of a [`Router`](crate::Router), counted from 0.
///
/// [`routes!`](crate::routes) makes tuples, in which each handler keeps its type. A call is inlined, and its future needs no
/// allocation. In a `Vec` they are in boxes. Then routes can be added at run time.
pub trait HandlerSet: 'static {
    /// The number of handlers, as far as the type of the set determines it.
    const LEN: usize;

    /// Calls [`Handler::on_head`] of a handler.
    fn on_head(&self, index: usize, ctx: &mut Context) -> BodyPlan;

    /// Calls [`Handler::handle_now`] of a handler.
    fn handle_now(&self, index: usize, ctx: &mut Context) -> Option<Result>;

    /// Calls [`Handler::handle`] of a handler.
    fn handle(&self, index: usize, ctx: &mut Context) -> impl Future<Output = Result>;

    /// Calls [`Handler::note_route`] of a handler.
    #[doc(hidden)]
    fn note_route(&self, index: usize, ctx: &mut Context);

    /// Calls [`Handler::refuse`] of a handler.
    #[doc(hidden)]
    fn refuse<'a>(&'a self, index: usize, ctx: &'a mut Context, refusal: Refusal) -> BoxedFuture<'a>;
}

impl<H: Handler + 'static> HandlerSet for Vec<H> {
    const LEN: usize = usize::MAX;

    fn on_head(&self, index: usize, ctx: &mut Context) -> BodyPlan {
        self.get(index).map_or(BodyPlan::Stream, |handler| handler.on_head(ctx))
    }

    fn handle_now(&self, index: usize, ctx: &mut Context) -> Option<Result> {
        self.get(index)?.handle_now(ctx)
    }

    async fn handle(&self, index: usize, ctx: &mut Context) -> Result {
        match self.get(index) {
            Some(handler) => handler.handle(ctx).await,
            None => Err(Status::NOT_FOUND.into()),
        }
    }

    fn note_route(&self, index: usize, ctx: &mut Context) {
        if let Some(handler) = self.get(index) {
            handler.note_route(ctx);
        }
    }

    fn refuse<'a>(&'a self, index: usize, ctx: &'a mut Context, refusal: Refusal) -> BoxedFuture<'a> {
        match self.get(index) {
            Some(handler) => handler.refuse(ctx, refusal),
            None => not_found(),
        }
    }
}

macro_rules! tuples {
    ($($index:tt $handler:ident),*) => {
        impl<$($handler: Handler + 'static),*> HandlerSet for ($($handler,)*) {
            const LEN: usize = <[usize]>::len(&[$($index),*]);

            #[inline]
            #[allow(unused_variables, reason = "the empty tuple has no handler")]
            fn on_head(&self, index: usize, ctx: &mut Context) -> BodyPlan {
                match index {
                    $($index => self.$index.on_head(ctx),)*
                    _ => BodyPlan::Stream,
                }
            }

            #[inline]
            #[allow(unused_variables, reason = "the empty tuple has no handler")]
            fn handle_now(&self, index: usize, ctx: &mut Context) -> Option<Result> {
                match index {
                    $($index => self.$index.handle_now(ctx),)*
                    _ => None,
                }
            }

            #[inline]
            #[allow(unused_variables, reason = "the empty tuple has no handler")]
            async fn handle(&self, index: usize, ctx: &mut Context) -> Result {
                match index {
                    $($index => self.$index.handle(ctx).await,)*
                    _ => Err(Status::NOT_FOUND.into()),
                }
            }

            #[allow(unused_variables, reason = "the empty tuple has no handler")]
            fn note_route(&self, index: usize, ctx: &mut Context) {
                match index {
                    $($index => self.$index.note_route(ctx),)*
                    _ => {}
                }
            }

            #[allow(unused_variables, reason = "the empty tuple has no handler")]
            fn refuse<'a>(&'a self, index: usize, ctx: &'a mut Context, refusal: Refusal) -> BoxedFuture<'a> {
                match index {
                    $($index => self.$index.refuse(ctx, refusal),)*
                    _ => not_found(),
                }
            }
        }
    };
}

tuples!();
tuples!(0 A);
tuples!(0 A, 1 B);
tuples!(0 A, 1 B, 2 C);
tuples!(0 A, 1 B, 2 C, 3 D);
tuples!(0 A, 1 B, 2 C, 3 D, 4 E);
tuples!(0 A, 1 B, 2 C, 3 D, 4 E, 5 F);
tuples!(0 A, 1 B, 2 C, 3 D, 4 E, 5 F, 6 G);
tuples!(0 A, 1 B, 2 C, 3 D, 4 E, 5 F, 6 G, 7 H);

/// The handlers of two sets, one after the other. [`routes!`](crate::routes) makes a tree of it, since there are no tuples of
/// any length.
#[derive(Clone, Copy, Debug)]
pub struct Chain<S, T>(pub S, pub T);

impl<S: HandlerSet, T: HandlerSet> HandlerSet for Chain<S, T> {
    const LEN: usize = S::LEN.saturating_add(T::LEN);

    #[inline]
    fn on_head(&self, index: usize, ctx: &mut Context) -> BodyPlan {
        match index.checked_sub(S::LEN) {
            None => self.0.on_head(index, ctx),
            Some(index) => self.1.on_head(index, ctx),
        }
    }

    #[inline]
    fn handle_now(&self, index: usize, ctx: &mut Context) -> Option<Result> {
        match index.checked_sub(S::LEN) {
            None => self.0.handle_now(index, ctx),
            Some(index) => self.1.handle_now(index, ctx),
        }
    }

    #[inline]
    async fn handle(&self, index: usize, ctx: &mut Context) -> Result {
        match index.checked_sub(S::LEN) {
            None => self.0.handle(index, ctx).await,
            Some(index) => self.1.handle(index, ctx).await,
        }
    }

    fn note_route(&self, index: usize, ctx: &mut Context) {
        match index.checked_sub(S::LEN) {
            None => self.0.note_route(index, ctx),
            Some(index) => self.1.note_route(index, ctx),
        }
    }

    fn refuse<'a>(&'a self, index: usize, ctx: &'a mut Context, refusal: Refusal) -> BoxedFuture<'a> {
        match index.checked_sub(S::LEN) {
            None => self.0.refuse(index, ctx, refusal),
            Some(index) => self.1.refuse(index, ctx, refusal),
        }
    }
}

fn not_found<'a>() -> BoxedFuture<'a> {
    Box::pin(ready(Err(Status::NOT_FOUND.into())))
}

/// A box for handlers of type `H`: a [`BoxHandler`] for handlers of all cores, a `Box<dyn Handler>` for others.
pub trait FromHandler<H>: Handler + 'static {
    /// Boxes `handler`.
    fn from_handler(handler: H) -> Self;
}

impl<H: Handler + Send + Sync + 'static> FromHandler<H> for BoxHandler {
    fn from_handler(handler: H) -> BoxHandler {
        BoxHandler::new(handler)
    }
}

impl<H: Handler + 'static> FromHandler<H> for Box<dyn Handler> {
    fn from_handler(handler: H) -> Box<dyn Handler> {
        Box::new(handler)
    }
}
