//! Questions: what does it cost to read what a request carries besides its head, and does any of it allocate?
//!
//! Each row reads one thing as a handler does, from a request that is here already, and is checked to have read it.
//! Where nothing is escaped, nothing is allocated: that is asserted before each row is timed.
//!
//! ```text
//! cargo bench --bench content              # all rows, about 15 seconds
//! cargo bench --bench content -- cookies   # some rows
//! ```

use std::hint::black_box;
use std::time::Duration;

use corehttp::{Form, Request, Response, SetCookie};
use corehttp_benches::alloc::{Counting, allocations};
use criterion::{Criterion, Throughput};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let mut criterion = Criterion::default()
        .configure_from_args()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1200));
    query(&mut criterion);
    form(&mut criterion);
    cookies(&mut criterion);
    set_cookie(&mut criterion);
    criterion.final_summary();
}

/// Question: what does the first value of a query cost, the last one, a number, and all of them? And what does one
/// escape cost, the only row that may allocate?
fn query(criterion: &mut Criterion) {
    let request = Request::get(&format!("http://example.com/search?{QUERY}")).expect("the URL is good");
    let bytes = QUERY.len();
    let row = Row { group: "query", bytes, allocations: 0 };
    row.bench(criterion, "first", || request.query().get("q").is_some_and(|value| value == "tea"));
    row.bench(criterion, "last", || request.query().get("page").is_some_and(|value| value == "12"));
    row.bench(criterion, "number", || request.query().get_as::<u32>("page") == Ok(Some(12)));
    row.bench(criterion, "absent", || request.query().get("none").is_none());
    row.bench(criterion, "all", || {
        request.query().iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() == 45
    });
    let escaped = Row { allocations: 1, ..row };
    escaped.bench(criterion, "escaped", || {
        Form::new(ESCAPED).get("q").is_some_and(|value| value == "tea & biscuits")
    });
}

/// Question: what does a form of 1,024 pairs cost, the most there may be, and a usual one?
fn form(criterion: &mut Criterion) {
    let largest = vec!["field=0123456789abcdef"; Form::PAIRS_MAX].join("&");
    for (name, content, pairs) in [("usual", QUERY, 5), ("largest", &largest, Form::PAIRS_MAX)] {
        let mut request = Request::post("http://example.com/").expect("the URL is good");
        request.headers.set("content-type", "application/x-www-form-urlencoded").expect("it is a field");
        request.body.set_bytes(content);
        let row = Row { group: "form", bytes: content.len(), allocations: 0 };
        row.bench(criterion, name, || request.form().is_ok_and(|form| form.iter().count() == pairs));
    }
}

/// Question: what does a cookie cost to find among those that a browser sends, and all of them to go through?
fn cookies(criterion: &mut Criterion) {
    let mut request = Request::get("http://example.com/").expect("the URL is good");
    for (name, value) in [("user-agent", "Mozilla/5.0"), ("accept", "*/*"), ("cookie", COOKIES)] {
        request.headers.append(name, value).expect("it is a field");
    }
    let row = Row { group: "cookies", bytes: COOKIES.len(), allocations: 0 };
    row.bench(criterion, "first", || request.cookies().get("_ga") == Some("GA1.2.1734096251.1731672000"));
    row.bench(criterion, "last", || request.cookies().get("theme") == Some("dark"));
    row.bench(criterion, "absent", || request.cookies().get("none").is_none());
    row.bench(criterion, "all", || request.cookies().iter().count() == 5);
}

/// Question: what does it cost to set a cookie, checks and all, and to read what a server has set?
fn set_cookie(criterion: &mut Criterion) {
    let mut response = Response::new();
    let cookie = SetCookie::new_session("__Host-sid", "8f14e45fceea167a5a36dedd4bea2543");
    let row = Row { group: "set-cookie", bytes: SET_COOKIE.len(), allocations: 0 };
    row.bench(criterion, "set", || {
        response.headers.clear();
        response.set_cookie(&cookie).is_ok()
    });
    row.bench(criterion, "parse", || {
        SetCookie::parse(black_box(SET_COOKIE.as_bytes())).is_some_and(|it| it.expires.is_some())
    });
}

/// The columns that rows of one group share.
#[derive(Clone, Copy)]
struct Row {
    group: &'static str,
    /// How long the text is that is read.
    bytes: usize,
    /// How often reading it may allocate.
    allocations: u64,
}

impl Row {
    /// Measures `read`, which says whether it has read what is there.
    fn bench(self, criterion: &mut Criterion, name: &str, mut read: impl FnMut() -> bool) {
        let mut counted = || {
            let before = allocations();
            (read(), allocations() - before)
        };
        // The first may fill what is kept warm.
        counted();
        assert_eq!(
            counted(),
            (true, self.allocations),
            "{}/{name}: what was read, and its allocations",
            self.group
        );
        let mut group = criterion.benchmark_group(self.group);
        group.throughput(Throughput::Bytes(self.bytes as u64));
        group.bench_function(name, |bencher| bencher.iter(|| assert!(black_box(read()))));
        group.finish();
    }
}

/// Five pairs, as a shop's search has them.
const QUERY: &str = "q=tea&category=kitchen&sort=price&order=rising&page=12";

const ESCAPED: &str = "category=kitchen&q=tea+%26+biscuits&page=12";

/// Five cookies, as a browser sends them to a site with an analyst.
const COOKIES: &str = "_ga=GA1.2.1734096251.1731672000; _gid=GA1.2.860784081.1731672000; \
    session=8f14e45fceea167a5a36dedd4bea2543; consent=necessary:yes&statistics:no; theme=dark";

const SET_COOKIE: &str = "session=8f14e45fceea167a5a36dedd4bea2543; Expires=Wed, 20 Nov 2030 10:00:00 GMT; \
    Max-Age=2592000; Path=/; Domain=example.com; Secure; HttpOnly; SameSite=Lax";
