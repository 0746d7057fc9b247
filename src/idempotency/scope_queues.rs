//! [`ScopeQueues`]: the outcomes of each client, the oldest first, and the client that takes the most room.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// Outcomes by the scope of their client, each under its number: the higher, the younger.
#[derive(Default)]
pub(super) struct ScopeQueues {
    by_scope: HashMap<Arc<str>, ScopeQueue>,
    /// The scopes by size. The last one is the largest, and of equal ones that with the oldest outcome.
    by_size: BTreeSet<(usize, Reverse<u64>, Arc<str>)>,
}

/// The outcomes of one scope, the oldest first. Never empty.
#[derive(Default)]
struct ScopeQueue {
    outcomes: VecDeque<Queued>,
    size: usize,
}

struct Queued {
    number: u64,
    size: usize,
}

impl ScopeQueues {
    /// Adds an outcome, which is younger than all of its scope.
    pub(super) fn push(&mut self, scope: &str, number: u64, size: usize) {
        self.change(scope, |queue| {
            queue.outcomes.push_back(Queued { number, size });
            queue.size += size;
        });
    }

    /// Removes the oldest outcome of a scope.
    pub(super) fn pop(&mut self, scope: &str) {
        self.change(scope, |queue| queue.size -= queue.outcomes.pop_front().map_or(0, |oldest| oldest.size));
    }

    /// The number of the oldest outcome of the scope that takes the most room.
    pub(super) fn oldest_of_largest(&self) -> Option<u64> {
        self.by_size.last().map(|(_, Reverse(number), _)| *number)
    }

    /// Changes a queue, and its place among the others.
    fn change(&mut self, scope: &str, change: impl FnOnce(&mut ScopeQueue)) {
        let (scope, mut queue) =
            self.by_scope.remove_entry(scope).unwrap_or_else(|| (scope.into(), ScopeQueue::default()));
        if let Some(oldest) = queue.outcomes.front() {
            self.by_size.remove(&(queue.size, Reverse(oldest.number), scope.clone()));
        }
        change(&mut queue);
        if let Some(oldest) = queue.outcomes.front() {
            self.by_size.insert((queue.size, Reverse(oldest.number), scope.clone()));
            self.by_scope.insert(scope, queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_scope_is_first_and_the_oldest_of_equal_ones() {
        let mut queues = ScopeQueues::default();
        for (number, scope, size) in [(1, "a", 5), (2, "b", 1), (3, "b", 4), (4, "c", 3)] {
            queues.push(scope, number, size);
        }
        let mut order = Vec::new();
        while let Some(number) = queues.oldest_of_largest() {
            order.push(number);
            queues.pop(["", "a", "b", "b", "c"][number as usize]);
        }
        assert_eq!(order, [1, 2, 3, 4], "5 and 5, then 5 and 3, then 4 and 3");
        assert!(queues.by_scope.is_empty() && queues.by_size.is_empty(), "an empty scope is forgotten");
    }
}
