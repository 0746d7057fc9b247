//! [`Files`]: a handler that serves directories (RFC 9110 §8, §13, §14).

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::cache::{Cache, FileCacheCounts, FileCacheLimits};
use super::listing::{DirListing, POLICY, Sort};
use super::lookup::{
    ByPattern, DotFiles, Found, Listed, Listing, Page, PathLookup, Precompressed, SourceLookup, VirtualHost,
    open_error, source_error,
};
use super::not_found::{self, FilesNotFound};
use super::path::{Links, is_valid_name, join};
use super::response;
use super::root::Root;
use super::snapshot::Etag;
use super::source::FileSource;
use crate::descriptors::with_descriptors;
use crate::message::text::percent;
use crate::message::{Headers, HostMap, MessageError, Method, OctetSet, Request, Status};
use crate::runtime::{BlockingLimit, boxed, spawn_blocking};
use crate::server::{BodyPlan, BoxedFuture, Context, Handler, IntoHandler, Refusal, Result};

/// Serves the files of a directory, and nothing outside of it.
///
/// ```no_run
/// use corehttp::Server;
/// use corehttp::fs::Files;
///
/// fn main() -> corehttp::Result {
///     let files = Files::new("public")?
///         .precompressed(true)
///         .cache_control("/assets/*", "public, max-age=31536000, immutable")?
///         .cache_control("*", "no-cache")?;
///     Server::bind("127.0.0.1:8080").run(files)
/// }
/// ```
///
/// As a part of an application, below a prefix:
///
/// ```no_run
/// use corehttp::{Context, routes, Server};
/// use corehttp::fs::Files;
///
/// fn main() -> corehttp::Result {
///     Server::bind("127.0.0.1:8080").run(routes! {
///         GET "/" => |ctx: &mut Context| ctx.response.set_html("<h1>hi</h1>"),
///         mount "/static" => Files::new("public")?, // 404 for all other paths
///     })
/// }
/// ```
///
/// # Responses
///
/// GET and HEAD are answered with content type, `etag` and `last-modified`. Preconditions (RFC 9110 §13) and ranges
/// (§14) are honored. Of an encoded form, only one range is honored, and for several it is sent whole. A directory is
/// answered with its index, `index.html`, if it has one. Small files that are requested often are kept in memory,
/// within the bounds of [`FileCacheLimits`]. Large files are sent in constant memory, with sendfile(2) where the system
/// has it. Disks are read on other threads, and no connection waits for them.
///
/// # Files that are not served
///
/// No path leaves the root. A target is decoded once, and leads nowhere with `..`, an escaped `/` or NUL in it. On
/// Windows, the same goes for a backslash and for special names. Only there, a process could lead a request out of the
/// root by replacing directories below it with links.
///
/// Symbolic links, and files with a dot at the beginning of their names, count as missing unless set otherwise. Pipes, sockets
/// and devices always do. A missing file is answered with 404, or by [another handler](Files::not_found).
///
/// # Entity tags
///
/// The `etag` of a file that is small enough for the cache is made of its content. So it changes with the content, also
/// for files of a build with one time. For larger files, size and times count. For other choices see [`Etag`]. The tag
/// is strong, except for a large file that changed less than two seconds ago. Such a file may change again without a
/// change of its time. Its tag is weak, and a new one at each check.
///
/// `last-modified` is the time of the file. Times before 1990 are not sent. They come from builds with one time for all
/// files (1970 as in Nix, 1980 as in zip, 1985 as in npm).
///
/// A file that is overwritten during a send goes out as a mixture. To replace a file, rename a new one, which is seen
/// whole or not at all.
///
/// # Fields that were set before
///
/// The fields of a file replace those that a handler has set before. Only `vary` keeps its lines and gets more.
/// [`Context::send_file`] keeps all fields instead.
#[doc(alias("ServeDir", "static files"))]
#[must_use]
pub struct Files<N = FilesNotFound> {
    pub(super) lookup: Arc<PathLookup>,
    not_found: N,
}

impl Files {
    /// Serves the files below the directory `root`.
    ///
    /// Another directory that takes its place is served within a second. The place may change by removal, by renaming,
    /// or by a link in the path. Requests check the path, but no more than twice a second. A file in transfer is sent
    /// to its end from the old directory. Nothing else of that directory is kept.
    ///
    /// Without a directory, no file is [found](Files::not_found): 404, unless another handler answers. A directory that
    /// must not be read leads to 403.
    ///
    /// # Errors
    ///
    /// Fails if the path leads to no readable directory.
    pub fn new(root: impl Into<PathBuf>) -> io::Result<Files> {
        Ok(Files::from_root(Root::from_path(root.into())?))
    }

    /// Serves files that are part of the program, by their paths. The `etag` of such a file is made of its content.
    /// There is no `last-modified`.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Request, Server};
    /// use corehttp::fs::Files;
    ///
    /// static SITE: &[(&str, &[u8])] = &[
    ///     ("index.html", b"<h1>hi</h1>"), // or: include_bytes!("../site/index.html")
    ///     ("assets/site.css", b"h1 { color: teal }"),
    /// ];
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let service = Server::new().service(Files::from_embedded(SITE));
    /// let response = service.respond(Request::get("/assets/site.css")?).await;
    /// assert_eq!(response.headers.content_type(), Some("text/css; charset=utf-8"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_embedded(files: &[(&'static str, &'static [u8])]) -> Files {
        Files::from_root(Root::from_embedded(files))
    }

    /// Serves the files of `source`, which is not on this disk. See [`FileSource`].
    ///
    /// All settings apply, except those for disks: [`Files::cache`], `compressed_copies`, [`Files::etag`] and
    /// [`Files::follow_links`]. The source is asked for each request, and read for each response with content.
    ///
    /// # Examples
    ///
    /// Files of an archive before those of a directory. (For an overlay with one list, use
    /// [`DirSource`](crate::fs::DirSource).)
    ///
    /// ```no_run
    /// # use corehttp::fs::FileSource;
    /// use corehttp::fs::Files;
    ///
    /// # fn overlay(archive: impl FileSource) -> corehttp::Result {
    /// let files = Files::from_source(archive).not_found(Files::new("public")?);
    /// # let _ = corehttp::Server::new().service(files);
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_source(source: impl FileSource) -> Files {
        Files::from_root(Root::Source(Arc::new(source)))
    }

    fn from_root(root: Root) -> Files {
        let cache = Arc::new(Cache::new(FileCacheLimits::default()));
        let lookup = PathLookup {
            vhosts: vec![VirtualHost { host: None, root, cache }],
            by_host: HostMap::default(),
            index: vec!["index.html".to_owned()],
            listing: Listing::Off,
            links: Links::Refused,
            dot_files: DotFiles::Hidden,
            precompressed: Precompressed::Ignored,
            cache_control: ByPattern::default(),
            types: ByPattern::default(),
            charsets: ByPattern::default(),
            etags: ByPattern::default(),
            prefix: String::new(),
            rewrite: None,
            copies: None,
        };
        Files { lookup: Arc::new(lookup), not_found: FilesNotFound::new() }
    }
}

impl<N> Files<N> {
    /// Serves another directory for requests to `host`: a name or an address, IPv6 in brackets, without a port.
    ///
    /// Hosts without a directory of their own get the first one. To serve them nothing, begin with
    /// `Files::from_embedded(&[])`.
    ///
    /// # Errors
    ///
    /// As [`Files::new`], or if the directory contains that of `compressed_copies`.
    pub fn host(self, host: &str, root: impl Into<PathBuf>) -> io::Result<Files<N>> {
        let root = Root::from_path(root.into())?;
        let files = self.with(|lookup| {
            let cache = Arc::new(Cache::new(lookup.vhosts[0].cache.bounds));
            let name = lookup.by_host.add(host, lookup.vhosts.len()).to_owned();
            lookup.vhosts.push(VirtualHost { host: Some(name), root, cache });
        });
        files.lookup.check_copies().map(|()| files)
    }

    /// Sets the names of index files. A directory is answered with the first one that exists. Names that no file may
    /// have, or with a `/`, are ignored. Default: `index.html`.
    pub fn index<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Files<N> {
        let names = names.into_iter().map(Into::into).filter(|name: &String| is_valid_name(name.as_bytes()));
        self.with(|lookup| lookup.index = names.collect())
    }

    /// Sets whether directories without an index are listed as a page. Default: no, they are answered with 404.
    pub fn listing(self, listing: bool) -> Files<N> {
        self.with(|lookup| lookup.listing = if listing { Listing::Html } else { Listing::Off })
    }

    /// Lists the contents of directories that have no index, as [JSON](DirListing::to_json).
    pub fn listing_json(self) -> Files<N> {
        self.with(|lookup| lookup.listing = Listing::Json)
    }

    /// Lists directories without an index by a function, which sets the response. Its status and `cache-control` are
    /// set already. While the function runs, its core serves no other connection.
    ///
    /// # Examples
    ///
    /// As JSON for clients that ask for it, and else as a page:
    ///
    /// ```
    /// use corehttp::fs::Files;
    /// # use corehttp::{Request, Server};
    ///
    /// let files = Files::from_embedded(&[("a.txt", b"hi")]).listing_with(|ctx, listing| {
    ///     ctx.response.headers.set("vary", "accept")?;
    ///     match ctx.request.headers.get("accept") {
    ///         Some("application/json") => {
    ///             ctx.response.set_shared_bytes("application/json", listing.to_json())?;
    ///         }
    ///         _ => ctx.response.set_html(listing.to_html()),
    ///     }
    ///     Ok(())
    /// });
    /// # let service = Server::new().service(files);
    /// # let mut request = Request::get("/")?;
    /// # request.headers.set("accept", "application/json")?;
    /// # let response = corehttp::block_on(service.respond(request))?;
    /// # assert!(response.text()?.contains("\"href\":\"./a.txt\""));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn listing_with<F>(self, respond: F) -> Files<N>
    where
        F: Fn(&mut Context, &DirListing) -> Result + Send + Sync + 'static,
    {
        self.with(|lookup| lookup.listing = Listing::With(Arc::new(respond)))
    }

    /// Sets whether symbolic links are followed within the root, also by an absolute path. Default: no, links count as
    /// missing.
    pub fn follow_links(self, follow: bool) -> Files<N> {
        self.with(|lookup| lookup.links = if follow { Links::Followed } else { Links::Refused })
    }

    /// Sets whether files and directories with a dot at the front of their names are served. Default: no, they count as
    /// missing.
    pub fn show_dot_files(self, show: bool) -> Files<N> {
        self.with(|lookup| lookup.dot_files = if show { DotFiles::Shown } else { DotFiles::Hidden })
    }

    /// Sets whether a request for `a.js` is answered with `a.js.br`, `a.js.zst` or `a.js.gz`. Default: no.
    ///
    /// The client must prefer that coding (RFC 9110 §12.5.3). The encoded file must be smaller than `a.js`, and at
    /// most a second older.
    pub fn precompressed(self, serve: bool) -> Files<N> {
        self.with(|lookup| {
            lookup.precompressed = if serve { Precompressed::Served } else { Precompressed::Ignored }
        })
    }

    /// Sets `cache-control` for files whose path matches `pattern`, for listings, and for the redirect to the path of a
    /// directory. The path is relative to the root and begins with `/`. A `*` in the pattern stands for any characters.
    /// If several patterns match, the first one counts. Default: no such field.
    ///
    /// # Errors
    ///
    /// Fails if the value is not valid in a field.
    pub fn cache_control(self, pattern: &str, value: &str) -> Result<Files<N>, MessageError> {
        Headers::new().set("cache-control", value)?;
        Ok(self.with(|lookup| lookup.cache_control.add(pattern, value.to_owned())))
    }

    /// Sets the content type of files whose path matches `pattern`, as in [`Files::cache_control`]. Default: the
    /// [type](crate::fs::FileMetadata::content_type) from the source, or else from the name, or else
    /// `application/octet-stream`.
    ///
    /// Text without a `charset` in its value gets one by [`Files::charset`].
    ///
    /// # Errors
    ///
    /// Fails if the value is not valid in a field.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> corehttp::Result {
    /// let files = corehttp::fs::Files::new("public")?
    ///     .content_type("*.pgn", "application/vnd.chess-pgn")?
    ///     .content_type("/LICENSE", "text/plain")?
    ///     .charset("/1998/*", Some("iso-8859-1"))?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("mime", "media type"))]
    pub fn content_type(self, pattern: &str, value: &str) -> Result<Files<N>, MessageError> {
        Headers::new().set("content-type", value)?;
        Ok(self.with(|lookup| lookup.types.add(pattern, value.to_owned())))
    }

    /// Sets the `charset` of text and of XML whose path matches `pattern`, as in [`Files::cache_control`]. With `None`,
    /// there is none.
    ///
    /// Default: `utf-8` for `text/*` whose first 64 KiB are UTF-8. Other text has none, and browsers read it by its own
    /// declaration. Nor has XML, which declares its own (RFC 7303 §3).
    ///
    /// # Errors
    ///
    /// Fails if the name is not valid in a field.
    pub fn charset(self, pattern: &str, name: Option<&str>) -> Result<Files<N>, MessageError> {
        Headers::new().set("content-type", name.unwrap_or_default())?;
        Ok(self.with(|lookup| lookup.charsets.add(pattern, name.map(str::to_owned))))
    }

    /// Sets the [`Etag`] of files whose path matches `pattern`, as in [`Files::cache_control`]. Files that are part of
    /// the program always have an `etag` of their content. Default: [`Etag::Auto`].
    pub fn etag(self, pattern: &str, etag: Etag) -> Files<N> {
        self.with(|lookup| lookup.etags.add(pattern, etag))
    }

    /// Removes a prefix, which consists of whole path segments, from each path. A path that does not begin with it is not
    /// found. The prefix alone, without a `/` after it, is redirected to the one with it, like any other directory.
    /// Default: none. Where a [`Router`](crate::Router::mount) mounts the files, its prefix is already removed.
    pub fn strip_prefix(self, prefix: &str) -> Files<N> {
        let prefix = prefix.trim_matches('/').to_owned();
        self.with(|lookup| lookup.prefix = prefix)
    }

    /// Lets `rewrite` choose the file for a request.
    ///
    /// The function returns a path below the root, or `None` for the path of the target. The returned path is not
    /// decoded. That of a directory ends with `/`. A path that would leave the root is not found. Default: the path of
    /// the target.
    pub fn rewrite<R>(self, rewrite: R) -> Files<N>
    where
        R: Fn(&Request) -> Option<String> + Send + Sync + 'static,
    {
        self.with(|lookup| lookup.rewrite = Some(Arc::new(rewrite)))
    }

    /// Sets bounds on what is kept of files between requests, for each root. Default: those of [`FileCacheLimits`].
    pub fn cache(self, bounds: FileCacheLimits) -> Files<N> {
        self.with(|lookup| {
            lookup.vhosts.iter_mut().for_each(|vhost| vhost.cache = Arc::new(Cache::new(bounds)))
        })
    }

    /// Sets the handler for requests without a file, whatever the method. Default: [`FilesNotFound`].
    ///
    /// # Examples
    ///
    /// A page with routes of its own (a single-page application). Every path without a file gets the page, unless its
    /// last segment has a dot. A missing script would else be answered with a page, perhaps from a cache.
    ///
    /// ```
    /// use corehttp::fs::Files;
    /// # use corehttp::{Request, Server, Status};
    ///
    /// static SITE: &[(&str, &[u8])] = &[("index.html", b"<h1>hi</h1>"), ("app.js", b"render()")];
    ///
    /// let page = Files::from_embedded(SITE).rewrite(|request| { // or `Files::new("public")?`
    ///     let is_route = !request.path().rsplit('/').next().is_some_and(|name| name.contains('.'));
    ///     is_route.then(|| "/index.html".into())
    /// });
    /// let files = Files::from_embedded(SITE).not_found(page);
    /// # let service = Server::new().service(files);
    /// # corehttp::block_on(async {
    /// # for (path, length) in [("/", 11), ("/users/7", 11), ("/users/", 11), ("/v1.2/x?a.b", 11), ("/app.js", 8)] {
    /// #     let response = service.respond(Request::get(path)?).await;
    /// #     assert_eq!((response.status, response.body.len()), (Status::OK, length), "{path}");
    /// # }
    /// # for path in ["/assets/x.js", "/favicon.ico", "/users/x.js?a", "/.env"] {
    /// #     assert_eq!(service.respond(Request::get(path)?).await.status, Status::NOT_FOUND, "{path}");
    /// # }
    /// # assert_eq!(service.respond(Request::post("/users/7")?).await.status, Status::METHOD_NOT_ALLOWED);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("fallback", "single-page application"))]
    pub fn not_found<Kind, H: IntoHandler<Kind>>(self, handler: H) -> Files<H::Handler> {
        Files { lookup: self.lookup, not_found: handler.into_handler() }
    }

    /// Returns the counts of the cache, over all hosts.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use corehttp::{Request, Server};
    /// use corehttp::fs::Files;
    ///
    /// let files = Arc::new(Files::from_embedded(&[("a.txt", b"hi")]));
    /// let service = Server::new().service(files.clone());
    /// # corehttp::block_on(async {
    /// for _ in 0..3 {
    ///     service.respond(Request::get("/a.txt")?).await;
    /// }
    /// # Ok::<(), corehttp::error::MessageError>(())
    /// # })??;
    /// let counts = files.counts();
    /// assert_eq!((counts.misses, counts.hits, counts.files), (1, 2, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn counts(&self) -> FileCacheCounts {
        let mut counts = FileCacheCounts::default();
        self.caches().for_each(|cache| counts += cache.counts());
        counts
    }

    /// The cache of each root.
    pub(super) fn caches(&self) -> impl Iterator<Item = &Arc<Cache>> {
        self.lookup.vhosts.iter().map(|vhost| &vhost.cache)
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut PathLookup)) -> Files<N> {
        change(Arc::make_mut(&mut self.lookup));
        self
    }

    /// Finds the file that is requested, in the cache or below the root.
    async fn find(&self, ctx: &Context) -> Result<Found> {
        let lookup = &self.lookup;
        let now = ctx.arrived_at();
        let Some(path) = lookup.path(&ctx.request) else {
            let is_prefix = lookup.is_prefix(&ctx.request);
            return Ok(if is_prefix { Found::Directory(Box::default()) } else { Found::Nothing });
        };
        let vhost = lookup.vhost(&ctx.request);
        vhost.refresh_root(now).await?;
        // Only files at valid paths are inserted into the cache, so a path that is found there needs no check.
        if let Some(resource) = vhost.cache.get(&path, now).filter(|resource| resource.is_unchanged()) {
            return Ok(Found::Resource(resource));
        }
        let Some(relative) = lookup.relative_path(path) else { return Ok(Found::Nothing) };
        let generation = vhost.cache.generation();
        let found = match &vhost.root {
            Root::Source(source) => {
                let found = boxed(|| SourceLookup::new(lookup, source).find(&relative)).await;
                return found.map_err(|error| source_error(ctx.request.path(), error));
            }
            Root::Embedded(_) => lookup.find(vhost, &relative),
            Root::Disk(_) => {
                let lookup = lookup.clone();
                let vhost = vhost.clone();
                let relative = relative.to_owned();
                spawn_blocking(move || with_descriptors(|| lookup.find(&vhost, &relative))).await?
            }
        };
        match &found {
            Ok(Found::Resource(resource)) => vhost.cache.insert(&relative, resource, generation, now),
            _ => vhost.cache.remove(&relative),
        }
        found.map_err(|error| open_error(ctx.request.path(), error))
    }

    /// Answers with the contents of a directory.
    async fn list(&self, ctx: &mut Context, listed: Listed) -> Result {
        let Context { request, response, .. } = ctx;
        let path = join(&listed.path, b"");
        if let Some(value) = self.lookup.cache_control(&path) {
            response.headers.set("cache-control", value)?;
        }
        let lookup = self.lookup.clone();
        let sort = Sort::from_query(&request.query());
        let page = LISTINGS.run(move || with_descriptors(|| lookup.list(&listed, sort))).await?;
        match page.map_err(|error| open_error(request.path(), error))? {
            Page::Html(page) => {
                response.headers.set("content-security-policy", POLICY)?;
                response.set_shared_bytes("text/html; charset=utf-8", page)?;
            }
            Page::Json(page) => response.set_shared_bytes("application/json", page)?,
            Page::Unwritten(respond, listing) => respond(ctx, &listing)?,
        }
        Ok(())
    }
}

impl<N: Handler> Handler for Files<N> {
    fn on_head(&self, ctx: &mut Context) -> BodyPlan {
        not_found::plan(&self.not_found, ctx)
    }

    async fn handle(&self, ctx: &mut Context) -> Result {
        let found = self.find(ctx).await?;
        not_found::forget_plan(ctx);
        let Context { request, response, .. } = ctx;
        match (found, request.method()) {
            (Found::Nothing, _) => return not_found::handle(&self.not_found, ctx).await,
            // The path was rewritten to one without a slash; the target has its slash already, so a redirect would not
            // help.
            (Found::Directory(_), _) if request.path().ends_with('/') => {
                return not_found::handle(&self.not_found, ctx).await;
            }
            (Found::Resource(resource), Method::Get | Method::Head) => response::respond(ctx, &resource)?,
            // Boxed because they are rare: the future of each request holds room for them.
            (Found::Sourced(resource), Method::Get | Method::Head) => {
                boxed(|| response::respond_from_source(ctx, &resource)).await?;
            }
            (Found::Listing(listed), Method::Get | Method::Head) => {
                boxed(|| self.list(ctx, *listed)).await?;
            }
            (Found::Directory(path), Method::Get | Method::Head) => {
                response.set_redirect(Status::MOVED_PERMANENTLY, &as_directory(request))?;
                if let Some(value) = self.lookup.cache_control(&path) {
                    response.headers.set("cache-control", value)?;
                }
            }
            (Found::Resource(_) | Found::Sourced(_) | Found::Directory(_) | Found::Listing(_), _) => {
                response.headers.set("allow", "GET, HEAD")?;
                return Err(Status::METHOD_NOT_ALLOWED.into());
            }
        }
        Ok(())
    }

    /// The refusal is that of the other handler's plan, and passes its middleware.
    fn refuse<'a>(&'a self, ctx: &'a mut Context, refusal: Refusal) -> BoxedFuture<'a> {
        self.not_found.refuse(ctx, refusal)
    }
}

/// Bounds the threads that list directories. A peer may request a large directory at any rate, and requests for files
/// must not wait for its listings.
static LISTINGS: BlockingLimit = BlockingLimit::new();

/// The target with a `/` after its path, as a reference (RFC 3986 §4.1). The reference begins with a single `/`, since
/// `//` would begin a host (§4.2).
fn as_directory(request: &Request) -> String {
    let path = request.path().trim_matches('/');
    let query = request.query();
    let target = match query.as_str() {
        "" => format!("/{path}/"),
        query => format!("/{path}/?{query}"),
    };
    let mut escaped = String::with_capacity(target.len());
    percent::encode(target.as_bytes(), &OctetSet::PATH_AND_QUERY, &mut escaped);
    escaped
}

impl<N> fmt::Debug for Files<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").field("lookup", &self.lookup).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::Server;
    use crate::runtime::{available_cores, timeout};

    /// While all threads for listings are busy, a listing waits for one, and a file does not.
    #[test]
    fn listings_wait_for_a_thread_and_files_do_not() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a.txt"), "content").unwrap();
        let service = Server::new().service(Files::new(root.path()).unwrap().listing(true));
        let ask = |path| service.respond(Request::get(path).unwrap());
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            let (leave, left) = mpsc::channel::<()>();
            let left = Arc::new(std::sync::Mutex::new(left));
            for _ in 0..available_cores() {
                let left = left.clone();
                let work = move || left.lock().unwrap().recv();
                tokio::spawn(LISTINGS.run(work));
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
