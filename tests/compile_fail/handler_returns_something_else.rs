use corehttp::{Context, IntoHandler};

fn handler(_: &mut Context) -> &'static str {
    "hi"
}

// Some compilers would say the same twice of a server that runs it.
fn is_one<Kind>(_: impl IntoHandler<Kind>) {}

fn main() {
    is_one(handler);
}
