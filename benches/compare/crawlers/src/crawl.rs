//! Question: what does a crawler cost with corehttp, with reqwest and its middleware, and in Go, and how long is it?
//!
//! Each fetches 10,000 pages of one site, 200 at once, and finds them by their links. Every fiftieth is not to be had at
//! first (503), and comes with the retry. The site is a thread of this process; the crawlers are processes, and take turns
//! round by round. Go has to be on the path, or its crawler is left out.
//!
//! ```text
//! cargo bench --manifest-path benches/compare/crawlers/Cargo.toml
//! ```

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use corehttp::{Context, Server, Status};
use nix::sys::resource::{UsageWho, getrusage};

const PAGES: usize = 10_000;
const ROUNDS: usize = 5;

fn main() -> corehttp::Result {
    let site = Site::default();
    let server = Server::bind("127.0.0.1:0").cores(1).start(move |ctx: &mut Context| site.answer(ctx))?;
    let address = server.local_addr();
    let crawlers = crawlers()?;
    let mut runs: Vec<Vec<Run>> = crawlers.iter().map(|_| Vec::new()).collect();
    // The first round warms up.
    for round in 0..=ROUNDS {
        for (at, crawler) in crawlers.iter().enumerate() {
            let run = crawler.crawl(&format!("http://{address}/{}/0", round * crawlers.len() + at + 1))?;
            if round > 0 {
                runs[at].push(run);
            }
        }
    }
    println!("{:<12}{:>22}{:>14}{:>14}{:>8}", "", "pages per CPU second", "seconds", "peak MiB", "lines");
    for (crawler, runs) in crawlers.iter().zip(&runs) {
        let pages = median(runs, |run| PAGES as f64 / run.cpu.as_secs_f64());
        let (wall, peak) = (median(runs, |run| run.wall.as_secs_f64()), median(runs, |run| run.peak_kib));
        let peak = peak / 1024.0;
        println!("{:<12}{pages:>22.0}{wall:>14.2}{peak:>14.1}{:>8}", crawler.name, crawler.lines()?);
    }
    Ok(())
}

/// A site of pages that link to each other.
struct Site {
    /// The number of the last crawl that was refused a page.
    refused: Vec<AtomicU32>,
}

impl Default for Site {
    fn default() -> Site {
        Site { refused: (0..PAGES).map(|_| AtomicU32::new(0)).collect() }
    }
}

impl Site {
    /// Answers a request for `/CRAWL/PAGE`.
    fn answer(&self, ctx: &mut Context) -> corehttp::Result {
        let mut numbers = ctx.request.path()[1..].split('/').map(|number| number.parse::<usize>());
        let (Some(Ok(crawl)), Some(Ok(page))) = (numbers.next(), numbers.next()) else {
            return Err(Status::NOT_FOUND.into());
        };
        let Some(refused) = self.refused.get(page) else { return Err(Status::NOT_FOUND.into()) };
        if page % 50 == 7 && refused.swap(crawl as u32, Ordering::Relaxed) != crawl as u32 {
            ctx.response.status = Status::SERVICE_UNAVAILABLE;
            return Ok(ctx.response.headers.set("retry-after", 0)?);
        }
        let mut html = String::from("<!doctype html>");
        // A tree reaches all pages, and other links lead back and forth.
        let others = (1..=18).map(|step| (page * 31 + step * 577) % PAGES);
        for link in [2 * page + 1, 2 * page + 2].into_iter().filter(|link| *link < PAGES).chain(others) {
            write!(html, "<p>A paragraph that leads to <a href=\"{link}\">page {link}</a>, and on.</p>")?;
        }
        ctx.response.set_text(html);
        ctx.response.headers.set("content-type", "text/html")?;
        Ok(())
    }
}

/// A crawler, and where its source is.
struct Crawler {
    name: &'static str,
    program: PathBuf,
    source: PathBuf,
}

/// The cost of one crawl.
struct Run {
    cpu: Duration,
    wall: Duration,
    peak_kib: f64,
}

fn crawlers() -> io::Result<Vec<Crawler>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut crawlers = vec![
        Crawler {
            name: "corehttp",
            program: env!("CARGO_BIN_EXE_crawler-corehttp").into(),
            source: folder.join("../../../examples/crawler.rs"),
        },
        Crawler {
            name: "reqwest",
            program: env!("CARGO_BIN_EXE_crawler-reqwest").into(),
            source: folder.join("src/reqwest.rs"),
        },
    ];
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("crawler-go");
    let built =
        Command::new("go").args(["build", "-o"]).arg(&program).current_dir(folder.join("go")).status();
    match built {
        Ok(status) if status.success() => {
            crawlers.push(Crawler { name: "net/http", program, source: folder.join("go/main.go") });
        }
        Ok(status) => return Err(io::Error::other(format!("go build: {status}"))),
        Err(error) => eprintln!("without Go: {error}"),
    }
    Ok(crawlers)
}

impl Crawler {
    /// Crawls the site, whose pages all have to come.
    fn crawl(&self, start: &str) -> corehttp::Result<Run> {
        let (cpu, started) = (children_cpu()?, Instant::now());
        let mut child = Command::new(&self.program).arg(start).stdout(Stdio::piped()).spawn()?;
        let status = PathBuf::from(format!("/proc/{}/status", child.id()));
        let mut peak_kib = 0.0;
        while child.try_wait()?.is_none() {
            // The peak does not shrink, so the last one that is seen is that of nearly all of the crawl.
            peak_kib = peak(&status).unwrap_or(peak_kib);
            thread::sleep(Duration::from_millis(2));
        }
        let wall = started.elapsed();
        let said = io::read_to_string(child.stdout.take().expect("it is piped"))?;
        if !said.starts_with(&format!("{PAGES} pages, 0 failed")) {
            return Err(corehttp::Error::other(format!("{}: {said}", self.name)));
        }
        Ok(Run { cpu: children_cpu()? - cpu, wall, peak_kib })
    }

    /// The lines of its source, without blanks and comments.
    fn lines(&self) -> io::Result<usize> {
        let source = fs::read_to_string(&self.source)?;
        Ok(source.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count())
    }
}

/// The processor time of all children that have ended.
fn children_cpu() -> io::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let micros =
        [usage.user_time(), usage.system_time()].map(|time| time.tv_sec() * 1_000_000 + time.tv_usec());
    Ok(Duration::from_micros(micros.iter().sum::<i64>().unsigned_abs()))
}

/// The most memory that a process has had at once, in KiB.
fn peak(status: &Path) -> Option<f64> {
    let text = fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn median(runs: &[Run], value: impl Fn(&Run) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
