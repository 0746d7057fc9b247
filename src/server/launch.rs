//! Starts a server: binds first, then one thread for each core, and all of it or nothing.

use std::io;
use std::rc::Rc;
use std::sync::{Arc, mpsc as threads};
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::admission::{Gate, Tally};
use super::running::Running;
use super::shared::Settings;
use super::stats::CoreStats;
use super::worker::{Inlet, Outlet, Sharing, Stop, Worker};
use super::{Error, IntoHandler, Result, Server, Signal};
use crate::message::Status;
use crate::net::{Address, Bound, Detached, Listener, PeerAddr, Watch};
use crate::runtime;

/// One of a server's cores, as [`Server::run_per_core`] counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerCore {
    index: usize,
    count: usize,
}

impl ServerCore {
    /// Which one, from 0.
    pub fn index(self) -> usize {
        self.index
    }

    /// How many there are.
    pub fn count(self) -> usize {
        self.count
    }
}

/// Starts `server` with the handlers that `make` makes.
pub(super) fn launch<F, Kind, H>(server: Server, make: F) -> Result<Running>
where
    F: AsyncFn(ServerCore) -> Result<H> + Send + Sync + 'static,
    H: IntoHandler<Kind>,
{
    let (kits, addresses) = furnish(&server)?;
    let stats = kits.iter().map(|kit| kit.stats.clone()).collect();
    let running = Running::new(addresses, stats);
    let mut signal = server.on_stop.map(|(signal, grace)| (signal, grace, running.clone()));
    let (ready, readiness) = threads::channel();
    let (make, count) = (Arc::new(make), kits.len());
    for (index, kit) in kits.into_iter().enumerate() {
        let (make, ready, signal, stop) =
            (make.clone(), ready.clone(), signal.take(), running.told_to_stop());
        let core = ServerCore { index, count };
        let thread = runtime::block_on_core(index, server.pinning, move || async move {
            let told = match open(&*make, core, kit, stop).await {
                Ok(opened) => ready.send(Ok(())).map(|()| opened),
                // Whoever launches returns it.
                Err(error) => return ready.send(Err(error)).map_or(Ok(()), Ok),
            };
            // Only this lets the launch see that a core has died without a word.
            drop(ready);
            let Ok((worker, inlet)) = told else { return Ok(()) };
            if let Some((signal, grace, running)) = signal {
                runtime::spawn(stop_on(signal, grace, running));
            }
            inlet.serve(worker).await
        });
        match thread {
            Ok(thread) => running.add(thread),
            Err(error) => return Err(give_up(&running, error.into())),
        }
    }
    drop(ready);
    for _ in 0..count {
        match readiness.recv() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(give_up(&running, error)),
            Err(_) => return Err(give_up(&running, Status::INTERNAL_SERVER_ERROR.into())),
        }
    }
    Ok(running)
}

async fn stop_on(signal: Signal, grace: Duration, running: Running) {
    signal.await;
    running.shutdown(grace);
}

/// Stops the cores that have started. Why they must is told by whoever failed first.
fn give_up(running: &Running, error: Error) -> Error {
    running.shutdown(Duration::ZERO);
    match running.wait() {
        Err(of_core) if error.cause().is_none() => of_core,
        _ => error,
    }
}

/// What one core is given to start with.
struct Kit {
    doors: Vec<(Bound, Sharing)>,
    arrivals: mpsc::UnboundedReceiver<(Detached, PeerAddr)>,
    /// The ways to all cores, for the one that accepts for others.
    outlets: Vec<Outlet>,
    tally: Arc<Tally>,
    stats: Arc<CoreStats>,
    settings: Settings,
}

/// Binds all addresses, and spreads the listeners over the cores.
fn furnish(server: &Server) -> Result<(Vec<Kit>, Vec<Address>)> {
    let tally = Arc::<Tally>::default();
    let (mut kits, mut ways) = (Vec::new(), Vec::new());
    for _ in 0..server.cores {
        let (way, arrivals) = mpsc::unbounded_channel();
        let (stats, settings) = (Arc::<CoreStats>::default(), server.settings.clone());
        ways.push((way, stats.clone()));
        kits.push(Kit {
            doors: Vec::new(),
            arrivals,
            outlets: Vec::new(),
            tally: tally.clone(),
            stats,
            settings,
        });
    }
    let mut addresses = Vec::new();
    for address in &server.addresses {
        for bound in Bound::bind(address, server.listen)? {
            addresses.extend(told(address, &bound));
            spread(bound, server.balanced, &mut kits)?;
        }
    }
    kits[0].outlets = ways.into_iter().map(|(way, stats)| Outlet::new(way, stats)).collect();
    Ok((kits, addresses))
}

/// The address as others are told it. A listener in memory has none, and to keep it would keep it open.
fn told(address: &Address, bound: &Bound) -> Option<Address> {
    match address {
        Address::Memory(_) => None,
        _ => Some(bound.local_addr().map_or_else(|| address.clone(), Address::Tcp)),
    }
}

/// Gives each core a listener of its own, or the first core the one for all.
fn spread(bound: Bound, balanced: bool, kits: &mut [Kit]) -> io::Result<()> {
    let mut sharing = Sharing::Own;
    for kit in &mut kits[1..] {
        match if balanced { None } else { bound.sibling()? } {
            Some(sibling) => kit.doors.push((sibling, Sharing::Own)),
            None => sharing = Sharing::ForAll,
        }
    }
    kits[0].doors.push((bound, sharing));
    Ok(())
}

/// Makes a core's handler, and opens its listeners in its runtime.
async fn open<F, Kind, H>(
    make: &F,
    core: ServerCore,
    kit: Kit,
    stop: watch::Receiver<Option<Stop>>,
) -> Result<(Rc<Worker<H::Handler>>, Inlet)>
where
    F: AsyncFn(ServerCore) -> Result<H>,
    H: IntoHandler<Kind>,
{
    let Kit { doors, arrivals, outlets, tally, stats, settings } = kit;
    let handler = make(core).await?.into_handler();
    let listeners = doors.into_iter().map(|(bound, sharing)| Ok((Listener::open(bound)?, sharing)));
    let listeners = listeners.collect::<io::Result<Vec<_>>>()?;
    let gate = Gate::new(tally, stats.clone(), &settings.bounds.limits);
    let worker = Worker::new(handler, &settings, Watch::swept(), stats);
    Ok((Rc::new(worker), Inlet { listeners, arrivals, outlets, gate, stop }))
}
