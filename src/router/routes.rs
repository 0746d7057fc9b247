//! [`routes!`](crate::routes): a router with routes known at compile time.

use super::pattern::{Fault, fault, have_one_shape, shape_hash};

/// Makes a [`Router`](crate::Router) whose routes are known at compile time.
///
/// Each line has a method, a [pattern](crate::Router#patterns) and a handler: a function, a closure, or another
/// [`Handler`](crate::Handler). The method is written as it is sent, in upper case. `any` stands for all others. `mount` stands
/// for a handler that gets a prefix and all paths below it, as with [`Router::mount`](crate::Router::mount). The pattern `*`
/// takes all requests whose path matches no other pattern.
///
/// A line `wrap middleware => { .. }` is a group of routes with the middleware around them. It is one, or a tuple of several,
/// in the order in which requests pass through them. Requests that the router answers itself, with 404, 405 or to OPTIONS, do
/// not pass through it. Groups may have groups. The middleware is made once, and cloned for each route, which
/// is compiled with it. 300 routes in a group of five take some 50 s, and 6 s as a router with [`wrap`](crate::middleware::wrap)
/// around all of it. More than some 400 routes in a list with groups need a greater `#![recursion_limit]`.
///
/// Each handler keeps its type. Nothing is boxed, and a request costs no allocation. Malformed and conflicting patterns do not
/// compile.
///
/// # Examples
///
/// ```
/// use corehttp::middleware::Next;
/// use corehttp::{BodyPlan, Context, Server, Status, routes};
///
/// async fn list(ctx: &mut Context) {
///     ctx.response.set_text("all");
/// }
///
/// async fn show(ctx: &mut Context) -> corehttp::Result {
///     let id: u64 = ctx.request.params().get_as("id")?;
///     ctx.response.set_text(format!("item {id}"));
///     Ok(())
/// }
///
/// # async fn log(ctx: &mut Context, next: Next<'_>) -> corehttp::Result {
/// #     next.handle(ctx).await
/// # }
/// let router = routes! {
///     GET "/items" => list,
///     GET "/items/{id}" => show,
///     wrap (log, BodyPlan::Stream) => {
///         DELETE "/admin/items/{id}" => |ctx: &mut Context| ctx.response.status = Status::NO_CONTENT,
///     },
///     any "*" => async |ctx: &mut Context| -> corehttp::Result {
///         ctx.response.set_text("There is no such page.");
///         ctx.response.status = Status::NOT_FOUND;
///         Ok(())
///     },
/// };
/// let service = Server::new().service(router); // or `Server::run`
/// # let respond = |method, path| {
/// #     corehttp::block_on(service.respond(corehttp::Request::new(method, path).unwrap())).unwrap()
/// # };
/// # assert_eq!(respond("GET", "/items/7").text(), Ok("item 7"));
/// # assert_eq!(respond("DELETE", "/admin/items/7").status, Status::NO_CONTENT);
/// # assert_eq!(respond("GET", "/items/x/y").text(), Ok("There is no such page."));
/// ```
///
/// Two routes for the same requests:
///
/// ```compile_fail
/// # use corehttp::{Context, routes};
/// # let list = |ctx: &mut Context| {};
/// # let show = |ctx: &mut Context| {};
/// routes! {
///     GET "/items/{id}" => list,
///     GET "/items/{name}" => show, // error: `/items/{name}` conflicts with `/items/{id}`
/// };
/// ```
#[macro_export]
macro_rules! routes {
    // Eight handlers make a tuple; those that are left over make the first one. A handler passes through as one token in
    // parentheses, which is parsed once, however many steps there are.
    (@tuples [] $($a:tt $b:tt $c:tt $d:tt $e:tt $f:tt $g:tt $h:tt)+) => {
        $crate::routes!(@pairs $([$a $b $c $d $e $f $g $h])+)
    };
    (@tuples $first:tt $($a:tt $b:tt $c:tt $d:tt $e:tt $f:tt $g:tt $h:tt)*) => {
        $crate::routes!(@pairs $first $([$a $b $c $d $e $f $g $h])*)
    };
    (@tuples [$($first:tt)*] $next:tt $($rest:tt)*) => { $crate::routes!(@tuples [$($first)* $next] $($rest)*) };
    // Two and two make a pair, until one is left: a tree as deep as the logarithm of its length.
    (@pairs $one:tt) => { $crate::routes!(@set $one) };
    (@pairs $($one:tt $other:tt)+) => { $crate::routes!(@pairs $({$one $other})+) };
    (@pairs $first:tt $($one:tt $other:tt)+) => { $crate::routes!(@pairs $first $({$one $other})+) };
    (@set [$(($handler:expr))*]) => { ($($crate::IntoHandler::into_handler($handler),)*) };
    (@set {$one:tt $other:tt}) => { $crate::routing::Chain($crate::routes!(@set $one), $crate::routes!(@set $other)) };
    // Groups are flattened: each step takes routes from the input, and wraps their handlers in the middleware of the groups
    // around them, a list with a name for each that is in use.
    (@flat [$(($method:ident $pattern:literal $handler:expr))*] [$($let:tt)*] [[]]) => {{
        $($let)*
        $crate::routes!($($method $pattern => $handler),*)
    }};
    (@flat $done:tt $let:tt $groups:tt , $($rest:tt)*) => { $crate::routes!(@flat $done $let $groups $($rest)*) };
    (@flat $done:tt $let:tt [$group:tt $($around:tt)*] @end $($rest:tt)*) => {
        $crate::routes!(@flat $done $let [$($around)*] $($rest)*)
    };
    (
        @flat $done:tt [$($let:tt)*] [[$($group:ident)*] $($around:tt)*]
        wrap $middleware:expr => { $($routes:tt)* } $($rest:tt)*
    ) => {
        $crate::routes!(
            @flat $done
            [$($let)* let middleware = $crate::middleware::Group::new($middleware);]
            [[$($group)* middleware] [$($group)*] $($around)*]
            $($routes)* , @end $($rest)*
        )
    };
    // Four routes in a step, where there are as many: the depth of macros has a limit.
    (
        @flat [$($done:tt)*] $let:tt [[$($group:ident)*] $($around:tt)*]
        $method_a:ident $pattern_a:literal => $a:expr, $method_b:ident $pattern_b:literal => $b:expr,
        $method_c:ident $pattern_c:literal => $c:expr, $method_d:ident $pattern_d:literal => $d:expr,
        $($rest:tt)*
    ) => {
        $crate::routes!(
            @flat
            [
                $($done)*
                ($method_a $pattern_a $crate::middleware::wrap(($($group.for_route(),)*), $a))
                ($method_b $pattern_b $crate::middleware::wrap(($($group.for_route(),)*), $b))
                ($method_c $pattern_c $crate::middleware::wrap(($($group.for_route(),)*), $c))
                ($method_d $pattern_d $crate::middleware::wrap(($($group.for_route(),)*), $d))
            ]
            $let [[$($group)*] $($around)*] $($rest)*
        )
    };
    (
        @flat [$($done:tt)*] $let:tt [[$($group:ident)*] $($around:tt)*]
        $method:ident $pattern:literal => $handler:expr $(, $($rest:tt)*)?
    ) => {
        $crate::routes!(
            @flat
            [$($done)* ($method $pattern $crate::middleware::wrap(($($group.for_route(),)*), $handler))]
            $let [[$($group)*] $($around)*] $($($rest)*)?
        )
    };
    // The compiler refuses a constant that takes long. So each route has one of its own, which looks at its octets, and that of
    // the list looks at hashes.
    (@list $($method:ident $pattern:expr)*) => {
        $crate::routing::RouteList::new(
            &[$(const { $crate::routing::ListedRoute::new(::core::stringify!($method), $pattern) }),*]
        )
    };
    // Routes as other crates write them.
    (@flat $done:tt $let:tt $groups:tt $pattern:literal => $($rest:tt)*) => {
        ::core::compile_error!(
            "a route begins with its method, and its handler stands alone: `GET \"/users\" => show`, and not \
             `\"/users\" => get(show)`; a path with several methods has a line for each"
        )
    };
    (@flat $done:tt $let:tt $groups:tt wrap $($rest:tt)*) => {
        ::core::compile_error!(
            "a group is `wrap middleware => { GET \"/users\" => show, .. }`, with a tuple for several: `wrap (log, auth) => \
             { .. }`; a comma separates it from the next route"
        )
    };
    (@flat $done:tt $let:tt $groups:tt mount $prefix:literal => { $($routes:tt)* } $($rest:tt)*) => {
        ::core::compile_error!(
            "a prefix has one handler, such as a router of its own: `mount \"/api\" => routes! { GET \"/users\" => show, .. }`"
        )
    };
    (@flat $done:tt $let:tt $groups:tt $($rest:tt)+) => {
        ::core::compile_error!(
            "a route is a method in upper case (or `any`, or `mount`), a pattern in quotes, `=>` and a handler, and a \
             comma separates it from the next: `GET \"/users/{id}\" => show, POST \"/users\" => add`; a group is `wrap \
             middleware => { .. }`; a pattern that is no literal is for `Router::new().get(pattern, show)?`"
        )
    };
    ($($method:ident $pattern:literal => $handler:expr),* $(,)?) => {{
        const LIST: $crate::routing::RouteList = $crate::routes!(@list $($method $pattern)*);
        $crate::Router::from_list(LIST, $crate::routes!(@tuples [] $(($handler))*))
    }};
    ($($routes:tt)*) => { $crate::routes!(@flat [] [] [[]] $($routes)*) };
}

/// The methods and patterns of a [`Router`](crate::Router), which [`routes!`](crate::routes) checks at compile time.
#[derive(Clone, Copy, Debug)]
pub struct RouteList(&'static [ListedRoute]);

impl RouteList {
    /// Checks that no two routes match the same requests.
    ///
    /// # Panics
    ///
    /// Panics if two do. In a constant, this is an error of the compiler.
    pub const fn new<const N: usize>(routes: &'static [ListedRoute; N]) -> RouteList {
        let mut known = KnownRoutes::<N>::new();
        let mut at = 0;
        while at < N {
            known.add(at, routes);
            at += 1;
        }
        RouteList(routes)
    }

    pub(super) fn routes(self) -> &'static [ListedRoute] {
        self.0
    }
}

/// A method and a pattern without faults.
#[derive(Clone, Copy, Debug)]
pub struct ListedRoute {
    pub(super) method: &'static str,
    pub(super) pattern: &'static str,
    /// Equal for routes that match the same requests.
    hash: u64,
}

impl ListedRoute {
    /// Checks a method and a pattern. The methods `any` and `mount` have the meaning that they have in
    /// [`routes!`](crate::routes).
    ///
    /// # Panics
    ///
    /// Panics if one of them is malformed. In a constant, the panic is an error of the compiler.
    pub const fn new(method: &'static str, pattern: &'static str) -> ListedRoute {
        check_pattern(method, pattern);
        ListedRoute { method, pattern, hash: shape_hash(kind(method), pattern) }
    }
}

/// The routes that have been checked, in a hash table: a route is compared only with those of the same hash.
struct KnownRoutes<const N: usize> {
    /// The last route in each bucket, counted from 1.
    last: [usize; N],
    /// The route before each one in its bucket, counted from 1.
    before: [usize; N],
}

impl<const N: usize> KnownRoutes<N> {
    const fn new() -> KnownRoutes<N> {
        KnownRoutes { last: [0; N], before: [0; N] }
    }

    const fn add(&mut self, at: usize, routes: &[ListedRoute; N]) {
        let hash = routes[at].hash;
        let bucket = (hash % N as u64) as usize;
        let mut other = self.last[bucket];
        while other > 0 {
            if routes[other - 1].hash == hash {
                check_conflict(routes[at], routes[other - 1]);
            }
            other = self.before[other - 1];
        }
        self.before[at] = self.last[bucket];
        self.last[bucket] = at + 1;
    }
}

/// Mounts match what routes for any method do.
const fn kind(method: &str) -> &str {
    if is_equal(method, "mount") { "any" } else { method }
}

const fn check_conflict(one: ListedRoute, other: ListedRoute) {
    if is_equal(kind(one.method), kind(other.method)) && have_one_shape(one.pattern, other.pattern) {
        let text = Text::new().with("the route `").with(one.method).with(" ").with(one.pattern);
        let text = text.with("` conflicts with `").with(other.method).with(" ").with(other.pattern);
        text.with("`: they match the same requests").panic();
    }
}

const fn check_pattern(method: &str, pattern: &str) {
    let is_word = is_equal(method, "mount") || is_equal(method, "any");
    // These would else be taken for methods of their own, which no peer sends.
    let is_misspelled = is_equal(method, "MOUNT") || is_equal(method, "ANY");
    if !is_word && (is_misspelled || has_lower_case(method)) {
        let text = Text::new().with("the route `").with(method).with(" ").with(pattern);
        text.with("`: a method is written in upper case, `any` and `mount` in lower case").panic();
    }
    let fault = match (is_equal(method, "mount"), pattern.as_bytes()) {
        (true, [.., b'/']) => Some(Fault::Prefix),
        (true, _) => fault(Text::new().with(pattern).with("/{*rest}").as_str()),
        (false, [b'*']) if is_equal(method, "any") => None,
        (false, [b'*']) => Some(Fault::Fallback),
        (false, _) => fault(pattern),
    };
    if let Some(fault) = fault {
        Text::new().with("the pattern `").with(pattern).with("`: ").with(fault.text()).panic();
    }
}

const fn has_lower_case(method: &str) -> bool {
    let method = method.as_bytes();
    let mut at = 0;
    while at < method.len() && !method[at].is_ascii_lowercase() {
        at += 1;
    }
    at < method.len()
}

const fn is_equal(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// A text that is put together while a program is compiled, where `format!` cannot be called. It is cut at its end if
/// it is too long.
struct Text {
    bytes: [u8; 512],
    len: usize,
}

impl Text {
    const fn new() -> Text {
        Text { bytes: [0; 512], len: 0 }
    }

    const fn with(mut self, text: &str) -> Text {
        let text = text.as_bytes();
        let mut at = 0;
        while at < text.len() && self.len < self.bytes.len() {
            self.bytes[self.len] = text[at];
            self.len += 1;
            at += 1;
        }
        self
    }

    const fn as_str(&self) -> &str {
        match str::from_utf8(self.bytes.split_at(self.len).0) {
            Ok(text) => text,
            Err(_) => "a pattern that is too long",
        }
    }

    const fn panic(&self) -> ! {
        panic!("{}", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The octets of a list counted together, and the compiler refused 1,000 routes of 100 octets.
    #[test]
    fn long_routes_compile() {
        macro_rules! double {
            ([] $method:ident $($pattern:expr)*) => { crate::routes!(@list $($method $pattern)*) };
            ([. $($again:tt)*] $method:ident $($pattern:expr)*) => {
                double!([$($again)*] $method $(concat!($pattern, "0") concat!($pattern, "1"))*)
            };
        }
        const ROUTES: RouteList = double!(
            [. . . . . . . . . . .] GET
            "/accounts/{account}/projects/{project}/environments/{environment}/deployments/{deployment}/log/"
        );
        const MOUNTS: RouteList =
            double!([. . . . . . . . . . .] mount "/a-prefix-of-services/that-is-so-long/");
        for list in [ROUTES, MOUNTS] {
            assert_eq!(list.routes().len(), 2048);
            assert_eq!(list.routes()[5].pattern.rsplit('/').next(), Some("00000000101"));
        }
    }
}
