//! Receives files: `cargo run --release --example upload -- [DIR] [ADDR]`.
//!
//! | request | response |
//! |---|---|
//! | GET `/` | a page with a form |
//! | POST `/` | what came, a line each; files are saved in DIR as they arrive, under new names |
//!
//! Try it with `curl -F title=Cat -F photo=@cat.jpg http://127.0.0.1:8080/`.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use corehttp::middleware::wrap;
use corehttp::multipart::MultipartLimits;
use corehttp::{BodyPlan, Context, Server, routes, shutdown_signal, with_state};

fn main() -> corehttp::Result {
    let mut args = std::env::args().skip(1);
    let dir: Arc<Path> = args.next().map_or_else(std::env::temp_dir, PathBuf::from).into();
    let address = args.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    println!("files go to {}", dir.display());
    let router = routes! {
        GET "/" => |ctx: &mut Context| ctx.response.set_html(PAGE),
        POST "/" => wrap(BodyPlan::Stream, with_state(&dir, receive)),
    };
    let running = Server::bind(address).stop_on(shutdown_signal(), Duration::from_secs(10)).start(router)?;
    println!("listening on {running}");
    running.wait()
}

/// Saves the files of a form, and answers what was in it. Nothing is kept of a form that is cut short or malformed.
async fn receive(dir: &Path, ctx: &mut Context) -> corehttp::Result {
    let limits = MultipartLimits { part_max: 4 << 30, bytes_max: 8 << 30, ..MultipartLimits::default() };
    let (mut listing, mut files, mut parts) =
        (String::new(), Drafts::default(), ctx.multipart_up_to(limits)?);
    while let Some(mut part) = parts.part().await? {
        let name = part.name().to_owned();
        match part.file_name().map(str::to_owned) {
            None => writeln!(listing, "{name}: {}", part.text().await?)?,
            // A browser sends a nameless, empty file where none was chosen (HTML §4.10.21.4).
            Some(file_name) if file_name.is_empty() => writeln!(listing, "{name}: no file")?,
            Some(file_name) => {
                let saved = part.save(dir).await?;
                writeln!(listing, "{name}: {file_name:?}, {} bytes, is {}", saved.len, saved.path.display())?;
                files.0.push(saved.path);
            }
        }
    }
    files.keep();
    ctx.response.set_text(listing);
    Ok(())
}

/// Files that are removed unless they are kept, even if the handler is dropped before its end.
#[derive(Default)]
struct Drafts(Vec<PathBuf>);

impl Drafts {
    fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for Drafts {
    fn drop(&mut self) {
        let paths = std::mem::take(&mut self.0);
        if !paths.is_empty() {
            // One that cannot be removed does not keep the others.
            tokio::task::spawn_blocking(move || {
                paths.iter().for_each(|path| drop(std::fs::remove_file(path)))
            });
        }
    }
}

const PAGE: &str = r#"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Upload</title>
<style>
  :root { color-scheme: light dark; background: Canvas; color: CanvasText }
  body { font: 1rem/1.5 system-ui, sans-serif; max-width: 40rem; margin: 2rem auto; padding: 0 1rem }
  label { display: block; margin-bottom: 1rem }
  input, button { font: inherit; max-width: 100% }
</style>
<main>
  <h1>Upload</h1>
  <form method="post" enctype="multipart/form-data">
    <label>Title <input name="title"></label>
    <label>Files <input type="file" name="files" multiple></label>
    <button>Send</button>
  </form>
</main>
"#;
