//! [`Files`]: a handler that serves directories (RFC 9110 §8, §13, §14).

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::answer;
use super::cache::{Cache, FileCache};
use super::listing::{self, Sort};
use super::lookup::{DotFiles, Found, Listing, Lookup, Neighbors, Site, owed};
use super::pattern::Pattern;
use super::root::{Links, Root, is_name};
use crate::message::{Headers, InvalidField, Method, Request, Status};
use crate::runtime::{Seats, aside};
use crate::server::{BodyPlan, Context, Handler, IntoHandler, Result};

/// A handler that serves the files of a directory, and nothing outside of it.
///
/// ```no_run
/// use corehttp::{Files, Server};
///
/// fn main() -> corehttp::Result {
///     let files = Files::new("public")?
///         .precompressed()
///         .cache_control("/assets/*", "public, max-age=31536000, immutable")?
///         .cache_control("*", "no-cache")?;
///     Server::bind("127.0.0.1:8080").run(files)
/// }
/// ```
///
/// # What is answered
///
/// GET and HEAD are answered with content type, `etag` and `last-modified`; conditions (RFC 9110 §13) and ranges, one
/// or several (§14), are honored. A directory is answered with its index, `index.html`, if it has one. Small files that
/// are requested often are kept in memory, within the bounds of [`FileCache`]. Large files are sent in constant memory,
/// by sendfile(2) where the system has it. Disks are read on threads where no connection waits for them.
///
/// # What is not there
///
/// No path leaves the root: a target is decoded once, and `..`, NUL, backslashes and their like in it lead nowhere.
/// Symbolic links and files whose names begin with a dot count as not there, unless set otherwise; pipes, sockets and
/// devices always do. A file that is not there is answered with 404, or by [another handler](Files::not_found).
///
/// # Entity tags
///
/// An `etag` is made of a file's size and the time of its last change, in nanoseconds. It is strong once that time is
/// two seconds ago: until then a file may change again without a change of its time, so the tag is weak, and a new one
/// each time the file is looked at. Two things cannot be noticed. New content with both the size and the time of the
/// old has the same `etag`. And a file that is written to while it is sent goes out as a mixture: so replace a file by
/// renaming another to its name, which is seen whole or not at all.
#[doc(alias("ServeDir", "static files"))]
#[must_use]
pub struct Files<N = FilesNotFound> {
    pub(super) lookup: Arc<Lookup>,
    not_found: N,
}

impl Files {
    /// Serves the files below the directory `root`, which is opened now: if another takes its place later, the old one
    /// is still served.
    ///
    /// # Errors
    ///
    /// A path that does not lead to a directory that may be read.
    pub fn new(root: impl Into<PathBuf>) -> io::Result<Files> {
        Ok(Files::at(Root::disk(root.into())?))
    }

    /// Serves files that are part of the program, by their paths.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Files, Request, Server};
    ///
    /// static SITE: &[(&str, &[u8])] = &[
    ///     ("index.html", b"<h1>hi</h1>"), // or: include_bytes!("../site/index.html")
    ///     ("assets/site.css", b"h1 { color: teal }"),
    /// ];
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let service = Server::new().service(Files::embedded(SITE));
    /// let response = service.respond(Request::get("/assets/site.css")?).await;
    /// assert_eq!(response.headers.content_type(), Some("text/css; charset=utf-8"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn embedded(files: &[(&'static str, &'static [u8])]) -> Files {
        Files::at(Root::embedded(files))
    }

    fn at(root: Root) -> Files {
        let cache = Arc::new(Cache::new(FileCache::default()));
        let lookup = Lookup {
            sites: vec![Site { host: None, root, cache }],
            index: vec!["index.html".to_owned()],
            listing: Listing::Off,
            links: Links::Refused,
            dot_files: DotFiles::Hidden,
            neighbors: Neighbors::Ignored,
            cache_control: Vec::new(),
            prefix: String::new(),
            rewrite: None,
            copies: None,
        };
        Files { lookup: Arc::new(lookup), not_found: FilesNotFound(()) }
    }
}

impl<N> Files<N> {
    /// Serves another directory for requests to `host`, which is a name or an address without a port. Hosts without a
    /// directory of their own are served the first one; with `Files::embedded(&[])` as the first there is nothing for
    /// them.
    ///
    /// # Errors
    ///
    /// As [`Files::new`]; a directory above that of `compressed_copies`.
    pub fn host(self, host: &str, root: impl Into<PathBuf>) -> io::Result<Files<N>> {
        let root = Root::disk(root.into())?;
        let host = Some(host.to_owned());
        let files = self.with(|lookup| {
            let cache = Arc::new(Cache::new(lookup.sites[0].cache.bounds));
            lookup.sites.push(Site { host, root, cache });
        });
        files.lookup.check_copies().map(|()| files)
    }

    /// The names of index files: a directory is answered with the first that is there. Default: `index.html`.
    pub fn index<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Files<N> {
        let names = names.into_iter().map(Into::into).filter(|name: &String| is_name(name));
        self.with(|lookup| lookup.index = names.collect())
    }

    /// Shows what is in a directory that has no index.
    pub fn listing(self) -> Files<N> {
        self.with(|lookup| lookup.listing = Listing::On)
    }

    /// Follows symbolic links, as long as they stay below the root. Links to absolute paths do not.
    pub fn follow_links(self) -> Files<N> {
        self.with(|lookup| lookup.links = Links::Followed)
    }

    /// Serves files and directories whose names begin with a dot like all others.
    pub fn show_dot_files(self) -> Files<N> {
        self.with(|lookup| lookup.dot_files = DotFiles::Shown)
    }

    /// Answers a request for `a.js` with `a.js.br`, `a.js.zst` or `a.js.gz` if the client prefers that coding (RFC 9110
    /// §12.5.3), and the file is smaller than `a.js` itself and no older.
    pub fn precompressed(self) -> Files<N> {
        self.with(|lookup| lookup.neighbors = Neighbors::Precompressed)
    }

    /// Sets `cache-control` for the files whose path, from the root on and with a `/` before it, `pattern` matches:
    /// `*` stands for any characters. Of several patterns the first that matches counts.
    ///
    /// # Errors
    ///
    /// A value that could not stand in a field.
    pub fn cache_control(self, pattern: &str, value: &str) -> Result<Files<N>, InvalidField> {
        Headers::new().set("cache-control", value)?;
        let rule = (Pattern::new(pattern), value.to_owned());
        Ok(self.with(|lookup| lookup.cache_control.push(rule)))
    }

    /// Removes this prefix, which is whole names of a path, from each target. A target that does not begin with it is
    /// not found. The prefix alone, without a `/` behind it, is sent there, like any other directory.
    pub fn strip_prefix(self, prefix: &str) -> Files<N> {
        let prefix = prefix.trim_matches('/').to_owned();
        self.with(|lookup| lookup.prefix = prefix)
    }

    /// Lets `rewrite` choose the file for a request: a path below the root, in which nothing is decoded. If it returns
    /// none, the target's own path counts. A path that would leave the root is not found.
    pub fn rewrite<R>(self, rewrite: R) -> Files<N>
    where
        R: Fn(&Request) -> Option<String> + Send + Sync + 'static,
    {
        self.with(|lookup| lookup.rewrite = Some(Arc::new(rewrite)))
    }

    /// Bounds what is kept between requests, for each root.
    pub fn cache(self, bounds: FileCache) -> Files<N> {
        self.with(|lookup| lookup.sites.iter_mut().for_each(|site| site.cache = Arc::new(Cache::new(bounds))))
    }

    /// Has `handler` answer requests for which no file is found, whatever the method.
    pub fn not_found<Kind, H: IntoHandler<Kind>>(self, handler: H) -> Files<H::Handler> {
        Files { lookup: self.lookup, not_found: handler.into_handler() }
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut Lookup)) -> Files<N> {
        change(Arc::make_mut(&mut self.lookup));
        self
    }

    /// What the request leads to: from the cache, or from where it is.
    async fn find(&self, ctx: &Context) -> Result<Found> {
        let (lookup, now) = (&self.lookup, ctx.arrived());
        let Some(path) = lookup.path(&ctx.request) else {
            return Ok(if lookup.is_prefix(&ctx.request) { Found::Directory } else { Found::Nothing });
        };
        let site = lookup.site(&ctx.request);
        // Paths are checked before anything is kept under them, so one that is found here is good.
        if let Some(resource) = site.cache.find(&path, now).filter(|resource| resource.is_as_it_was()) {
            return Ok(Found::Resource(resource));
        }
        let Some(below) = lookup.below(path) else { return Ok(Found::Nothing) };
        let found = match site.root {
            Root::Embedded(_) => lookup.look(site, &below),
            Root::Disk(_) => {
                let (lookup, site, below) = (lookup.clone(), site.clone(), below.to_owned());
                aside(move || lookup.look(&site, &below)).await?
            }
        };
        match &found {
            Ok(Found::Resource(resource)) => site.cache.keep(&below, resource, now),
            _ => site.cache.forget(&below),
        }
        found.map_err(owed)
    }
}

impl<N: Handler> Handler for Files<N> {
    fn on_head(&self, request: &Request) -> BodyPlan {
        self.not_found.on_head(request)
    }

    async fn handle(&self, ctx: &mut Context) -> Result {
        let found = self.find(ctx).await?;
        let Context { request, response, .. } = ctx;
        match (found, request.method()) {
            (Found::Nothing, _) => return self.not_found.handle(ctx).await,
            (Found::Resource(resource), Method::Get | Method::Head) => answer::fill(ctx, &resource)?,
            (Found::Directory, Method::Get | Method::Head) => {
                response.redirect(Status::MOVED_PERMANENTLY, &as_directory(request))?;
            }
            (Found::Listing(listed), Method::Get | Method::Head) => {
                let (lookup, sort) = (self.lookup.clone(), Sort::of(&request.query()));
                // An idle connection has the room that this takes, so what is seldom needed is in a box.
                let page = Box::pin(LISTINGS.work(move || lookup.list(&listed, sort))).await?;
                let page = page.map_err(owed)?;
                response.headers.set("content-security-policy", listing::POLICY)?;
                response.bytes("text/html; charset=utf-8", page)?;
            }
            (Found::Resource(_) | Found::Directory | Found::Listing(_), _) => {
                response.headers.set("allow", "GET, HEAD")?;
                return Err(Status::METHOD_NOT_ALLOWED.into());
            }
        }
        Ok(())
    }
}

/// Where directories are listed. Anybody may ask for a large one as often as they like, and whoever asks for a file is not
/// to wait behind them.
static LISTINGS: Seats = Seats::new();

/// The same target with a `/` behind its path. It begins with one, or else it would name a host (RFC 3986 §4.2).
fn as_directory(request: &Request) -> String {
    let (path, query) = (request.path().trim_matches('/'), request.query());
    match query.raw() {
        "" => format!("/{path}/"),
        query => format!("/{path}/?{query}"),
    }
}

impl<N> fmt::Debug for Files<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").field("lookup", &self.lookup).finish_non_exhaustive()
    }
}

/// Answers 404 to whatever [`Files`] does not find.
#[derive(Clone, Copy, Debug)]
pub struct FilesNotFound(());

impl Handler for FilesNotFound {
    /// Whatever a body says, it is not read.
    fn on_head(&self, _: &Request) -> BodyPlan {
        BodyPlan::Stream
    }

    async fn handle(&self, _: &mut Context) -> Result {
        Err(Status::NOT_FOUND.into())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::runtime::{available_cores, timeout};
    use crate::server::Server;

    /// All seats are taken: a listing waits for one of them, and a file for nobody.
    #[test]
    fn listings_wait_for_a_seat_and_files_do_not() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a.txt"), "content").unwrap();
        let service = Server::new().service(Files::new(root.path()).unwrap().listing());
        let ask = |path| service.respond(Request::get(path).unwrap());
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            let (leave, left) = mpsc::channel::<()>();
            let left = Arc::new(std::sync::Mutex::new(left));
            for _ in 0..available_cores() {
                let left = left.clone();
                let work = move || left.lock().unwrap().recv();
                tokio::spawn(LISTINGS.work(work));
            }
            tokio::task::yield_now().await;
            let mut listing = std::pin::pin!(ask("/"));
            assert!(timeout(Duration::from_millis(20), &mut listing).await.is_err());
            assert_eq!(ask("/a.txt").await.body.bytes(), b"content");
            assert_eq!(ask("/none/").await.status, Status::NOT_FOUND);
            drop(leave);
            assert!(listing.await.body.text().unwrap().contains("a.txt"));
        });
    }
}
