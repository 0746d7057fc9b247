//! Starts a server: binds all addresses first, then starts a thread for each core. A core listens once all of them have
//! a handler. If anything fails, nothing is left running.

use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, mpsc as std_mpsc};
use std::time::Duration;

use tokio::sync::{Barrier, mpsc, watch};

use super::accept_loop::{AcceptLoop, CoreListener, CoreSender, Handoff, NEXT_CORES, Placement};
use super::handover::{Announcement, Handover, StartLimit};
use super::server_handle::{ListenedAddress, ServerHandle, StopOnDrop};
use super::stop::{Signal, Stop, grace_elapsed};
use super::systemd::Notifier;
use crate::message::{Scheme, Status};
use crate::net::tls::TlsAcceptor;
use crate::net::{Address, BoundSocket, ConnTable, ListenOptions, Listener};
use crate::runtime::{self, Pinning};
use crate::server::connection::PerCore;
use crate::server::core_state::ServerSettings;
use crate::server::counts::CoreCounterSet;
use crate::server::error::{Error, Result};
use crate::server::handler::IntoHandler;
use crate::server::opening::{ConnectionLimiter, ServerTotals};

/// Where a server listens, on how many cores, and what stops it.
pub(crate) struct LaunchOptions {
    /// Each with the TLS acceptor that is its own, if it has one.
    pub(crate) addresses: Vec<(Address, Option<TlsAcceptor>)>,
    pub(crate) cores: usize,
    pub(crate) pinning: Pinning,
    pub(crate) balanced: bool,
    pub(crate) listen: ListenOptions,
    pub(crate) handover: Option<Handover>,
    pub(crate) notifier: Option<Notifier>,
    pub(crate) stop_on: Option<(Signal, Duration)>,
    pub(crate) stop_delay: Duration,
}

impl LaunchOptions {
    /// Creates the options of a server without an address, on all cores that the process may use.
    pub(crate) fn new() -> LaunchOptions {
        LaunchOptions {
            addresses: Vec::new(),
            cores: runtime::available_cores().min(CORES_MAX),
            pinning: Pinning::default(),
            balanced: false,
            listen: ListenOptions::default(),
            handover: None,
            notifier: None,
            stop_on: None,
            stop_delay: Duration::ZERO,
        }
    }
}

/// Bounds what is allocated per core before the first core starts.
pub(crate) const CORES_MAX: usize = 1024;

/// Starts a server, with the handler that `make` returns for each core.
pub(crate) fn launch<F, Kind, H>(
    mut options: LaunchOptions,
    settings: ServerSettings,
    make: F,
) -> Result<ServerHandle>
where
    F: AsyncFn(ServerCore) -> Result<H> + Send + Sync + 'static,
    H: IntoHandler<Kind>,
{
    let settings = settings.with_memory();
    let (cores, addresses) = bind(&mut options, &settings)?;
    let announcement = options.handover.as_mut().map(Handover::announcement);
    let counters = cores.iter().map(|core| core.counters.clone()).collect();
    let notifier = options.notifier.map(|notifier| notifier.with_cores(cores.len()));
    let handle = ServerHandle::new(addresses, options.stop_delay, counters, notifier.clone());
    let (mut signal, grace) = match options.stop_on {
        Some((signal, grace)) => (Some((signal, handle.clone())), grace),
        None => (None, FAILURE_GRACE),
    };
    let (started_tx, started_rx) = std_mpsc::channel();
    let barrier = Arc::<CoreBarrier>::default();
    let make = Arc::new(make);
    let count = cores.len();
    for (index, bound) in cores.into_iter().enumerate() {
        let background = BackgroundTasks {
            handover: options.handover.take(),
            notifier: notifier.clone(),
            running: handle.clone(),
            grace,
        };
        let core = CoreStart {
            core: ServerCore { index, count },
            make: make.clone(),
            bound,
            background,
            signal: signal.take(),
            grace,
            stop: handle.stop_signal(),
            stop_on_drop: handle.stop_on_drop(Duration::ZERO),
            started: started_tx.clone(),
            barrier: barrier.clone(),
            busy: barrier.0.subscribe(),
        };
        let stop = handle.stop_signal();
        let work = move || core.run::<Kind, H>();
        let thread = runtime::block_on_core(index, options.pinning, work, move || blocking_left(&stop));
        handle.add(thread.map_err(|error| give_up(&handle, error.into()))?);
    }
    drop(started_tx);
    wait_for_start(&started_rx, count).map_err(|error| give_up(&handle, error))?;
    announce(&handle, announcement, notifier.as_ref());
    Ok(handle)
}

/// All that a core needs on its thread.
struct CoreStart<F> {
    core: ServerCore,
    make: Arc<F>,
    bound: BoundCore,
    background: BackgroundTasks,
    /// The signal to stop, if this core awaits it.
    signal: Option<(Signal, ServerHandle)>,
    grace: Duration,
    stop: watch::Receiver<Option<Stop>>,
    /// A core that dies before it serves ends the others at once, since the server does not start then.
    stop_on_drop: StopOnDrop,
    /// The result of the start, for the launching thread.
    started: std_mpsc::Sender<Result>,
    barrier: Arc<CoreBarrier>,
    busy: watch::Receiver<()>,
}

impl<F> CoreStart<F> {
    /// Starts the core, and serves until no core has a connection left. An error of the start goes to the launching thread.
    async fn run<Kind, H>(self) -> io::Result<()>
    where
        F: AsyncFn(ServerCore) -> Result<H>,
        H: IntoHandler<Kind>,
    {
        let CoreStart { core, make, bound, background, signal, grace, stop, mut stop_on_drop, .. } = self;
        let signal_task = signal.map(|signal| runtime::spawn(stop_after_signal(signal, grace)));
        background.spawn(core.index, stop.clone());
        let mut stop_ordered = stop.clone();
        let cut = async {
            drop(stop_ordered.wait_for(Option::is_some).await);
            grace_elapsed(&mut stop_ordered).await;
            None
        };
        let opened = async { Some(open(&*make, core, bound, stop).await) };
        let opened = match runtime::select(cut, opened).await {
            Some(Ok(opened)) => Some(opened),
            // The launching thread returns the error, unless it has given up.
            Some(Err(error)) => return self.started.send(Err(error)).or(Ok(())),
            // Another core has failed, and this one may be waiting for it; or the signal has come, and the grace is
            // over for the peers that have connected.
            None => None,
        };
        if self.started.send(Ok(())).is_err() {
            return Ok(());
        }
        // Once all senders are gone, `recv` fails in the launching thread, even if a core died without a report.
        drop(self.started);
        if let Some((per_core, accept_loop)) = opened {
            stop_on_drop.grace = grace;
            let served = accept_loop.serve(per_core, stop_on_drop).await;
            self.barrier.wait(self.busy).await;
            served?;
        }
        match signal_task.filter(|signal_task| signal_task.is_finished()) {
            Some(signal_task) => signal_task.await?,
            // Another cause has stopped the server, and the signal may never come.
            None => Ok(()),
        }
    }
}

/// How long blocking work that handlers have begun may go on: to the end of the grace, and at least long enough for a last
/// write.
fn blocking_left(stop: &watch::Receiver<Option<Stop>>) -> Duration {
    let grace = stop.borrow().map(|stop| stop.cut_at.saturating_duration_since(runtime::now()));
    grace.unwrap_or_default().max(BLOCKING_LEFT_MIN)
}

const BLOCKING_LEFT_MIN: Duration = Duration::from_millis(100);

/// Announces that all cores listen, to the manager and then to the predecessor, which stops: the manager would take its
/// end for that of the service. A server that is stopped before it serves takes the place of no other.
fn announce(running: &ServerHandle, announcement: Option<Announcement>, notifier: Option<&Notifier>) {
    if running.is_stop_ordered() {
        return;
    }
    if let Some(notifier) = notifier {
        if announcement.as_ref().is_some_and(Announcement::has_predecessor) {
            notifier.replace_main_process();
        }
        notifier.ready();
    }
    if let Some(announcement) = announcement {
        announcement.make();
    }
}

/// Waits until so many cores have started. A core that ended without a report has panicked: its error has no cause, and
/// [`give_up`] finds a better one.
fn wait_for_start(cores: &std_mpsc::Receiver<Result>, count: usize) -> Result {
    let failed = |_| Err(Status::INTERNAL_SERVER_ERROR.into());
    (0..count).try_for_each(|_| cores.recv().unwrap_or_else(failed))
}

/// The tasks of a core beside its accept loop.
struct BackgroundTasks {
    handover: Option<Handover>,
    notifier: Option<Notifier>,
    running: ServerHandle,
    grace: Duration,
}

impl BackgroundTasks {
    fn spawn(self, index: usize, mut stop: watch::Receiver<Option<Stop>>) {
        let BackgroundTasks { handover, notifier, running, grace } = self;
        if let Some(notifier) = notifier {
            runtime::spawn(notifier.beat(index));
        }
        let Some(handover) = handover else { return };
        runtime::spawn(async move {
            // A stop ends the wait for a successor, since all sockets must be closed then.
            let stopped = async {
                drop(stop.wait_for(Option::is_some).await);
                Ok(())
            };
            // A server that can have no successor goes on.
            drop(runtime::select(stopped, handover.serve(running, grace)).await);
        });
    }
}

/// Holds each core until none of them has a connection left. A core that has some holds a receiver.
#[derive(Default)]
struct CoreBarrier(watch::Sender<()>);

impl CoreBarrier {
    /// Waits until no core has a connection left, as that of `busy` has none now. Handlers of another core may still need
    /// a task of this one, such as that of a database connection which was opened here.
    async fn wait(&self, busy: watch::Receiver<()>) {
        drop(busy);
        self.0.closed().await;
    }
}

/// The grace of a server that stops because one of its cores has failed, if none was set.
const FAILURE_GRACE: Duration = Duration::from_secs(10);

/// Stops the server when the signal comes, fails or panics.
async fn stop_after_signal((signal, handle): (Signal, ServerHandle), grace: Duration) -> io::Result<()> {
    let _stop_on_drop = handle.stop_on_drop(grace);
    let outcome = signal.await;
    handle.stop(grace);
    outcome
}

/// Stops the cores that have started, and returns the error that best explains why.
fn give_up(handle: &ServerHandle, error: Error) -> Error {
    handle.stop(Duration::ZERO);
    match handle.wait() {
        Err(of_core) if error.cause().is_none() => of_core,
        _ => error,
    }
}

/// The parts that one core starts with.
struct BoundCore {
    listeners: Vec<BoundListener>,
    handoffs: mpsc::UnboundedReceiver<Handoff>,
    /// As in [`AcceptLoop`].
    core_senders: Vec<CoreSender>,
    /// Holds each core until all of them have a handler.
    handlers_ready: Arc<Barrier>,
    start_limit: Option<StartLimit>,
    totals: Arc<ServerTotals>,
    counters: Arc<CoreCounterSet>,
    settings: ServerSettings,
}

/// A listener of one core that does not listen yet.
struct BoundListener {
    bound: BoundSocket,
    placement: Placement,
    acceptor: Option<TlsAcceptor>,
}

/// Binds all addresses, and spreads the listeners over the cores. Returns the addresses with the schemes of their URLs.
fn bind(
    options: &mut LaunchOptions,
    settings: &ServerSettings,
) -> Result<(Vec<BoundCore>, Vec<ListenedAddress>)> {
    if options.addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no address to listen on").into());
    }
    debug_assert!((1..=CORES_MAX).contains(&options.cores), "`Server::cores` clamps the count");
    let handlers_ready = Arc::new(Barrier::new(options.cores));
    let totals = Arc::<ServerTotals>::default();
    let mut cores = Vec::new();
    let mut senders = Vec::new();
    for _ in 0..options.cores {
        let (sender, handoffs) = mpsc::unbounded_channel();
        let counters = Arc::<CoreCounterSet>::default();
        let settings = settings.clone();
        senders.push(CoreSender::new(sender, counters.clone()));
        cores.push(BoundCore {
            listeners: Vec::new(),
            handoffs,
            core_senders: Vec::new(),
            handlers_ready: handlers_ready.clone(),
            start_limit: None,
            totals: totals.clone(),
            counters,
            settings,
        });
    }
    let LaunchOptions { listen, balanced, handover, addresses: configured, .. } = options;
    handover.iter_mut().try_for_each(Handover::receive)?;
    let mut addresses = Vec::new();
    for (address, own) in &*configured {
        let acceptor = own.as_ref().or(settings.acceptor.as_ref());
        acceptor.map_or(Ok(()), TlsAcceptor::check_dates)?;
        let scheme = if acceptor.is_some() { Scheme::Https } else { Scheme::Http };
        for sockets in bind_address(address, listen, handover.as_mut())? {
            let public = sockets.first().and_then(|first| public_address(address, first));
            addresses.extend(public.map(|address| (address, scheme)));
            let keep = |bound: &BoundSocket| {
                handover.iter_mut().try_for_each(|handover| handover.keep(address, bound))
            };
            spread(sockets, acceptor, *balanced, &mut cores, keep)?;
        }
    }
    handover.iter_mut().try_for_each(Handover::listen)?;
    for (index, core) in cores.iter_mut().enumerate() {
        let accepts_for_all = core.listeners.iter().any(|own| own.placement == Placement::LeastLoaded);
        // Of the cores with the fewest connections the first is chosen: this core, since to keep a connection costs
        // nothing.
        let (first, count) = match accepts_for_all {
            true => (index, senders.len()),
            false => (index + 1, NEXT_CORES.min(senders.len() - 1)),
        };
        core.core_senders = senders.iter().cycle().skip(first).take(count).cloned().collect();
        core.start_limit = handover.as_ref().map(Handover::start_limit);
    }
    Ok((cores, addresses))
}

/// Binds an address, or takes the sockets that were inherited for it. Returns those of each address of a name.
fn bind_address(
    address: &Address,
    options: &ListenOptions,
    handover: Option<&mut Handover>,
) -> io::Result<Vec<Vec<BoundSocket>>> {
    let inherited = handover.map_or(Ok(Vec::new()), |handover| handover.take(address, options))?;
    if inherited.is_empty() {
        return Ok(BoundSocket::bind(address, options)?.into_iter().map(|bound| vec![bound]).collect());
    }
    let mut by_address = BTreeMap::<_, Vec<_>>::new();
    for bound in inherited {
        by_address.entry(bound.local_addr()).or_default().push(bound);
    }
    Ok(by_address.into_values().collect())
}

/// The address as reported to the application. A listener in memory has none, and keeping one here would keep it open.
fn public_address(address: &Address, bound: &BoundSocket) -> Option<Address> {
    match address {
        Address::Memory(_) => None,
        #[cfg(unix)]
        Address::UnixListener(listener) => listener.local_addr().ok()?.as_pathname().map(Address::from),
        _ => Some(bound.local_addr().map_or_else(|| address.clone(), Address::Tcp)),
    }
}

/// Gives each core a listener of its own, or else gives the first core one that accepts for all. `sockets` are those of
/// one address: one, unless a predecessor had several.
fn spread(
    sockets: Vec<BoundSocket>,
    acceptor: Option<&TlsAcceptor>,
    balanced: bool,
    cores: &mut [BoundCore],
    mut keep: impl FnMut(&BoundSocket) -> io::Result<()>,
) -> io::Result<()> {
    let mut listener = |bound, placement| {
        keep(&bound)?;
        io::Result::Ok(BoundListener { bound, placement, acceptor: acceptor.cloned() })
    };
    let mut sockets = sockets.into_iter();
    let mut placement = Placement::Local;
    let Some(first) = sockets.next() else { return Ok(()) };
    for core in &mut cores[1..] {
        let own = match balanced {
            true => None,
            false => sockets.next().map_or_else(|| first.sibling(), |next| Ok(Some(next)))?,
        };
        match own {
            Some(own) => core.listeners.push(listener(own, Placement::Local)?),
            None => placement = Placement::LeastLoaded,
        }
    }
    cores[0].listeners.push(listener(first, placement)?);
    // A predecessor with more cores had more sockets, and connections wait in each of them.
    for (index, more) in sockets.enumerate() {
        cores[index % cores.len()].listeners.push(listener(more, placement)?);
    }
    Ok(())
}

/// Makes a core's handler, and opens its listeners in its runtime once all cores have a handler.
async fn open<F, Kind, H>(
    make: &F,
    core: ServerCore,
    bound: BoundCore,
    stop: watch::Receiver<Option<Stop>>,
) -> Result<(Rc<PerCore<H::Handler>>, AcceptLoop)>
where
    F: AsyncFn(ServerCore) -> Result<H>,
    H: IntoHandler<Kind>,
{
    let BoundCore {
        listeners,
        handoffs,
        core_senders,
        handlers_ready,
        start_limit,
        totals,
        counters,
        settings,
    } = bound;
    let handler = make(core).await?.into_handler();
    // On a shared port, a core that listens is given peers of the server that this one takes over from. They would be
    // lost if another core failed now.
    handlers_ready.wait().await;
    start_limit.iter().try_for_each(StartLimit::check)?;
    let listeners = listeners.into_iter().map(|BoundListener { bound, placement, acceptor }| {
        Ok(CoreListener { listener: Listener::open(bound)?, placement, acceptor })
    });
    let listeners = listeners.collect::<io::Result<Vec<_>>>()?;
    let limiter = ConnectionLimiter::new(totals, counters.clone(), &settings.bounds.limits);
    let per_core = PerCore::new(core.index, handler, &settings, ConnTable::with_sweep(), counters);
    Ok((Rc::new(per_core), AcceptLoop { listeners, handoffs, core_senders, limiter, stop }))
}

/// Identifies one of a server's cores, for the handler that [`Server::run_per_core`](crate::Server::run_per_core) makes
/// for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerCore {
    index: usize,
    count: usize,
}

impl ServerCore {
    /// Returns the index of the core, starting at 0.
    pub fn index(self) -> usize {
        self.index
    }

    /// Returns how many cores the server has.
    pub fn count(self) -> usize {
        self.count
    }
}
