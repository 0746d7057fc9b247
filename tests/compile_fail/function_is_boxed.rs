use corehttp::{Context, Handler};

async fn hello(ctx: &mut Context) {
    ctx.response.text("hello");
}

fn main() {
    let _: Vec<Box<dyn Handler>> = vec![Box::new(hello)];
}
