//! [`Results`]: what a run came to.

use serde::Serialize;

use super::Measured;
use crate::machine::Machine;
use crate::options::Pace;

#[derive(Serialize)]
pub(crate) struct Results {
    /// Rounds were too short to rank anybody.
    pub(crate) is_quick: bool,
    /// Each side had a core of its own.
    pub(crate) is_pinned: bool,
    /// How many workloads are asked for; some of them may not have had their turn.
    pub(crate) workloads: usize,
    pub(crate) pace: Pace,
    pub(crate) machine: Machine,
    /// Who could not be measured, and why.
    pub(crate) skipped: Vec<(&'static str, String)>,
    pub(crate) server: Vec<Measured>,
    pub(crate) client: Vec<Measured>,
    pub(crate) applications: Vec<Measured>,
}

impl Results {
    /// All workloads that have had their turn.
    pub(crate) fn measured(&self) -> impl Iterator<Item = &Measured> + Clone {
        self.server.iter().chain(&self.client).chain(&self.applications)
    }
}
