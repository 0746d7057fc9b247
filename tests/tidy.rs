//! The house rules that a machine can check: floors, circles, sizes, imports, and words that are allowed in few places.
//!
//! `cargo tidy` runs this file alone. A rule that makes a page worse is changed here, and the commit says why.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The building: what each folder may import. Nothing imports upwards.
const FLOORS: &[(&str, &[&str])] = &[
    ("descriptors", &["memory"]),
    ("error_text", &[]),
    ("lines", &["descriptors", "memory", "net"]),
    ("memory", &[]),
    ("message", &["error_text", "memory"]),
    ("coding", &["error_text", "memory", "message"]),
    ("net", &["descriptors", "error_text", "memory", "runtime"]),
    ("runtime", &["descriptors"]),
    ("wire", &["error_text", "memory", "message"]),
    ("exchange", &["error_text", "memory", "message", "net", "runtime", "wire"]),
    ("http_types", &["error_text", "memory", "message"]),
    (
        "client",
        &[
            "coding",
            "descriptors",
            "error_text",
            "exchange",
            "http_types",
            "memory",
            "message",
            "net",
            "runtime",
            "wire",
        ],
    ),
    (
        "server",
        &[
            "coding",
            "descriptors",
            "error_text",
            "exchange",
            "lines",
            "memory",
            "message",
            "net",
            "runtime",
            "wire",
        ],
    ),
    (
        "acme",
        &["client", "descriptors", "http_types", "lines", "memory", "message", "net", "runtime", "server"],
    ),
    ("access_log", &["lines", "message", "server"]),
    ("blocking", &["client", "memory", "message", "runtime"]),
    ("compress", &["coding", "error_text", "memory", "message", "runtime", "server"]),
    ("cookies", &["message"]),
    ("cors", &["error_text", "message", "server"]),
    ("form", &["client", "error_text", "message"]),
    (
        "fs",
        &["coding", "descriptors", "error_text", "memory", "message", "metrics", "net", "runtime", "server"],
    ),
    ("gateway", &["client", "error_text", "exchange", "message", "net", "runtime", "server", "wire"]),
    ("guard", &["error_text", "memory", "message", "runtime", "server"]),
    ("health", &["error_text", "message", "runtime", "server"]),
    ("idempotency", &["error_text", "memory", "message", "runtime", "server"]),
    ("json", &["client", "error_text", "message"]),
    ("middleware", &["compress", "cors", "gateway", "guard", "server"]),
    ("metrics", &["client", "descriptors", "lines", "memory", "message", "net", "runtime", "server", "sse"]),
    (
        "multipart",
        &["client", "descriptors", "error_text", "exchange", "message", "net", "runtime", "server", "wire"],
    ),
    ("session", &["memory", "message", "runtime", "server"]),
    ("sse", &["client", "error_text", "message", "runtime", "server"]),
    (
        "websocket",
        &["client", "error_text", "exchange", "memory", "message", "net", "runtime", "server", "wire"],
    ),
    ("router", &["error_text", "memory", "message", "runtime", "server"]),
    ("testing", &["client", "memory", "message", "net", "runtime", "server", "wire"]),
    ("tower", &["coding", "exchange", "http_types", "memory", "message", "net", "runtime", "server", "wire"]),
    ("tracing", &["client", "message", "net", "server"]),
    // The public face only: it could be a crate of its own.
    ("jar", &["Headers", "Request", "SameSite", "SetCookie", "Target", "client", "message"]),
];

/// Words, the only places where they may stand, and why.
const WORDS: &[(&str, &[&str], &str)] = &[
    ("tokio::runtime", SYSTEM, "runtimes belong to the lowest floors"),
    ("tokio::net", SYSTEM, "sockets belong to the lowest floors"),
    ("tokio::time", SYSTEM, "timers belong to the lowest floors"),
    ("tokio::task", SYSTEM, "tasks belong to the lowest floors"),
    ("tokio::{", &[], "name the module of tokio in its own import"),
    (".await", ASYNC, "the core is pure"),
    ("Instant::now", CLOCKS, "one place for each clock"),
    (
        "SystemTime::now",
        &[
            "src/exchange/clock.rs",
            "src/acme/acme_client.rs",
            "src/acme/renewal.rs",
            "src/client/retry/tries.rs",
            "src/fs/snapshot.rs",
            "src/jar/cookie_jar.rs",
            "src/session/",
            "src/access_log/format.rs",
            "src/server/report/error_log.rs",
            "src/net/tls/enabled/certificate_watch.rs",
            "src/net/tls/enabled/server_tls.rs",
        ],
        "one place for each clock",
    ),
    ("io::stderr", LOGS, HALTS),
    ("io::stdout", LOGS, HALTS),
    ("println!", LOGS, HALTS),
    ("eprint!", LOGS, HALTS),
    ("unsafe ", &[], "there is no unsafe code"),
    (".unwrap()", &[], "`expect` says why it cannot fail"),
    (".parse::<u", &[], "it accepts `+5`, which is no number of the wire"),
    ("from_str_radix", &[], "it accepts `+5`, which is no number of the wire"),
    ("::*", &[], "a glob hides where names come from"),
    // `get_mut` is what the collections of std call it, and `get_as` is `get`, typed.
    (
        "fn get_",
        &[
            "src/message/fields/headers.rs",
            "src/server/context/extensions.rs",
            "src/message/content/form.rs",
            "src/message/cookie.rs",
            "src/message/request/path_params.rs",
        ],
        "a getter is named after what it gets",
    ),
    ("super::super", &[], "climbing hides which floor is reached"),
];

/// Where something is waited for.
const ASYNC: &[&str] = &[
    "src/acme/",
    "src/client/",
    "src/compress/",
    "src/cors/",
    "src/exchange/",
    "src/fs/",
    "src/gateway/",
    "src/guard/",
    "src/health/",
    "src/idempotency/",
    "src/json/json_lines.rs",
    "src/metrics/page/",
    "src/multipart/",
    "src/net/",
    "src/router/",
    "src/runtime/",
    "src/server/",
    "src/session/",
    "src/sse/",
    "src/testing/",
    "src/tower/",
    "src/tracing/",
    "src/websocket/",
];

/// Where the crate meets the system.
const SYSTEM: &[&str] = &["src/net/", "src/runtime/"];

/// Where the crate writes to standard error.
const LOGS: &[&str] = &["src/lines/"];
const HALTS: &str = "a terminal or a pipe that stands still halts the thread, which `lines` does not";

/// The clocks: of a core, of deadlines, of dialing, of files, of the runtime, of reports, and of logs.
const CLOCKS: &[&str] = &[
    "src/exchange/clock.rs",
    "src/fs/snapshot.rs",
    "src/fs/disk/root_dir.rs",
    "src/net/dial/",
    "src/net/timer/",
    "src/runtime/time.rs",
    "src/server/report/exchange_report.rs",
    "src/lines/buffers.rs",
    "src/metrics/metrics.rs",
];

/// The files that are short, and why each is no part of another one. Its folder or its name stands for several.
const SHORT: &[(&str, &str)] = &[
    ("/enabled", "one of a pair, with a feature and without it"),
    ("/disabled.rs", "one of a pair, with a feature and without it"),
    ("/without_zstd.rs", "one of a pair, with a feature and without it"),
    ("/linux.rs", "one system of several"),
    ("/tls.rs", "only there with a feature, or shows items of others"),
    ("src/error.rs", "shows items of other modules"),
    ("src/guide.rs", "shows items of other modules"),
    ("src/proxy_protocol.rs", "shows items of other modules"),
    ("src/fs/metrics.rs", "only there with a feature"),
    ("/websocket.rs", "only there with a feature"),
    ("src/server/builder/proxy_protocol.rs", "only there with a feature"),
    ("src/server/builder/handover.rs", "only there with a feature"),
    ("src/coding/encode.rs", "only there with a feature"),
    ("src/message/text/file_name.rs", "only there with a feature"),
    ("src/runtime/hooks.rs", "a leaf that many import"),
    ("src/runtime/random.rs", "only there with a feature"),
    ("src/server/context/tower.rs", "only there with a feature"),
    ("src/client/observe/span.rs", "a seam"),
    ("src/memory/lock.rs", "a leaf that many import"),
    ("src/memory/stable_hash.rs", "a leaf"),
    ("src/message/start_line/version.rs", "a leaf that many import"),
    ("src/net/stream.rs", "a leaf that many import"),
    ("src/runtime/time.rs", "a leaf that many import, and a clock"),
    ("src/websocket/frame/close_code.rs", "a leaf that many import"),
];

/// The words that a sentence does not begin with, because they stand for a noun that the reader has to guess.
const GUESSED_SUBJECTS: &[&str] = &["What", "Whoever", "Nobody", "Somebody", "Those"];

/// Files that stand for each other, or that a feature adds: an impl of theirs has no other place.
const VARIANTS: &[&str] = &[
    "/disabled.rs",
    "/enabled",
    "/tls.rs",
    "/tower.rs",
    "/exchange_access.rs",
    "/proxy_protocol.rs",
    "/builder/handover.rs",
    "/builder/systemd.rs",
    "/compressed_store.rs",
];

/// The types whose methods stand in two files of a folder, because one would be longer than [`FILE_LINES_MAX`].
const LARGE: &[&str] = &["ClientBuilder", "Context", "Headers", "PooledConn", "Request", "Server"];

/// The structs with more than [`FIELDS_MAX`] fields or [`FLAGS_MAX`] flags, and why each is one.
const WIDE: &[(&str, &str)] = &[
    ("Cookie", "the attributes of RFC 6265"),
    ("ErrorCounts", "counts"),
    ("ExchangeReport", "a report, whose values stand beside each other"),
    ("HostCounts", "counts"),
    ("Limits", "settings"),
    ("Observation", "the notes that a report is made of"),
    ("PathLookup", "settings"),
    ("SetCookie", "the attributes of RFC 6265"),
    ("ClientSettings", "settings"),
];

/// How many files may stand side by side in a folder, its `mod.rs` among them.
const FOLDER_FILES_MAX: usize = 14;
const FILE_LINES_MIN: usize = 60;
const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;
const INDENT_LEVELS_MAX: usize = 4;
const FIELDS_MAX: usize = 12;
const FLAGS_MAX: usize = 2;
const LINE_COLUMNS_MAX: usize = 140;

#[test]
fn the_source_is_tidy() {
    let files = files("src");
    let single = files.iter().flat_map(|file| [faults(file), short(file)].concat());
    let together = [folders_without_mod_rs, circles, scattered_impls, crowded, needless_exemptions];
    report(single.chain(together.iter().flat_map(|check| check(&files))));
}

#[test]
fn benches_examples_and_tests_are_documented() {
    let mut files = [files("benches"), files("examples"), files("tests")].concat();
    // Programs that do not compile are shown with their errors, line by line; and this file quotes faults.
    files.retain(|file| !file.path.starts_with("tests/compile_fail/") && file.path != "tests/tidy.rs");
    report(files.iter().flat_map(|file| [module_doc(file), reasons(file), sentences(file)].concat()));
}

#[test]
fn the_chapter_on_features_lists_those_of_the_manifest() {
    let [manifest, chapter] =
        ["Cargo.toml", "src/docs/features.md"].map(|path| fs::read_to_string(path).expect("it is here"));
    let table = manifest.split("[features]\n").nth(1).and_then(|rest| rest.split("\n[").next());
    let features = table.expect("there are features").lines().filter_map(|line| line.split_once(" = ["));
    let mut features: BTreeMap<&str, &str> = features.collect();
    let defaults = features.remove("default").expect("some are on by default");
    let is_default = |name: &str| defaults.contains(&format!("\"{name}\""));
    let listed = chapter.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let listed: Vec<(&str, bool)> = listed.map(|(name, rest)| (name, rest.starts_with(" yes |"))).collect();
    assert_eq!(listed, features.keys().map(|name| (*name, is_default(name))).collect::<Vec<_>>());
}

#[test]
fn every_rule_finds_its_fault() {
    let (wide, long) = ("x".repeat(141), "\n".repeat(600));
    let (function, deep) =
        (format!("fn f() {{{}\n}}", "\n    x;".repeat(69)), "fn f()\n{\n                    x;\n}");
    check("wire", "use crate::memory::Span;\n\nfn f() {}", None);
    check("server", "use std::io;\n\nuse bytes::Bytes;\n\nuse super::Stop;\nuse crate::net::Conn;", None);
    check("exchange", "mod send;\n\nuse std::io;\n\npub use send::Sent;\n\nuse crate::wire::Limits;", None);
    check("net", "use tokio::time::Sleep;\n// Instant::now", None);
    check("wire", "#[cfg(feature = \"a\")]\nmod a;\n\n#[cfg(test)]\nmod tests { x.unwrap() }", None);
    check("wire", "#[cfg(test)]\nmod tests;\n\nfn f() { x.unwrap() }", Some("`.unwrap()`: `expect`"));
    check("wire", "use crate::net::Conn;", Some("`wire` may not import `crate::net`"));
    check("wire", "use crate::{memory, net};", Some("`wire` may not import `crate::`"));
    check("wire", "use crate::Server;", Some("`wire` may not import `crate::Server`"));
    check("attic", "", Some("`attic` stands on no floor"));
    check("wire", &wide, Some("141 columns"));
    check("wire", &long, Some("602 lines"));
    check("wire", &function, Some("a function of 71 lines"));
    check("wire", deep, Some("a function of 5 levels"));
    check("wire", &structure("u8", 12, 2), None);
    check("wire", &structure("fn() -> bool", 12, 2), None);
    check("wire", &structure("u8", 13, 0), Some("`A` has 13 fields, 0 of them flags"));
    check("wire", &structure("u8", 3, 3), Some("`A` has 3 fields, 3 of them flags"));
    check("wire", "use bytes::Bytes;\nuse std::io;", Some("imports are std, crates"));
    check("wire", "use bytes::Bytes;\n\nuse std::io;", Some("imports are std, crates"));
    check("wire", "use std::io;\n\nuse std::fmt;", Some("imports are std, crates"));
    check("server", "use tokio::task::yield_now;", Some("`tokio::task`: tasks"));
    check("message", "x.await?;", Some("`.await`: the core is pure"));
    check("net", "x.unwrap();", Some("`.unwrap()`: `expect`"));
    check("server", "eprintln!(\"x\")", Some("`println!`: a terminal or a pipe"));
    check("lines", "eprintln!(\"x\")", None);
    check("wire", "#[allow(dead_code)]", Some("an `allow` gives its reason"));
    check("wire", "#[cfg(feature = \"a\")]\nfn f() {}", Some("a feature is a module"));
    check("wire", "if cfg!(feature = \"a\") {}", Some("a feature is a module"));
    check("wire", "// The octets behind a chunk\n// What follows", None);
    check("wire", "// It ends. What follows", Some("begins with `What`"));
    check("wire", "/// | a | b |\n/// |---|---|\n/// | `\\|c\\|` | d |\n\n/// | e |", None);
    check("wire", "/// | a | b |\n/// |---|---|\n/// | `|c|` | d |", Some("4 cells"));
    check("wire", "// It ends.\n/// Those of a chunk", Some("begins with `Those`"));
    check_file("src/wire/mod.rs", "mod a;\n\npub(crate) use a::A;", None);
    check_file("src/wire/mod.rs", "pub(in crate::wire) struct A;", Some("declares and re-exports"));
    check_file("src/wire/mod.rs", "impl A {}", Some("declares and re-exports"));
}

#[test]
fn scattered_short_and_crowded_is_found() {
    let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
    let scattered = |one: &str, other: &str| {
        scattered_impls(&[file("src/wire/a.rs", one), file(other, "impl<T: Into<A>> B<T> {")])
    };
    assert_eq!(scattered("impl B<u8> {", "src/wire/b.rs").len(), 1);
    assert_eq!(scattered("impl Debug for B {", "src/wire/b.rs"), [""; 0]);
    assert_eq!(scattered("impl B<u8> {", "src/fs/b.rs"), [""; 0]);
    assert_eq!(short(&file("src/wire/a.rs", "//! A.")).len(), 1);
    assert_eq!(short(&file("src/wire/a/disabled.rs", "//! A.")), [""; 0]);
    assert_eq!(needless_exemptions(&[]).len(), SHORT.len() + WIDE.len());
    let limits = structure("u8", 13, 0).replace("A<T>", "Limits<T>");
    assert_eq!(
        needless_exemptions(&[file("src/wire/disabled.rs", &limits)]).len(),
        SHORT.len() + WIDE.len() - 2
    );
    let many = Vec::from_iter((0..=FOLDER_FILES_MAX).map(|at| file(&format!("src/wire/{at}.rs"), "//! A.")));
    assert_eq!(crowded(&many), ["src/wire: 15 files side by side"]);
    assert_eq!(crowded(&many[1..]), [""; 0]);
}

#[test]
fn every_circle_is_found() {
    let mod_rs =
        ("mod.rs", "mod a;\nmod b;\n\npub(crate) use a::{A, One};\npub use self::b::B;\n\nstruct Own;");
    let uses_a = ("b.rs", "use super::{\n    Own,\n    One,\n};\n\npub(in crate::wire) fn b() {}");
    check_circle(&[mod_rs, ("a.rs", "use super::Own;"), uses_a], false);
    check_circle(&[mod_rs, ("a.rs", "// super::B"), uses_a], false);
    check_circle(&[mod_rs, ("a.rs", "#[cfg(test)]\nmod tests { super::B }"), uses_a], false);
    check_circle(&[mod_rs, ("a.rs", "use crate::memory::b::B;"), uses_a], false);
    check_circle(&[mod_rs, ("a.rs", "use super::b::B;"), uses_a], true);
    check_circle(&[mod_rs, ("a.rs", "use super::B;"), uses_a], true);
    check_circle(&[mod_rs, ("a.rs", "use crate::wire::B;"), uses_a], true);
    check_circle(&[mod_rs, ("a.rs", "fn f() { super::b::g() }"), uses_a], true);
    check_circle(&[mod_rs, ("a/deep.rs", "use crate::wire::{Own, b};"), uses_a], true);
    check_circle(&[mod_rs, ("a.rs", "use super::c::C;"), ("c.rs", "use super::b::B;"), uses_a], true);
}

/// Whether a circle is found among these files of a folder.
#[track_caller]
fn check_circle(files: &[(&str, &str)], is_found: bool) {
    let file =
        |(name, text): &(&str, &str)| File { path: format!("src/wire/{name}"), text: text.to_string() };
    let circles = circles(&Vec::from_iter(files.iter().map(file)));
    assert_eq!(!circles.is_empty(), is_found, "{files:?}: {circles:?}");
}

/// Whether `text`, as a file of `folder`, is found to have one `fault`, or none.
#[track_caller]
fn check(folder: &str, text: &str, fault: Option<&str>) {
    check_file(&format!("src/{folder}/a.rs"), text, fault);
}

/// A struct of so many fields, some of which are flags, and the others of this type.
fn structure(kind: &str, fields: usize, flags: usize) -> String {
    let lines = (0..fields).map(|at| if at < flags { "bool" } else { kind });
    let lines: String =
        lines.map(|kind| format!("    /// A field: bool,\n    pub(super) a: {kind},\n")).collect();
    format!("pub struct A<T>\nwhere\n    T: Copy,\n{{\n{lines}}}")
}

#[track_caller]
fn check_file(path: &str, text: &str, fault: Option<&str>) {
    let file = File { path: path.to_owned(), text: format!("//! A.\n\n{text}") };
    let faults = faults(&file);
    let is_found = fault.is_none_or(|fault| faults.iter().any(|found| found.contains(fault)));
    assert!(is_found && faults.len() == usize::from(fault.is_some()), "{text:?}: {faults:?}");
}

fn report(faults: impl Iterator<Item = String>) {
    let faults: Vec<String> = faults.collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

fn faults(file: &File) -> Vec<String> {
    let checks = [
        module_doc, sizes, functions, structs, floors, imports, words, features, reasons, sentences, tables,
        mod_files,
    ];
    checks.iter().flat_map(|check| check(file)).collect()
}

fn module_doc(file: &File) -> Vec<String> {
    let fault = (!file.text.starts_with("//!")).then(|| file.fault(1, "say in a `//!` line what lives here"));
    fault.into_iter().collect()
}

fn sizes(file: &File) -> Vec<String> {
    let lines = file.product().lines().count();
    let long =
        (lines > FILE_LINES_MAX).then(|| file.fault(lines, &format!("{lines} lines before its tests")));
    let widths = file.text.lines().map(|line| line.chars().count()).enumerate();
    let wide = widths.filter(|(_, width)| *width > LINE_COLUMNS_MAX);
    long.into_iter().chain(wide.map(|(at, width)| file.fault(at + 1, &format!("{width} columns")))).collect()
}

fn functions(file: &File) -> Vec<String> {
    let (lines, mut faults) = (Vec::from_iter(file.product().lines()), Vec::new());
    for start in (0..lines.len()).filter(|at| starts_function(lines[*at])) {
        let margin = indent(lines[start]);
        let ends = |line: &&str| indent(line) == margin && line.ends_with(['}', ';']);
        let length = lines[start..].iter().position(ends).map_or(0, |last| last + 1);
        let body = lines[start..][..length].iter();
        let levels = body.map(|line| indent(line).saturating_sub(margin) / 4).max().unwrap_or(0);
        if length > FUNCTION_LINES_MAX {
            faults.push(file.fault(start + 1, &format!("a function of {length} lines")));
        }
        if levels > INDENT_LEVELS_MAX {
            faults.push(file.fault(start + 1, &format!("a function of {levels} levels")));
        }
    }
    faults
}

fn starts_function(line: &str) -> bool {
    let before = line.split_once("fn ").map(|(before, _)| before);
    before.is_some_and(|words| {
        words.split_whitespace().all(|word| word.starts_with("pub") || ["async", "const"].contains(&word))
    })
}

fn structs(file: &File) -> Vec<String> {
    let wide = wide_structs(file).into_iter().filter(|it| !WIDE.iter().any(|(name, _)| *name == it.name));
    wide.map(|it| {
        file.fault(it.line, &format!("`{}` has {} fields, {} of them flags", it.name, it.fields, it.flags))
    })
    .collect()
}

/// A struct, and how large it is.
struct Struct<'a> {
    line: usize,
    name: &'a str,
    fields: usize,
    flags: usize,
}

/// The structs that have more fields or flags than a struct may have.
fn wide_structs(file: &File) -> Vec<Struct<'_>> {
    let lines: Vec<(usize, &str)> = file.code().collect();
    let measure = |at: usize| {
        let (line, start) = lines[at];
        let name = struct_name(start)?;
        let body = lines[at..].iter().map(|(_, line)| *line).skip_while(|line| !line.ends_with('{')).skip(1);
        let body = body.take_while(|line| line.is_empty() || indent(line) > indent(start));
        let types: Vec<&str> = body.filter_map(|line| field_type(line, indent(start) + 4)).collect();
        let flags = types.iter().filter(|kind| is_flag(kind)).count();
        Some(Struct { line, name, fields: types.len(), flags })
    };
    let structs = (0..lines.len()).filter_map(measure);
    structs.filter(|it| it.fields > FIELDS_MAX || it.flags > FLAGS_MAX).collect()
}

/// The name of the struct with named fields that begins in this line.
fn struct_name(line: &str) -> Option<&str> {
    let has_named_fields = line.ends_with('{') || !line.contains(['(', ';']);
    without_visibility(line).strip_prefix("struct ").filter(|_| has_named_fields).map(word)
}

/// The type of the field in this line, if there is one at this margin.
fn field_type(line: &str, margin: usize) -> Option<&str> {
    let field = without_visibility(line);
    let (name, kind) = field.split_once(": ").filter(|_| indent(line) == margin)?;
    (word(field) == name).then_some(kind)
}

fn is_flag(kind: &str) -> bool {
    !kind.contains("->") && kind.split(|c: char| !c.is_alphanumeric() && c != '_').any(|it| it == "bool")
}

/// A line from its keyword or its name on.
fn without_visibility(line: &str) -> &str {
    let line = line.trim_start();
    let Some(rest) = line.strip_prefix("pub").filter(|rest| rest.starts_with([' ', '('])) else {
        return line;
    };
    rest.trim_start()
        .strip_prefix('(')
        .and_then(|rest| rest.split_once(") "))
        .map_or(rest, |(_, rest)| rest)
        .trim_start()
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn floors(file: &File) -> Vec<String> {
    let place = &file.path["src/".len()..];
    let home = word(place);
    let Some((_, below)) = FLOORS.iter().find(|(name, _)| *name == home) else {
        // A file beside lib.rs that shows items of other modules stands on no floor.
        let fault = place.contains('/').then(|| file.fault(1, &format!("`{home}` stands on no floor")));
        return fault.into_iter().collect();
    };
    // A macro names what its callers see.
    let imported = file
        .code()
        .filter(|(_, line)| !line.contains("$crate::"))
        .flat_map(|(at, line)| line.split("crate::").skip(1).map(move |rest| (at, word(rest))));
    imported
        .filter(|(_, name)| *name != home && !below.contains(name))
        .map(|(at, name)| file.fault(at, &format!("`{home}` may not import `crate::{name}`")))
        .collect()
}

/// The name that `text` begins with.
fn word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// std, crates, what a folder shows of its own files, and then the crate: a paragraph each.
fn imports(file: &File) -> Vec<String> {
    let (mut faults, mut last) = (Vec::new(), None);
    for paragraph in file.product().split("\n\n") {
        let ranks: BTreeSet<usize> = paragraph.lines().filter_map(|line| import_rank(file, line)).collect();
        let is_next = ranks.len() == 1 && ranks.first().copied() > last;
        if !ranks.is_empty() && !is_next {
            let first = file.product().lines().position(|line| paragraph.lines().next() == Some(line));
            faults.push(
                file.fault(first.unwrap_or(0) + 1, "imports are std, crates, `crate`, a paragraph each"),
            );
        }
        last = last.max(ranks.last().copied());
    }
    faults
}

fn import_rank(file: &File, line: &str) -> Option<usize> {
    let (visibility, path) = line.split_once("use ")?;
    let is_import = ["", "pub ", "pub(crate) ", "pub(super) "].contains(&visibility);
    let is_own = |name| file.code().any(|(_, line)| line.ends_with(&format!("mod {name};")));
    is_import.then(|| match word(path) {
        "std" => 0,
        "crate" | "self" | "super" => 3,
        name if is_own(name) => 2,
        _ => 1,
    })
}

fn words(file: &File) -> Vec<String> {
    let is_at_home = |places: &[&str]| places.iter().any(|place| file.path.starts_with(place));
    let banned = WORDS.iter().filter(|(_, places, _)| !is_at_home(places));
    banned
        .flat_map(|(word, _, why)| {
            let found = file.code().filter(move |(_, line)| line.contains(word));
            found.map(move |(at, _)| file.fault(at, &format!("`{word}`: {why}")))
        })
        .collect()
}

/// A feature switches a `mod` line and what is shown of it, or chooses between a file `enabled` and a file `disabled`
/// with one face.
fn features(file: &File) -> Vec<String> {
    let lines: Vec<(usize, &str)> = file.code().collect();
    // A link of a page leads to a module that may not be there.
    let is_link = |line: &str| line.contains("doc = \"[");
    let is_conditional = |line: &str| line.contains("cfg") && line.contains("feature = ") && !is_link(line);
    let is_switch =
        |line: &str| ["mod ", "use ", "enabled::", "disabled::"].iter().any(|word| line.contains(word));
    let conditional = (0..lines.len()).filter(|at| is_conditional(lines[*at].1));
    let scattered = conditional.filter(|at| !lines.get(at + 1).is_some_and(|(_, next)| is_switch(next)));
    scattered.map(|at| file.fault(lines[at].0, "a feature is a module")).collect()
}

fn reasons(file: &File) -> Vec<String> {
    let pieces = file.text.split("[allow(").skip(1);
    let unreasoned =
        pieces.filter(|piece| !piece.split(']').next().is_some_and(|it| it.contains("reason = ")));
    unreasoned.map(|_| file.fault(1, "an `allow` gives its reason")).collect()
}

fn folders_without_mod_rs(files: &[File]) -> Vec<String> {
    // A file may have its tests, and nothing else, in a folder of its name.
    let products = files.iter().filter(|file| !file.path.ends_with("/tests.rs"));
    let folders = products.filter_map(|file| file.path.rsplit_once('/')).map(|(folder, _)| folder);
    let inner: BTreeSet<&str> = folders.filter(|folder| *folder != "src").collect();
    let has_mod_rs = |folder: &str| files.iter().any(|file| file.path == format!("{folder}/mod.rs"));
    inner
        .into_iter()
        .filter(|folder| !has_mod_rs(folder))
        .map(|folder| format!("{folder}: no mod.rs"))
        .collect()
}

/// A `mod.rs` declares and re-exports.
fn mod_files(file: &File) -> Vec<String> {
    if !file.path.ends_with("/mod.rs") {
        return Vec::new();
    }
    let is_item = |line: &str| {
        let items =
            ["struct", "enum", "trait", "impl", "fn", "async", "const", "static", "type", "macro_rules"];
        items.contains(&word(without_visibility(line)))
    };
    let items = file.code().filter(|(_, line)| is_item(line));
    items.map(|(at, _)| file.fault(at, "a `mod.rs` declares and re-exports")).collect()
}

/// A file below [`FILE_LINES_MIN`] is part of another one, or has a reason.
fn short(file: &File) -> Vec<String> {
    let lines = file.text.lines().count();
    let has_reason = SHORT.iter().any(|(name, _)| file.path.contains(name));
    let is_fault = is_short(file) && !has_reason;
    is_fault.then(|| file.fault(lines, &format!("only {lines} lines"))).into_iter().collect()
}

fn is_short(file: &File) -> bool {
    file.text.lines().count() < FILE_LINES_MIN && !file.path.ends_with("/mod.rs")
}

/// Exemptions of short files and wide structs that are neither any more.
fn needless_exemptions(files: &[File]) -> Vec<String> {
    let short: Vec<&File> = files.iter().filter(|file| is_short(file)).collect();
    let wide: BTreeSet<&str> = files.iter().flat_map(wide_structs).map(|it| it.name).collect();
    let files = SHORT.iter().filter(|(name, _)| !short.iter().any(|file| file.path.contains(name)));
    let structs = WIDE.iter().filter(|(name, _)| !wide.contains(name));
    files.chain(structs).map(|(name, _)| format!("`{name}` needs no exemption")).collect()
}

/// A `|` in the code of a table ends its cell.
fn tables(file: &File) -> Vec<String> {
    let (mut columns, mut faults) = (None, Vec::new());
    for (at, line) in file.text.lines().enumerate() {
        let line = line.trim_start();
        let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).unwrap_or_default().trim();
        if !text.starts_with('|') || !text.ends_with('|') {
            columns = None;
            continue;
        }
        let cells = text.replace("\\|", "").matches('|').count() - 1;
        if *columns.get_or_insert(cells) != cells {
            faults
                .push(file.fault(at + 1, &format!("{cells} cells: the table has another number of columns")));
        }
    }
    faults
}

/// Sentences in comments that begin with one of the [`GUESSED_SUBJECTS`].
fn sentences(file: &File) -> Vec<String> {
    let mut faults = Vec::new();
    let mut is_start = true;
    for (at, line) in file.text.lines().enumerate() {
        let comment =
            line.trim_start().strip_prefix("//").map(|text| text.trim_start_matches(['/', '!']).trim());
        let Some(comment) = comment.filter(|text| !text.is_empty()) else {
            is_start = true;
            continue;
        };
        let starts = comment
            .split_inclusive(['.', ':', '?', '!'])
            .enumerate()
            .filter(|(part, text)| if *part == 0 { is_start } else { text.starts_with(' ') });
        // A question may begin with one.
        let subjects = starts.filter(|_| !comment.contains('?'));
        for subject in
            subjects.map(|(_, text)| word(text.trim_start())).filter(|it| GUESSED_SUBJECTS.contains(it))
        {
            faults.push(file.fault(at + 1, &format!("a sentence begins with `{subject}`: name the noun")));
        }
        is_start = comment.ends_with(['.', ':', '?', '!']);
    }
    faults
}

/// The types whose inherent impls stand in several files: a folder may add one to a type of another folder.
fn scattered_impls(files: &[File]) -> Vec<String> {
    let mut homes = BTreeMap::<(String, &str), BTreeSet<&str>>::new();
    for file in files.iter().filter(|file| !VARIANTS.iter().any(|name| file.path.contains(name))) {
        let place = &file.path["src/".len()..];
        // A file beside lib.rs is a module of its own.
        let folder = place.split_once('/').map_or(place, |(folder, _)| folder);
        for name in file.product().lines().filter_map(inherent_impl) {
            homes.entry((name, folder)).or_default().insert(&file.path);
        }
    }
    let scattered =
        homes.into_iter().filter(|((name, _), homes)| homes.len() > 1 && !LARGE.contains(&&**name));
    scattered.map(|((name, _), homes)| format!("{name}: inherent impls in {homes:?}")).collect()
}

/// The type that an `impl` without a trait begins for.
fn inherent_impl(line: &str) -> Option<String> {
    let rest =
        line.strip_prefix("impl").filter(|rest| rest.starts_with([' ', '<']) && !rest.contains(" for "))?;
    // Behind the parameters, which may hold brackets of their own.
    let mut depth = 0_i32;
    let is_outside = |c: char| {
        depth += i32::from(c == '<') - i32::from(c == '>');
        depth == 0 && c == ' '
    };
    let start = rest.find(is_outside)? + 1;
    Some(word(&rest[start..]).to_owned())
}

/// The folders in which more than [`FOLDER_FILES_MAX`] files stand side by side.
fn crowded(files: &[File]) -> Vec<String> {
    let mut counts = BTreeMap::<&str, usize>::new();
    let products = files.iter().filter(|file| !file.path.ends_with("/tests.rs"));
    for (folder, _) in products.filter_map(|file| file.path.rsplit_once('/')) {
        *counts.entry(folder).or_default() += 1;
    }
    let crowded = counts.into_iter().filter(|(_, count)| *count > FOLDER_FILES_MAX);
    crowded.map(|(folder, count)| format!("{folder}: {count} files side by side")).collect()
}

/// The folders whose files and folders import each other in a circle.
fn circles(files: &[File]) -> Vec<String> {
    let mod_files = files.iter().filter_map(|file| Some((file.path.strip_suffix("/mod.rs")?, file)));
    let circles = mod_files.map(|(folder, file)| (folder, in_circles(imports_within(folder, file, files))));
    circles
        .filter(|(_, members)| !members.is_empty())
        .map(|(folder, members)| format!("{folder}: a circle of imports in or behind {members:?}"))
        .collect()
}

/// Who imports whom among the files and folders of `folder`.
fn imports_within(folder: &str, mod_rs: &File, files: &[File]) -> BTreeMap<String, BTreeSet<String>> {
    let member = |path: &str| {
        let name = word(path.strip_prefix(folder)?.strip_prefix('/')?);
        (!name.is_empty()).then(|| name.to_owned())
    };
    let shown = shown(mod_rs);
    let mut imports = BTreeMap::<String, BTreeSet<String>>::new();
    for file in files.iter().filter(|file| file.path != mod_rs.path) {
        let Some(importer) = member(&file.path) else { continue };
        let named = paths(file).into_iter().filter_map(|path| member(&path));
        let origins = named.map(|name| shown.get(&name).cloned().unwrap_or(name));
        imports.entry(importer.clone()).or_default().extend(origins.filter(|origin| *origin != importer));
    }
    imports
}

/// The names that stay when names are left out, one after another, that import no name that is left.
fn in_circles(mut imports: BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    loop {
        let members: BTreeSet<String> = imports.keys().cloned().collect();
        imports.values_mut().for_each(|imported| imported.retain(|name| members.contains(name)));
        imports.retain(|_, imported| !imported.is_empty());
        if imports.len() == members.len() {
            return imports.into_keys().collect();
        }
    }
}

/// Which of its files and folders a folder has each name from that it shows.
fn shown(mod_rs: &File) -> BTreeMap<String, String> {
    let code = mod_rs.joined();
    let imports = code.split("use ").skip(1).filter_map(|rest| rest.split_once(';'));
    let paths = imports.filter_map(|(path, _)| path.trim_start_matches("self::").split_once("::"));
    paths
        .flat_map(|(origin, names)| {
            names.split(',').map(move |name| (last_word(name).to_owned(), origin.to_owned()))
        })
        .collect()
}

/// The paths that a file names, from the root on: `src/wire/Limits` where it says `crate::wire::Limits`.
fn paths(file: &File) -> Vec<String> {
    let (code, own) =
        (file.joined().replace("$crate::", ""), file.path.trim_end_matches(".rs").trim_end_matches("/mod"));
    let above = own.rsplit_once('/').map_or(own, |(above, _)| above);
    let mut paths = Vec::new();
    for (root, base) in [("crate::", "src"), ("super::", above)] {
        for rest in code.split(root).skip(1) {
            let end = rest.find(|c: char| !c.is_alphanumeric() && !"_:".contains(c)).unwrap_or(rest.len());
            let (path, behind) = rest.split_at(end);
            let path = format!("{base}/{}", path.replace("::", "/"));
            let path = path.trim_end_matches('/');
            let list = behind.strip_prefix('{').and_then(|list| list.split_once('}'));
            let names = list.map_or("", |(names, _)| names).split(',');
            paths.extend(names.map(|name| format!("{path}/{}", word(name.trim_start()))));
        }
    }
    paths
}

/// The name that `text` ends with.
fn last_word(text: &str) -> &str {
    let text = text.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '_');
    text.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// A Rust file, and what is wrong with it.
#[derive(Clone)]
struct File {
    path: String,
    text: String,
}

impl File {
    /// The file without its tests. A file `tests` is nothing else.
    fn product(&self) -> &str {
        if self.path.ends_with("/tests.rs") {
            return "";
        }
        self.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
    }

    /// The numbered lines of the product, without comments.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.product().lines().enumerate().map(|(at, line)| (at + 1, line));
        lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
    }

    /// The product without comments, as one text.
    fn joined(&self) -> String {
        self.code().map(|(_, line)| format!("{line}\n")).collect()
    }

    fn fault(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.path)
    }
}

/// All Rust files under `dir`, in order.
fn files(dir: &str) -> Vec<File> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).expect("tests run where the crate is") {
        let entry = entry.expect("a folder can be read");
        let path = format!("{dir}/{}", entry.file_name().display());
        if path.ends_with("/target") {
            // A crate of its own, in `benches` or `tests`, may have built this.
            continue;
        }
        if entry.path().is_dir() {
            files.extend(self::files(&path));
        } else if path.ends_with(".rs") {
            files.push(File { text: fs::read_to_string(&path).expect("source can be read"), path });
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    files
}
