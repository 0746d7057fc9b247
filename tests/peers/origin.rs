//! The server that clients ask: one path for each thing that real clients have found faults in.
//!
//! | request | response |
//! |---|---|
//! | GET or HEAD `/hello` | `hello` |
//! | GET `/large/N` | N octets in chunks, the letter `x` each |
//! | POST `/echo` | the body, once it is whole: nginx sends no more of one after the response has begun |
//! | POST `/buffered` | 413, if the body is larger than 64 KiB |
//! | POST `/unread` | 403, without a look at the body |
//! | POST `/refused` | 401, by the plan |

use std::io;

use corehttp::message::FromText;
use corehttp::middleware::{self, wrap};
use corehttp::{BodyPlan, Context, Limits, Request, Server, ServerHandle, Status};

const BODY_MAX: usize = 64 << 10;
const ECHO_MAX: usize = 16 << 20;

pub(crate) fn origin() -> ServerHandle {
    let limits = Limits { body_max: BODY_MAX, ..Limits::default() };
    let server = Server::bind("127.0.0.1:0").limits(limits);
    server.start(wrap(middleware::plan(plan), respond)).expect("a server starts")
}

fn plan(request: &Request) -> BodyPlan {
    match request.path() {
        "/buffered" => BodyPlan::Buffer,
        "/echo" => BodyPlan::BufferUpTo(ECHO_MAX),
        "/refused" => BodyPlan::Refuse(Status::UNAUTHORIZED),
        _ => BodyPlan::Stream,
    }
}

async fn respond(ctx: &mut Context) -> corehttp::Result {
    match ctx.request.path() {
        "/hello" => ctx.response.set_text("hello"),
        "/echo" => {
            let Context { request, response, .. } = ctx;
            response.body.set_bytes(request.body.bytes());
        }
        "/unread" => return Err(Status::FORBIDDEN.into()),
        "/buffered" => ctx.response.set_text(ctx.request.body.len().to_string()),
        path => {
            let count = path.strip_prefix("/large/").and_then(usize::from_text);
            let count = count.ok_or_else(|| io::Error::other("the test asks for what there is"))?;
            let mut out = ctx.body_writer().await?;
            let piece = [b'x'; 1 << 14];
            for sent in (0..count).step_by(piece.len()) {
                out.write_all(&piece[..piece.len().min(count - sent)]).await?;
            }
            out.finish().await?;
        }
    }
    Ok(())
}
