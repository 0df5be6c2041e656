//! The two generators of uniform draws. Both are integer machines with published vectors.

use super::config::{PrngKind, SamplerConfig};

/// One block of Philox-4x32 with ten rounds (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2,
/// 3", SC11): four words from a counter and a key.
pub fn philox4x32_10(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let [mut c0, mut c1, mut c2, mut c3] = counter;
    let [mut k0, mut k1] = key;
    for _ in 0..10 {
        let p0 = u64::from(c0).wrapping_mul(0xD251_1F53);
        let p1 = u64::from(c2).wrapping_mul(0xCD9E_8D57);
        (c0, c1, c2, c3) = ((p1 >> 32) as u32 ^ c1 ^ k0, p1 as u32, (p0 >> 32) as u32 ^ c3 ^ k1, p0 as u32);
        k0 = k0.wrapping_add(0x9E37_79B9);
        k1 = k1.wrapping_add(0xBB67_AE85);
    }
    [c0, c1, c2, c3]
}

/// PCG32, the XSH-RR 64/32 member of O'Neill's family with a selectable sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pcg32 {
    state: u64,
    increment: u64,
}

impl Pcg32 {
    /// The generator after the reference's seeding with `state` and `sequence`; the top bit of `sequence` is lost.
    pub fn new(state: u64, sequence: u64) -> Self {
        let mut pcg = Self { state: 0, increment: (sequence << 1) | 1 };
        pcg.next();
        pcg.state = pcg.state.wrapping_add(state);
        pcg.next();
        pcg
    }

    /// The next 32 bits.
    #[expect(clippy::should_implement_trait, reason = "an endless sequence, no iterator")]
    pub fn next(&mut self) -> u32 {
        let old = self.state;
        self.state = old.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(self.increment);
        let shifted = (((old >> 18) ^ old) >> 27) as u32;
        shifted.rotate_right((old >> 59) as u32)
    }
}

/// The draws of one turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draws {
    kind: PrngKind,
    seed: u64,
    stream: u32,
    turn: u32,
    step: u32,
    pcg: Pcg32,
}

impl Draws {
    /// The sequence of `turn` under the profile's seed and stream.
    #[cfg_attr(target_arch = "wasm32", inline(never))]
    pub(super) fn new(config: &SamplerConfig, turn: u32) -> Self {
        let sequence = u64::from(turn) << 32 | u64::from(config.stream);
        Self {
            kind: config.prng,
            seed: config.seed,
            stream: config.stream,
            turn,
            step: 0,
            pcg: Pcg32::new(config.seed, sequence),
        }
    }

    /// The draw of the next step. Philox counts the steps; its draw index within a step is always 0.
    pub(super) fn next(&mut self) -> u32 {
        let step = self.step;
        self.step = step.wrapping_add(1);
        match self.kind {
            PrngKind::Pcg32 => self.pcg.next(),
            PrngKind::Philox => {
                let key = [self.seed as u32, (self.seed >> 32) as u32];
                let [word, ..] = philox4x32_10([0, step, self.turn, self.stream], key);
                word
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `tests/kat_vectors` of Random123, lines `philox4x32 10`.
    #[test]
    fn philox_known_answers() {
        let ones = u32::MAX;
        let vectors = [
            ([0; 4], [0; 2], [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]),
            ([ones; 4], [ones; 2], [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]),
            (
                [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
                [0xa4093822, 0x299f31d0],
                [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
            ),
        ];
        for (counter, key, out) in vectors {
            assert_eq!(philox4x32_10(counter, key), out);
        }
    }

    /// Round 1 of the reference's `pcg32-demo` (state 42, sequence 54).
    #[test]
    fn pcg32_known_answers() {
        let mut pcg = Pcg32::new(42, 54);
        let expected = [0xa15c02b7, 0x7b47f409, 0xba1d3330, 0x83d2f293, 0xbfa4784b, 0xcbed606e];
        for word in expected {
            assert_eq!(pcg.next(), word);
        }
    }
}
