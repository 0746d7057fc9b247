//! [`Program`]: a client or a server that is not written in Rust.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A file in `programs/`, and what runs it.
pub(crate) struct Program {
    pub(crate) file: &'static str,
    /// The commands that can run it, each with its arguments and a check that succeeds where it can.
    pub(crate) runners: &'static [(&'static [&'static str], &'static [&'static str])],
}

pub(crate) const CLIENTS: &[Program] = &[
    Program { file: "curl.sh", runners: &[(&["bash"], &["curl", "--version"])] },
    Program { file: "client.py", runners: &[(&["python3"], &["python3", "--version"])] },
    Program {
        file: "client_httpx.py",
        // The interpreter that comes first may not be the one that the system's packages are for.
        runners: &[
            (&["python3"], &["python3", "-c", "import httpx"]),
            (&["/usr/bin/python3"], &["/usr/bin/python3", "-c", "import httpx"]),
        ],
    },
    Program { file: "client.mjs", runners: &[(&["node"], &["node", "--version"])] },
    Program { file: "client.go", runners: &[(&["go", "run"], &["go", "version"])] },
    // A program of one file needs a compiler, which not every installation has.
    Program { file: "client.java", runners: &[(&["java"], &["javac", "--version"])] },
];

pub(crate) const SERVERS: &[Program] = &[
    Program { file: "server.mjs", runners: &[(&["node"], &["node", "--version"])] },
    Program { file: "server.go", runners: &[(&["go", "run"], &["go", "version"])] },
];

impl Program {
    /// Runs it to its end, which must be a success.
    pub(crate) fn run(&self, args: &[&str]) {
        let Some(mut command) = self.command() else { return };
        let output = command.args(args).output().expect("a program that is there runs");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{} {args:?}: {}\n{out}{err}", self.file, output.status);
    }

    /// Starts it, and waits until it has printed its port.
    pub(crate) fn serve(&self) -> Option<Server> {
        let mut child =
            self.command()?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut port = String::new();
        BufReader::new(child.stdout.take().expect("it is piped"))
            .read_line(&mut port)
            .expect("it prints its port");
        Some(Server { child, url: format!("http://127.0.0.1:{}", port.trim()) })
    }

    fn command(&self) -> Option<Command> {
        let runs = |check: &[&str]| {
            let output = Command::new(check[0]).args(&check[1..]).output();
            output.is_ok_and(|output| output.status.success())
        };
        let Some((runner, _)) = self.runners.iter().find(|(_, check)| runs(check)) else {
            eprintln!("skipped: {} needs `{}`", self.file, self.runners[0].1.join(" "));
            return None;
        };
        let mut command = Command::new(runner[0]);
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/programs").join(self.file);
        command.args(&runner[1..]).arg(file);
        Some(command)
    }
}

/// A server that ends when this is dropped.
pub(crate) struct Server {
    child: Child,
    url: String,
}

impl Server {
    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // `go run` starts another process, which ends with its standard input.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
