//! Files as responses.

#[cfg(all(feature = "compress", feature = "fs"))]
mod copies;
#[cfg(feature = "fs")]
mod files;
mod hostile_paths;
#[cfg(feature = "fs")]
mod sources;

/// A GET of `target` with these lines of fields.
#[cfg(feature = "fs")]
fn get(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nhost: a\r\n{fields}\r\n")
}

#[cfg(feature = "fs")]
fn field<'a>(received: &'a str, name: &str) -> Option<&'a str> {
    let head = received.split("\r\n\r\n").next()?;
    head.split("\r\n").find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[cfg(feature = "fs")]
fn body(received: &str) -> &str {
    received.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}
