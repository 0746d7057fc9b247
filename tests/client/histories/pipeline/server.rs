//! [`Server`]: answers as the steps say, and notes what it has received.

use std::collections::HashMap;
use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex};

use corehttp::net::Dialer;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, sleep};

use super::{Settings, Step};
use crate::chunks::content;
use crate::histories::reply::{self, Fault, Then};

/// The response to whatever the steps do not know.
pub const GOOD: &str = "good";

#[derive(Clone)]
pub struct Server {
    steps: Arc<Vec<Step>>,
    seen: Arc<Mutex<HashMap<usize, Seen>>>,
    faults: Arc<Mutex<Vec<String>>>,
}

/// The outcome of one request.
#[derive(Clone, Copy, Default)]
pub struct Seen {
    /// When it was made.
    pub made: Option<Instant>,
    /// How often some of it was received where it might be acted on.
    pub begun: usize,
}

/// The state that the two directions of one connection share.
struct Line {
    /// How many more requests the server reads.
    wanted: Semaphore,
    /// How many it has answered.
    answered: Mutex<usize>,
    /// Since when the client knows that no more responses will follow.
    closing: Mutex<Option<Instant>>,
}

type SentRequest = (usize, usize);

impl Server {
    pub fn new(steps: &[Step]) -> Server {
        Server { steps: Arc::new(steps.to_vec()), seen: Arc::default(), faults: Arc::default() }
    }

    /// The result of `look` at the request with this tag.
    pub fn seen<T>(&self, tag: usize, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(self.seen.lock().unwrap().entry(tag).or_default())
    }

    /// The faults of the requests that were received.
    pub fn faults(&self) -> Vec<String> {
        self.faults.lock().unwrap().clone()
    }

    async fn serve(self, stream: DuplexStream) {
        let (reads, writes) = split(stream);
        let line = Line { wanted: Semaphore::new(1), answered: Mutex::default(), closing: Mutex::default() };
        let (asked, asks) = mpsc::unbounded_channel();
        tokio::select! {
            _ = self.read(reads, &line, asked) => {}
            _ = self.answer(writes, &line, asks) => {}
        }
    }

    async fn read(
        &self,
        mut stream: ReadHalf<DuplexStream>,
        line: &Line,
        asked: mpsc::UnboundedSender<SentRequest>,
    ) -> io::Result<()> {
        let mut is_closing = false;
        for number in 0.. {
            line.wanted.acquire().await.unwrap().forget();
            let mut head = vec![stream.read_u8().await?];
            if number == 1 && *line.answered.lock().unwrap() == 0 {
                self.note("a new connection carries two requests".into());
            }
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await?);
            }
            let head = String::from_utf8(head).unwrap();
            let tag = reply::tag(&head);
            let Seen { made, begun: turn, .. } = self.seen(tag, |seen| *seen);
            if matches!((made, *line.closing.lock().unwrap()), (Some(made), Some(closing)) if made > closing)
            {
                self.note(format!("call {tag} was made on a connection that closes"));
            }
            let step = self.step(tag);
            // Octets behind the last request are not acted on (RFC 9112 §9.6).
            if !is_closing {
                self.seen(tag, |seen| seen.begun += 1);
                if step.is_some_and(|step| turn < 2 && step.turns[turn].reply.fault == Fault::Vanishes(2)) {
                    // It reads no more.
                    let _ = asked.send((tag, turn));
                    pending().await
                }
            }
            let mut body = vec![0; step.map_or(0, |step| step.len)];
            stream.read_exact(&mut body).await?;
            if body != content(body.len()).as_bytes() {
                self.note(format!("call {tag} has lost its content"));
            }
            if !is_closing {
                is_closing = step.is_some_and(|step| turn < 2 && !step.persists(turn));
                let _ = asked.send((tag, turn));
            }
            line.wanted.add_permits(usize::from(is_closing || self.steps[0].settings.is_eager));
        }
        Ok(())
    }

    async fn answer(
        &self,
        mut stream: WriteHalf<DuplexStream>,
        line: &Line,
        mut asks: mpsc::UnboundedReceiver<SentRequest>,
    ) -> io::Result<()> {
        while let Some((tag, turn)) = asks.recv().await {
            let step = self.step(tag);
            match step.filter(|_| turn < 2) {
                Some(step) => send(&mut stream, line, step, turn).await?,
                None => {
                    let head =
                        format!("HTTP/1.1 200 OK\r\nx-turn: {tag} {turn}\r\ncontent-length: 4\r\n\r\n");
                    stream.write_all((head + step.map_or(GOOD, Step::good)).as_bytes()).await?;
                }
            }
            *line.answered.lock().unwrap() += 1;
            line.wanted.add_permits(usize::from(!self.steps[0].settings.is_eager));
        }
        Ok(())
    }

    fn step(&self, tag: usize) -> Option<&Step> {
        self.steps.iter().find(|step| step.tag == tag)
    }

    fn note(&self, fault: String) {
        self.faults.lock().unwrap().push(fault);
    }
}

impl Dialer for Server {
    type Stream = DuplexStream;

    async fn dial(&self, _host: &str, _port: u16) -> io::Result<DuplexStream> {
        let Settings { dialing, room, .. } = self.steps[0].settings;
        sleep(dialing).await;
        let (near, far) = duplex(room);
        tokio::spawn(self.clone().serve(far));
        Ok(near)
    }
}

/// Says what this turn is. Fails if the connection is to be closed.
async fn send(stream: &mut WriteHalf<DuplexStream>, line: &Line, step: &Step, turn: usize) -> io::Result<()> {
    let (reply, [head, body]) = (&step.turns[turn].reply, step.wire(turn));
    let (head_len, wire) = (head.len(), head + &body);
    sleep(step.turns[turn].before).await;
    let len = match reply.fault {
        Fault::Vanishes(_) => 0,
        Fault::Cut(thousandths) | Fault::Stalls(thousandths) => wire.len() * thousandths / 1000,
        _ => wire.len(),
    };
    let mut cuts = [&[head_len, len], &*reply.cuts].concat();
    cuts.sort_unstable();
    let mut said = 0;
    for cut in cuts.into_iter().filter(|cut| *cut <= len) {
        stream.write_all(&wire.as_bytes()[said..cut]).await?;
        said = cut;
        if cut >= head_len && !step.is_broken(turn) && !step.persists(turn) {
            line.closing.lock().unwrap().get_or_insert(Instant::now());
        }
        if said < len {
            sleep(step.turns[turn].between).await;
        }
    }
    match (reply.fault, reply.then) {
        (Fault::Stalls(_), _) => pending().await,
        (Fault::Vanishes(_) | Fault::Cut(_), _) | (_, Then::Ends) => Err(io::ErrorKind::Other.into()),
        _ if !step.persists(turn) => Err(io::ErrorKind::Other.into()),
        _ => Ok(()),
    }
}
