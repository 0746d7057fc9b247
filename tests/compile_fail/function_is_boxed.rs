use corehttp::{Context, Handler};

async fn hello(ctx: &mut Context) {
    ctx.response.set_text("hello");
}

fn main() {
    let _: Vec<Box<dyn Handler>> = vec![Box::new(hello)];
}
