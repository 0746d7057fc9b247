//! [`LineWriter`]: lines that wait, and the thread that writes them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::buffers::LineBuffers;
use super::log::Log;
use super::target::{LineTarget, is_over_within, notice};

/// Lines and the thread that writes them. When this is dropped, the lines that wait are written, for at most 5 s.
pub(crate) struct LineWriter {
    log: Log,
    buffers: Arc<LineBuffers>,
    thread: Option<JoinHandle<()>>,
}

impl LineWriter {
    /// Starts the thread, which takes the target.
    ///
    /// # Errors
    ///
    /// Fails if there can be no further thread. The target then stays, for another try.
    pub(crate) fn start(log: Log, target: &mut Option<LineTarget>) -> io::Result<LineWriter> {
        let buffers = Arc::new(LineBuffers::new(log));
        let writing = buffers.clone();
        // A thread that cannot be made drops what it was given.
        let (sender, taken) = channel();
        let thread = thread::Builder::new().name(log.name().replace(' ', "-"));
        let thread = thread.spawn(move || taken.iter().for_each(|target| writing.write_to(target)))?;
        if let Some(target) = target.take() {
            let _ = sender.send(target);
        }
        Ok(LineWriter { log, buffers, thread: Some(thread) })
    }

    /// Has `write` append a line. If too many wait already, this one is dropped.
    pub(crate) fn push(&self, write: impl FnOnce(&mut Vec<u8>)) {
        self.buffers.push(write);
    }

    /// Has a file opened again before the next line is written.
    pub(crate) fn reopen(&self) {
        self.buffers.reopen_requested.store(true, Ordering::Release);
    }

    /// How many lines were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.buffers.dropped()
    }
}

impl Drop for LineWriter {
    fn drop(&mut self) {
        self.buffers.end_requested.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            if !is_over_within(&thread, END_WAIT_MAX) {
                notice(format!("the {} has not ended in time, and lines of it may be lost", self.log.name()));
            }
        }
    }
}

/// How long the drop of a log waits for its last lines to be written.
const END_WAIT_MAX: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_stalls_is_left_alone() {
        let (release, stalled) = channel::<()>();
        let thread = thread::spawn(move || stalled.recv().unwrap_or_default());
        assert!(!is_over_within(&thread, Duration::from_millis(2)));
        drop(release);
        assert!(is_over_within(&thread, Duration::MAX));
    }
}
