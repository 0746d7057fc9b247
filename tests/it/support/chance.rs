//! [`Chance`]: random but repeatable choices, and the histories that they make.

use std::env;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Choices that one seed determines.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Whether something happens that happens once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of these.
    pub fn one_of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// At most `most` of what `draw` draws, mostly few.
    pub fn some<T>(&mut self, most: usize, mut draw: impl FnMut(&mut Chance) -> T) -> Vec<T> {
        let most = self.below(most + 1);
        (0..self.below(most + 1)).map(|_| draw(self)).collect()
    }

    /// SplitMix64: any seed will do, even the one after the last.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// Plays histories of up to `steps` steps, a seed each. `usual` is how many, unless COREHTTP_HISTORIES says otherwise;
/// COREHTTP_SEED is the first seed, and otherwise the same in each run.
///
/// # Panics
///
/// If `play` does. Says which seed it was, and the shortest history that still fails.
#[track_caller]
pub fn check_histories<Step: Clone + Debug>(
    test: &str,
    (usual, steps): (u64, usize),
    draw: impl Fn(&mut Chance) -> Step,
    play: impl Fn(&[Step]),
) {
    let number = |name| env::var(name).ok().map(|text| text.parse::<u64>().expect("it is a number"));
    let first = number("COREHTTP_SEED").unwrap_or(1);
    let count = number("COREHTTP_HISTORIES").unwrap_or(usual);
    for seed in (0..count).map(|more| first.wrapping_add(more)) {
        let mut chance = Chance::new(seed);
        let mut history: Vec<Step> = (0..=chance.below(steps)).map(|_| draw(&mut chance)).collect();
        let Some(mut fault) = fault(&play, &history) else { continue };
        shorten(&play, &mut history, &mut fault);
        panic!(
            "{fault}\n\nthe shortest history that fails like this:\n{history:#?}\n\nonce more:\n\
             COREHTTP_SEED={seed} COREHTTP_HISTORIES=1 cargo test --all-features --test {test}\n"
        );
    }
}

/// Drops steps for as long as what is left still fails.
fn shorten<Step: Clone>(play: &impl Fn(&[Step]), history: &mut Vec<Step>, fault: &mut String) {
    let mut at = 0;
    while at < history.len() {
        let mut shorter = history.clone();
        shorter.remove(at);
        match self::fault(play, &shorter) {
            // The steps before it may have been needed for this one only.
            Some(other) => (*history, *fault, at) = (shorter, other, 0),
            None => at += 1,
        }
    }
}

/// Returns the fault of a history, if playing it panics.
fn fault<Step>(play: &impl Fn(&[Step]), history: &[Step]) -> Option<String> {
    let panicked = catch_unwind(AssertUnwindSafe(|| play(history))).err()?;
    let said = panicked.downcast_ref::<String>().cloned();
    said.or_else(|| panicked.downcast_ref::<&str>().map(|said| said.to_string())).or(Some(String::new()))
}
