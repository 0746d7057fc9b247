use corehttp::{Context, IntoHandler};

fn text(_: &mut Context) -> &'static str {
    "hi"
}

async fn owned_text(_: &mut Context) -> String {
    String::from("hi")
}

async fn other_error(_: &mut Context) -> anyhow::Result<()> {
    Ok(())
}

async fn own_error(_: &mut Context) -> Result<(), std::fmt::Error> {
    Ok(())
}

async fn by_value(_: Context) {}

// Some compilers would say the same twice of a server that runs it.
fn is_one<Kind>(_: impl IntoHandler<Kind>) {}

fn main() {
    is_one(text);
    is_one(|_: &mut Context| "hi");
    is_one(owned_text);
    is_one(other_error);
    is_one(own_error);
    is_one(by_value);
}
