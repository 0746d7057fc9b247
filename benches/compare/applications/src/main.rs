//! The arena's application on other servers, each as its own users would write it: `peers NAME`.
//!
//! The environment says where things are: see the example `arena` of corehttp.

mod actix;
mod axum;
mod hyper;
mod limit;
mod may;
mod ntex;

mod environment;
mod items;
mod pool;

fn main() -> std::io::Result<()> {
    rustls::crypto::ring::default_provider().install_default().expect("nobody has chosen another");
    match std::env::args().nth(1).as_deref() {
        Some("actix-web") => actix::serve(),
        Some("axum") => axum::serve(),
        Some("hyper") => hyper::serve(),
        Some("limit") => limit::serve(),
        Some("may_minihttp") => may::serve(),
        Some("ntex") => ntex::serve(),
        _ => Err(std::io::Error::other("which of them? actix-web, axum, hyper, limit, may_minihttp or ntex")),
    }
}
