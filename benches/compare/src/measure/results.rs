//! [`Results`]: what a run came to.

use serde::Serialize;

use super::Measured;
use crate::machine::Machine;
use crate::options::Pace;

#[derive(Serialize)]
pub(crate) struct Results {
    /// Rounds were too short to rank anybody.
    pub(crate) is_quick: bool,
    /// How many workloads are asked for; some of them may not have had their turn.
    pub(crate) workloads: usize,
    pub(crate) pace: Pace,
    pub(crate) machine: Machine,
    /// Who could not be measured, and why.
    pub(crate) skipped: Vec<(&'static str, String)>,
    pub(crate) server: Vec<Measured>,
    pub(crate) client: Vec<Measured>,
}

impl Results {
    /// Those of a run that begins now.
    pub(crate) fn new(
        is_quick: bool,
        workloads: usize,
        pace: Pace,
        machine: Machine,
        skipped: Vec<(&'static str, String)>,
    ) -> Results {
        Results { is_quick, workloads, pace, machine, skipped, server: Vec::new(), client: Vec::new() }
    }

    /// All workloads that have had their turn.
    pub(crate) fn measured(&self) -> impl Iterator<Item = &Measured> {
        self.server.iter().chain(&self.client)
    }
}
