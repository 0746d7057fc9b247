//! [`MemoryListener`]: connections without sockets, for tests and benchmarks.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::mem;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tokio::io::DuplexStream;
use tokio::sync::Semaphore;

use crate::memory::lock;

/// One end of a connection in memory. Either end can be used on any thread.
pub type MemoryStream = DuplexStream;

/// Accepts connections in memory. For a server it is an [`Address`](crate::Address) like any other.
///
/// Clones share one backlog. When the last of them is dropped, the listener is closed.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use corehttp::net::MemoryListener;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// let listener = MemoryListener::new();
/// let mut near = listener.connector().connect().await?;
/// let mut far = listener.accept().await;
///
/// near.write_all(b"hello").await?;
/// let mut received = [0; 5];
/// far.read_exact(&mut received).await?;
/// assert_eq!(&received, b"hello");
/// # Ok(())
/// # }
/// ```
#[doc(alias = "InmemoryListener")]
#[derive(Clone, Debug, Default)]
pub struct MemoryListener {
    inner: Arc<OpenListener>,
}

impl MemoryListener {
    /// Creates a listener.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a connector, with which peers connect.
    pub fn connector(&self) -> MemoryConnector {
        MemoryConnector { queue: Arc::clone(&self.inner.queue) }
    }

    /// Waits for the next connection.
    pub async fn accept(&self) -> MemoryStream {
        let acceptor = self.acceptor();
        poll_fn(|cx| acceptor.poll_accept(cx)).await
    }

    pub(crate) fn acceptor(&self) -> MemoryAcceptor {
        MemoryAcceptor { listener: self.clone(), number: self.inner.queue.next_number() }
    }
}

/// Waits for connections for one task. Its drop removes the waker of the task, even if no connection ever comes.
#[derive(Debug)]
pub(crate) struct MemoryAcceptor {
    listener: MemoryListener,
    number: u64,
}

impl MemoryAcceptor {
    pub(crate) fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<MemoryStream> {
        self.listener.inner.queue.poll_pop(cx, self.number)
    }

    pub(crate) fn accept_now(&self) -> Option<MemoryStream> {
        self.listener.inner.queue.pop()
    }
}

impl Drop for MemoryAcceptor {
    fn drop(&mut self) {
        self.listener.inner.queue.deregister(self.number);
    }
}

/// Connects to the [`MemoryListener`] that made it.
#[derive(Clone, Debug)]
pub struct MemoryConnector {
    queue: Arc<AcceptQueue>,
}

impl MemoryConnector {
    /// Opens a connection. Waits while 1,024 others have not been accepted yet.
    ///
    /// # Errors
    ///
    /// Fails with [`io::ErrorKind::ConnectionRefused`] once the listener has been closed.
    pub async fn connect(&self) -> io::Result<MemoryStream> {
        let place = self.queue.free_places.acquire().await.map_err(|_| io::ErrorKind::ConnectionRefused)?;
        let (near, far) = tokio::io::duplex(STREAM_BYTES);
        self.queue.push(far)?;
        place.forget();
        Ok(near)
    }
}

const STREAM_BYTES: usize = 64 * 1024;
const BACKLOG_MAX: usize = 1024;

/// Shared by the clones of a listener. Its drop closes the queue.
#[derive(Debug, Default)]
struct OpenListener {
    queue: Arc<AcceptQueue>,
}

impl Drop for OpenListener {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// Connections on their way from the connectors to the listeners.
#[derive(Debug)]
struct AcceptQueue {
    /// A permit for each free place; closed with the listener. The semaphore wakes tasks, so it is not used under the
    /// lock of `backlog`, since a waker may do anything.
    free_places: Semaphore,
    backlog: Mutex<Backlog>,
}

#[derive(Debug, Default)]
struct Backlog {
    waiting: VecDeque<MemoryStream>,
    /// The tasks that wait for a connection, by the numbers of their acceptors.
    acceptors: BTreeMap<u64, Waker>,
    last_number: u64,
    is_closed: bool,
}

impl AcceptQueue {
    fn push(&self, stream: MemoryStream) -> io::Result<()> {
        let mut backlog = lock(&self.backlog);
        if backlog.is_closed {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        backlog.waiting.push_back(stream);
        debug_assert!(backlog.waiting.len() <= BACKLOG_MAX, "each waiting connection has a permit");
        // All tasks are woken, since a single one might be cancelled before it accepts.
        let acceptors = mem::take(&mut backlog.acceptors);
        drop(backlog);
        acceptors.into_values().for_each(Waker::wake);
        Ok(())
    }

    fn next_number(&self) -> u64 {
        let mut backlog = lock(&self.backlog);
        backlog.last_number += 1;
        backlog.last_number
    }

    fn poll_pop(&self, cx: &mut Context<'_>, number: u64) -> Poll<MemoryStream> {
        let mut backlog = lock(&self.backlog);
        let Some(stream) = backlog.waiting.pop_front() else {
            let replaced = backlog.acceptors.insert(number, cx.waker().clone());
            drop(backlog);
            drop(replaced);
            return Poll::Pending;
        };
        drop(backlog);
        self.free_places.add_permits(1);
        Poll::Ready(stream)
    }

    fn pop(&self) -> Option<MemoryStream> {
        let stream = lock(&self.backlog).waiting.pop_front()?;
        self.free_places.add_permits(1);
        Some(stream)
    }

    fn deregister(&self, number: u64) {
        let left = lock(&self.backlog).acceptors.remove(&number);
        drop(left);
    }

    fn close(&self) {
        let mut backlog = lock(&self.backlog);
        backlog.is_closed = true;
        let refused = mem::take(&mut backlog.waiting);
        drop(backlog);
        self.free_places.close();
        // Dropped outside of the lock, since this wakes the other ends.
        drop(refused);
    }
}

impl Default for AcceptQueue {
    fn default() -> Self {
        Self { free_places: Semaphore::new(BACKLOG_MAX), backlog: Mutex::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Wake;
    use std::thread;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::runtime::Builder;

    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn streams_cross_threads_and_runtimes() {
        let listener = MemoryListener::new();
        let connector = listener.connector();
        let echo = thread::spawn(move || {
            block_on(async {
                let mut stream = listener.accept().await;
                let mut received = Vec::new();
                stream.read_to_end(&mut received).await.unwrap();
                stream.write_all(&received).await.unwrap();
            });
        });
        block_on(async {
            let mut stream = connector.connect().await.unwrap();
            stream.write_all(b"hello").await.unwrap();
            stream.shutdown().await.unwrap();
            let mut received = String::new();
            stream.read_to_string(&mut received).await.unwrap();
            assert_eq!(received, "hello");
        });
        echo.join().unwrap();
    }

    #[test]
    fn a_listener_that_is_gone_refuses_connections() {
        block_on(async {
            let listener = MemoryListener::new();
            let clone = listener.clone();
            let connector = listener.connector();
            drop(listener);
            let mut early = connector.connect().await.unwrap();
            drop(clone);
            let late = connector.connect().await.unwrap_err();
            assert_eq!(late.kind(), io::ErrorKind::ConnectionRefused);
            assert_eq!(early.read(&mut [0]).await.unwrap(), 0, "queued, never accepted");
        });
    }

    #[test]
    fn a_full_backlog_makes_peers_wait() {
        let listener = MemoryListener::new();
        let connector = listener.connector();
        block_on(async {
            let mut near = Vec::new();
            for _ in 0..BACKLOG_MAX {
                near.push(connector.connect().await.unwrap());
            }
            let waits = tokio::spawn(async move { connector.connect().await });
            tokio::task::yield_now().await;
            assert!(!waits.is_finished());
            drop(listener.accept().await);
            waits.await.unwrap().unwrap();
        });
    }

    /// A waker that notes whether the queue was unlocked when it was woken.
    struct LockProbe(Arc<AcceptQueue>, AtomicBool);

    impl Wake for LockProbe {
        fn wake(self: Arc<LockProbe>) {
            self.1.store(self.0.backlog.try_lock().is_ok(), Ordering::Relaxed);
        }
    }

    /// A waker may do anything: one that connects or accepts at once would wait for itself under the lock.
    #[test]
    fn no_task_is_woken_under_the_lock() {
        let leave: [fn(MemoryListener); 2] = [|listener| drop(listener.acceptor().accept_now()), drop];
        for leave in leave {
            let listener = MemoryListener::new();
            let connector = listener.connector();
            let _near = block_on(async {
                let mut near = Vec::new();
                for _ in 0..BACKLOG_MAX {
                    near.push(connector.connect().await.unwrap());
                }
                near
            });
            let probe = Arc::new(LockProbe(Arc::clone(&connector.queue), AtomicBool::new(false)));
            let waker = Waker::from(Arc::clone(&probe));
            let mut waits = pin!(connector.connect());
            assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            leave(listener);
            assert!(probe.1.load(Ordering::Relaxed));
        }
    }

    /// A waker that stayed until the next connection would keep all memory of its task.
    #[test]
    fn a_task_that_no_longer_accepts_is_forgotten() {
        let listener = MemoryListener::new();
        let wakes = Arc::new(LockProbe(Arc::clone(&listener.inner.queue), AtomicBool::new(false)));
        let waker = Waker::from(Arc::clone(&wakes));
        let cx = &mut Context::from_waker(&waker);
        let mut stays = pin!(listener.accept());
        let acceptor = listener.acceptor();
        for _ in 0..2 {
            assert!(stays.as_mut().poll(cx).is_pending());
            assert!(pin!(listener.accept()).poll(cx).is_pending());
            assert!(acceptor.poll_accept(cx).is_pending());
        }
        drop(acceptor);
        assert_eq!(Arc::strong_count(&wakes), 3, "one for the test, one for its waker, one that stays");
        let _near = block_on(listener.connector().connect()).unwrap();
        assert!(wakes.1.load(Ordering::Relaxed) && stays.as_mut().poll(cx).is_ready());
    }

    #[test]
    fn a_cancelled_accept_takes_no_connection() {
        let listener = MemoryListener::new();
        block_on(async {
            let clone = listener.clone();
            let accepts = tokio::spawn(async move { clone.accept().await });
            let cancelled = {
                let clone = listener.clone();
                tokio::spawn(async move { clone.accept().await })
            };
            tokio::task::yield_now().await;
            cancelled.abort();
            let _near = listener.connector().connect().await.unwrap();
            accepts.await.unwrap();
            assert!(listener.acceptor().accept_now().is_none());
        });
    }
}
