//! [`Settings`]: what the first two octets of an input decide.

/// The first octet: a bit for each thing that may be otherwise. The second: where the rest is cut.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub flags: u8,
    seed: u8,
}

impl Settings {
    /// The settings, and the rest of the input; `None` if it is too short.
    pub fn split(data: &[u8]) -> Option<(Settings, &[u8])> {
        let (&[flags, seed], rest) = data.split_first_chunk()?;
        // A longer one finds nothing that a shorter one does not, and takes its time.
        (rest.len() <= LEN_MAX).then_some((Settings { flags, seed }, rest))
    }

    /// Whether the bit of that number is set.
    pub fn flag(self, number: u8) -> bool {
        self.flags >> number & 1 == 1
    }

    /// `wire` in packets: at most seven, or octets, or all of it.
    pub fn cut(self, wire: &[u8]) -> Vec<Vec<u8>> {
        if wire.is_empty() {
            return Vec::new();
        }
        if self.seed == 0 {
            return wire.iter().map(|octet| vec![*octet]).collect();
        }
        let mut state = u64::from(self.seed);
        let mut cuts: Vec<usize> = (0..1 + self.seed % 7).map(|_| draw(&mut state) % wire.len()).collect();
        cuts.extend([0, wire.len()]);
        cuts.sort_unstable();
        cuts.dedup();
        cuts.windows(2).map(|ends| wire[ends[0]..ends[1]].to_vec()).collect()
    }
}

const LEN_MAX: usize = 8 << 10;

/// A number that the numbers before it determine (SplitMix64).
pub fn draw(state: &mut u64) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ mixed >> 31) as usize
}
