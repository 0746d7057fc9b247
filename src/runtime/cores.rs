//! Threads with current-thread runtimes and their tasks, [`Budget`] for yields, [`Handle`] and [`block_on`] for other runtimes,
//! [`RuntimeThread`] for callers in none.

use std::cell::Cell;
use std::future::pending;
use std::io;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub(crate) use tokio::runtime::Id;
use tokio::runtime::{self, Builder, LocalOptions};
use tokio::sync::oneshot;
use tokio::task;
pub(crate) use tokio::task::yield_now;

use super::own_wait::OwnWaits;
use crate::descriptors::{want_of_descriptors, with_descriptors};

/// Whether a thread stays on one core of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pinning {
    /// The operating system moves threads as it likes.
    #[default]
    Free,
    /// The n-th thread runs on the n-th core that the process may use.
    Pinned,
}

/// Returns how many cores the process may use.
pub(crate) fn available_cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Runs the future that `work` returns to its end, on a thread and in a runtime of its own. When the future ends, so do
/// all tasks that it spawned. Work that it has begun on other threads may take as long as `blocking_left` returns then;
/// after that it goes on by itself.
///
/// # Errors
///
/// Fails if the thread cannot be started. If the runtime cannot be built, the thread returns the error.
pub(crate) fn block_on_core<W, F, T>(
    index: usize,
    pinning: Pinning,
    work: W,
    blocking_left: impl FnOnce() -> Duration + Send + 'static,
) -> io::Result<JoinHandle<io::Result<T>>>
where
    W: FnOnce() -> F + Send + 'static,
    F: Future<Output = T>,
    T: Send + 'static,
{
    thread::Builder::new().name(format!("corehttp-{index}")).spawn(move || {
        if pinning == Pinning::Pinned {
            pin(index);
        }
        run(async move { work().await }, blocking_left)
    })
}

/// Runs `task` on this core, concurrently with the others.
pub(crate) fn spawn<T: 'static>(task: impl Future<Output = T> + 'static) -> task::JoinHandle<T> {
    task::spawn_local(task)
}

/// Runs `task` to its end, even if its caller is dropped meanwhile, and panics as it does. In a runtime that is no core's
/// and not that of [`block_on`], whose tasks may have to be `Send`, it is a part of its caller.
pub(crate) async fn run_beside<T: 'static>(task: impl Future<Output = T> + 'static) -> T {
    if !is_local() {
        return task.await;
    }
    match spawn(task).await.map_err(task::JoinError::try_into_panic) {
        Ok(output) => output,
        Err(Ok(panic)) => resume_unwind(panic),
        // The runtime is ending, and the caller with it.
        Err(Err(_)) => pending().await,
    }
}

/// Runs `task`, whose caller has no time to wait. In a runtime that is no core's and not that of [`block_on`], it is only begun, as
/// in one that ends.
pub(crate) fn run_apart(task: impl Future<Output = ()> + 'static) {
    let mut task = Box::pin(task);
    let begin = || task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    // The caller may be dropped by a panic already, and a second one would end the process.
    if let Ok(Poll::Pending) = catch_unwind(AssertUnwindSafe(begin))
        && is_local()
    {
        spawn(task);
    }
}

/// Whether the tasks of the current runtime need not be `Send`.
fn is_local() -> bool {
    let here = Handle::current().map(|handle| handle.id());
    LOCAL.get().is_some_and(|local| Some(local) == here)
}

thread_local! {
    /// The runtime of this thread whose tasks need not be `Send`.
    static LOCAL: Cell<Option<Id>> = const { Cell::new(None) };
}

/// Pins this thread to a core. If that fails, the thread runs unpinned.
fn pin(index: usize) {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    if let Some(core) = cores.get(index % cores.len().max(1)) {
        core_affinity::set_for_current(*core);
    }
}

/// How much a task has processed since it last yielded. A task whose source is always ready and whose peer reads as
/// fast would never be pending, and would keep the core to itself; tokio's own budget counts only its own resources.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    done: usize,
}

impl Budget {
    /// Ready, unless the budget is used up. Then all other tasks run first, including those whose sockets have become
    /// ready.
    ///
    /// A task that merely woke itself would run again at once if it is alone in the queue, and a runtime polls the
    /// system for events only once in many rounds of its queue; new connections would wait for all of these. After
    /// `yield_now` the runtime polls for events first.
    pub(crate) fn poll_proceed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.done < DONE_MAX { Poll::Ready(()) } else { self.poll_yield(cx) }
    }

    fn poll_yield(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.done = 0;
        let _ = pin!(yield_now()).poll(cx);
        OwnWaits::note(Poll::Pending)
    }

    /// Whether nothing was processed since the last yield, or since the beginning. Of a poll that is pending in
    /// [`Budget::poll_proceed`], this is whether it yielded.
    pub(crate) fn has_yielded(&self) -> bool {
        self.done == 0
    }

    /// Charges a step, in which `bytes` were processed.
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.done += STEP_COST + bytes;
    }
}

/// The cost of a step, however few bytes it processes: 1,024 steps are a turn.
const STEP_COST: usize = 256;

/// The budget in bytes.
const DONE_MAX: usize = 256 << 10;

/// The current tokio runtime.
#[derive(Clone, Debug)]
pub(crate) struct Handle(runtime::Handle);

impl Handle {
    /// Returns the current runtime, if there is one.
    pub(crate) fn current() -> Option<Handle> {
        runtime::Handle::try_current().ok().map(Handle)
    }

    /// Returns the runtime's id, which no other living runtime has.
    pub(crate) fn id(&self) -> Id {
        self.0.id()
    }

    /// Runs `task` in that runtime. If the runtime ends first, the task is dropped.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(task);
    }
}

/// Runs `future` to its end outside of a runtime: in a small program, a test or a build script.
///
/// Each call makes a tokio runtime of its own. Connections of clients end with that runtime. So requests that should share
/// connections belong in one future. As on the core of a server, `tokio::task::spawn_local` works.
///
/// Tasks that the future has spawned end with it. Work in `tokio::task::spawn_blocking` cannot be dropped. The call waits for
/// such work for at most a tenth of a second. After that, the work goes on by itself.
///
/// # Errors
///
/// Fails if the operating system cannot provide what a runtime needs.
///
/// # Panics
///
/// Panics inside of a runtime, which would wait for itself.
///
/// # Examples
///
/// ```
/// assert_eq!(corehttp::block_on(async { 40 + 2 })?, 42);
/// // A block with `?` says which error it has. The first `?` is for the runtime, the second for the block.
/// let sum = corehttp::block_on(async { Ok::<_, corehttp::Error>("40".parse::<u8>()? + 2) })??;
/// # assert_eq!(sum, 42);
/// # Ok::<(), corehttp::Error>(())
/// ```
pub fn block_on<F: IntoFuture>(future: F) -> io::Result<F::Output> {
    run(future.into_future(), || BLOCKING_LEFT)
}

fn run<F: Future>(future: F, blocking_left: impl FnOnce() -> Duration) -> io::Result<F::Output> {
    let runtime = build_runtime(|builder| builder.build_local(LocalOptions::default()))?;
    LOCAL.set(Some(runtime.handle().id()));
    let output = runtime.block_on(future);
    // To drop a runtime is to wait until all its threads have ended, however long a call of the system takes.
    runtime.shutdown_timeout(blocking_left());
    Ok(output)
}

/// A runtime on a thread of its own, which ends when the last clone is dropped. It drives what callers on other threads wait
/// for.
#[derive(Clone)]
pub(crate) struct RuntimeThread {
    handle: runtime::Handle,
    /// Dropped with the last clone.
    _stop: Arc<oneshot::Sender<()>>,
}

/// The error of a caller that is in a runtime, which would have to wait for another one.
#[derive(Debug)]
pub(crate) struct InRuntime;

impl RuntimeThread {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// Fails if the operating system cannot provide what a runtime needs.
    pub(crate) fn start(name: &str) -> io::Result<RuntimeThread> {
        let runtime = build_runtime(Builder::build)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let drive = move || {
            // All senders are gone.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        };
        thread::Builder::new().name(name.to_owned()).spawn(drive)?;
        Ok(RuntimeThread { handle, _stop: Arc::new(stop) })
    }

    /// Waits for `future`, in this runtime.
    ///
    /// # Errors
    ///
    /// Fails if the caller is in a runtime.
    pub(crate) fn wait<F: Future>(&self, future: F) -> Result<F::Output, InRuntime> {
        match runtime::Handle::try_current() {
            Ok(_) => Err(InRuntime),
            Err(_) => Ok(self.handle.block_on(future)),
        }
    }
}

/// How long work on other threads may take when the future that began it has ended: enough for a last write.
const BLOCKING_LEFT: Duration = Duration::from_millis(100);

fn build_runtime<R>(build: impl Fn(&mut Builder) -> io::Result<R> + RefUnwindSafe) -> io::Result<R> {
    with_descriptors(|| {
        // tokio panics if there are no descriptors for its signals.
        let built = catch_unwind(|| build(Builder::new_current_thread().enable_all()));
        built.unwrap_or_else(|_| {
            let unknown = || io::Error::other("no runtime can be built, perhaps for lack of descriptors");
            Err(want_of_descriptors().unwrap_or_else(unknown))
        })
    })
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::rc::Rc;
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;

    /// Whether a task ends whose caller is dropped.
    async fn outlives_its_caller() -> bool {
        let (sender, receiver) = mpsc::channel();
        let mut task = Box::pin(run_beside(async move {
            yield_now().await;
            sender.send(()).unwrap();
        }));
        let is_pending = poll_fn(|cx| Poll::Ready(task.as_mut().poll(cx).is_pending())).await;
        assert!(is_pending);
        drop(task);
        for _ in 0..3 {
            yield_now().await;
        }
        receiver.try_recv().is_ok()
    }

    #[test]
    fn a_task_outlives_its_caller_where_it_need_not_be_send() {
        let core = block_on_core(0, Pinning::Free, outlives_its_caller, || Duration::ZERO);
        assert!(core.unwrap().join().unwrap().unwrap());
        assert!(block_on(outlives_its_caller()).unwrap());
        // The thread had another runtime before.
        assert!(!Builder::new_current_thread().build().unwrap().block_on(outlives_its_caller()));
        let panicked = catch_unwind(|| block_on(run_beside(async { panic!("as the task") })));
        assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"as the task"));
    }

    #[test]
    fn a_future_on_a_core_need_not_be_send() {
        let work = || async {
            let own = Rc::new(41);
            let (sender, receiver) = mpsc::channel();
            let task = own.clone();
            spawn(async move { sender.send(*task + 1).unwrap() });
            yield_now().await;
            (thread::current().name().map(str::to_owned), receiver.try_recv())
        };
        let core = block_on_core(7, Pinning::Pinned, work, || Duration::ZERO);
        assert_eq!(core.unwrap().join().unwrap().unwrap(), (Some("corehttp-7".into()), Ok(42)));
    }

    /// A look-up or a read of a dead disk that had begun kept the caller for seconds beyond its time limit.
    #[test]
    fn work_that_blocks_does_not_outlast_what_is_left_for_it() {
        for (takes, most, is_done) in [(20, 10_000, true), (10_000, 50, false), (10_000, 0, false)] {
            let (done, received) = mpsc::channel();
            let start = Instant::now();
            let work = async move || {
                let (begun, began) = tokio::sync::oneshot::channel();
                task::spawn_blocking(move || {
                    begun.send(()).unwrap();
                    thread::sleep(Duration::from_millis(takes));
                    let _ = done.send(());
                });
                began.await.unwrap();
            };
            let core = block_on_core(0, Pinning::Free, work, move || Duration::from_millis(most));
            core.unwrap().join().unwrap().unwrap();
            assert!(start.elapsed() < Duration::from_secs(5), "{takes} of {most} ms");
            assert_eq!(received.try_recv().is_ok(), is_done, "{takes} of {most} ms");
        }
        let start = Instant::now();
        block_on(async { drop(task::spawn_blocking(|| thread::sleep(Duration::from_secs(10)))) }).unwrap();
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
}
