//! The best candidates of a vocabulary, exactly and in linear time.
//!
//! Scores come in ascending order of id. The pool takes every score above the *floor*; when it is full it is pruned to
//! the `keep` best, and the worst of them becomes the new floor. A prune costs a few passes over the pool and happens
//! at most once per `keep` accepted scores, so the whole is O(vocabulary). Pruning is stable: the pool stays in
//! ascending order of id, and among equal scores the lower ids stay.

use super::Cut;
use super::scores::Scores;
use bytemuck::{Pod, Zeroable};

/// One token in the running.
#[derive(Clone, Copy, PartialEq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Candidate {
    /// Score after bias and penalties, before temperature.
    pub score: f64,
    /// While filtering, exp of the distance to the best; afterwards the probability, 0 for a cut candidate.
    pub probability: f64,
    /// The token.
    pub id: u32,
    /// [`Cut`] as a number.
    pub(super) cut: u32,
}

static_assertions::const_assert_eq!(size_of::<Candidate>(), 24);

impl Candidate {
    /// A candidate that nothing has removed yet. Turns -0 into +0, so that equal scores have equal bits.
    pub(super) fn new(id: u32, score: f64) -> Self {
        Self { score: score + 0.0, probability: 0.0, id, cut: Cut::None as u32 }
    }

    /// Whether it is still in the running.
    pub(super) fn alive(&self) -> bool {
        self.cut == Cut::None as u32
    }

    /// The stage that removed it.
    pub fn cut(&self) -> Cut {
        match self.cut {
            1 => Cut::TopK,
            2 => Cut::TopP,
            3 => Cut::MinP,
            4 => Cut::TypicalP,
            _ => Cut::None,
        }
    }
}

/// Unsigned key in the order of the score. Scores are finite and never -0.
fn key(score: f64) -> u64 {
    let bits = score.to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// The best of a vocabulary, sorted at the front of the pool.
pub(super) struct Selected {
    /// How many.
    pub len: usize,
    /// Best score that was turned away.
    pub refused: f64,
}

/// Selects the `keep` best. The pool must hold twice as many.
#[inline(never)]
pub(super) fn select(pool: &mut [Candidate], scores: &Scores<'_>, keep: usize) -> Selected {
    // A small selection still takes 256 more before it prunes, or rising scores would prune at every step.
    let full = keep.saturating_add(keep.max(256)).min(pool.len());
    let mut selection = Selection { pool, len: 0, keep, full, floor: f64::NEG_INFINITY, refused: f64::NEG_INFINITY };
    selection.raise_floor(scores);
    selection.offer(scores);
    selection.prune();
    let Selection { pool, len, refused, .. } = selection;
    sort(pool, len);
    Selected { len, refused }
}

/// A selection in progress over a pool of the caller.
struct Selection<'p> {
    pool: &'p mut [Candidate],
    len: usize,
    keep: usize,
    full: usize,
    floor: f64,
    /// Best score that was turned away.
    refused: f64,
}

impl Selection<'_> {
    /// Offers every token, ids ascending.
    fn offer(&mut self, scores: &Scores<'_>) {
        for from in scores.starts() {
            let best = scores.best(from);
            if best <= self.floor {
                self.refuse(best);
                continue;
            }
            for (id, score) in scores.run(from).each() {
                if score > self.floor && self.len >= self.full {
                    self.prune();
                }
                if score > self.floor {
                    self.push(id, score);
                } else {
                    self.refuse(score);
                }
            }
        }
    }

    /// Of many runs, each has its best; the `keep`-th of these bests is not above the `keep`-th of all scores.
    fn raise_floor(&mut self, scores: &Scores<'_>) {
        let runs = scores.starts().count();
        let per_place = runs.div_ceil(self.pool.len().max(1)).max(1);
        if runs.div_ceil(per_place) <= self.keep {
            return;
        }
        let mut left = 0usize;
        for from in scores.starts() {
            if left == 0 {
                self.push(0, f64::NEG_INFINITY);
                left = per_place;
            }
            left = left.wrapping_sub(1);
            let best = scores.best(from);
            if let Some(place) = self.pool.get_mut(self.len.wrapping_sub(1)).filter(|place| best > place.score) {
                *place = Candidate::new(0, best);
            }
        }
        self.prune();
        // A score as good as the floor has to come in.
        self.floor = self.floor.next_down();
        self.refused = f64::NEG_INFINITY;
        self.len = 0;
    }

    fn refuse(&mut self, score: f64) {
        if score > self.refused {
            self.refused = score;
        }
    }

    fn push(&mut self, id: u32, score: f64) {
        if let Some(slot) = self.pool.get_mut(self.len) {
            *slot = Candidate::new(id, score);
            self.len = self.len.wrapping_add(1);
        }
    }

    /// Keeps the best, in the order they came in.
    #[cfg_attr(target_arch = "wasm32", inline(never))]
    fn prune(&mut self) {
        if self.len <= self.keep {
            return;
        }
        let Some(pool) = self.pool.get(..self.len) else { return };
        // Radix selection from the top byte: `prefix` is what the wanted key begins with, `wanted` its rank among the
        // keys that begin so.
        let (mut prefix, mut mask, mut wanted) = (0u64, 0u64, self.keep);
        for byte in (0..8u32).rev() {
            let shift = byte * 8;
            let mut counts = [0usize; 256];
            for c in pool {
                let k = key(c.score);
                if k & mask == prefix
                    && let Some(n) = counts.get_mut((k >> shift & 255) as usize)
                {
                    *n = n.wrapping_add(1);
                }
            }
            let mut here = 0;
            for (byte, &n) in counts.iter().enumerate().rev() {
                here = n;
                if wanted <= n {
                    prefix |= (byte as u64) << shift;
                    break;
                }
                wanted = wanted.wrapping_sub(n);
            }
            mask |= 255 << shift;
            if here == wanted {
                break;
            }
        }
        self.floor = f64::INFINITY;
        let mut kept = 0usize;
        for at in 0..self.len {
            let Some(&c) = self.pool.get(at) else { break };
            let k = key(c.score) & mask;
            if k < prefix || (k == prefix && wanted == 0) {
                self.refuse(c.score);
                continue;
            }
            if k == prefix {
                wanted = wanted.wrapping_sub(1);
            }
            if c.score < self.floor {
                self.floor = c.score;
            }
            if let Some(slot) = self.pool.get_mut(kept) {
                *slot = c;
            }
            kept = kept.wrapping_add(1);
        }
        self.len = kept;
    }
}

/// Sorts the first `len` of the pool by score, best first, and keeps the order of equals: by the bytes of the key, from
/// the lowest, from one half of the pool to the other and back. O(n) whatever the scores.
fn sort(pool: &mut [Candidate], len: usize) {
    let half = pool.len() / 2;
    let (mut from, mut to) = (0usize, half);
    for byte in 0..8u32 {
        let digit = |c: &Candidate| (!key(c.score) >> (byte * 8) & 255) as usize;
        let mut places = [0usize; 256];
        let unsorted = pool.get(from..from.wrapping_add(len)).unwrap_or(&[]);
        for c in unsorted {
            if let Some(count) = places.get_mut(digit(c)) {
                *count = count.wrapping_add(1);
            }
        }
        // Scores made of f32 have the same low bytes throughout.
        if unsorted.first().is_none_or(|c| places.get(digit(c)) == Some(&len)) {
            continue;
        }
        let mut next = to;
        for place in places.iter_mut() {
            next = next.wrapping_add(core::mem::replace(place, next));
        }
        for at in from..from.wrapping_add(len) {
            let Some(&c) = pool.get(at) else { break };
            if let Some(place) = places.get_mut(digit(&c)) {
                if let Some(slot) = pool.get_mut(*place) {
                    *slot = c;
                }
                *place = place.wrapping_add(1);
            }
        }
        core::mem::swap(&mut from, &mut to);
    }
    if from != 0
        && let Some((front, sorted)) = pool.split_at_mut_checked(half)
    {
        front.iter_mut().zip(sorted).take(len).for_each(|(to, from)| *to = *from);
    }
}

#[cfg(test)]
mod tests {
    use super::super::SamplerConfig;
    use super::*;
    use std::vec::Vec;

    fn check(scores: &[f64], keep: usize) {
        let mut pool = std::vec![Candidate::zeroed(); 2048];
        let logits: Vec<f32> = scores.iter().map(|&score| score as f32).collect();
        let scores: Vec<f64> = logits.iter().map(|&logit| f64::from(logit)).collect();
        let config = SamplerConfig::GREEDY;
        let marks = std::vec![0; logits.len()];
        let offered = Scores {
            logits: &logits,
            marks: &marks,
            bias: &[],
            allowed: None,
            banning: 0,
            adjusting: 0,
            config: &config,
        };
        let Selected { len, refused } = select(&mut pool, &offered, keep);
        let got: Vec<(u32, f64)> = pool[..len].iter().map(|c| (c.id, c.score)).collect();
        let mut all: Vec<(u32, f64)> = scores.iter().enumerate().map(|(i, &s)| (i as u32, s)).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let rest = all.split_off(keep.min(all.len()));
        assert_eq!(got, all);
        assert_eq!(refused, rest.first().map_or(f64::NEG_INFINITY, |r| r.1));
    }

    #[test]
    fn selection_equals_a_full_sort() {
        let mut state = 9u64;
        let mut next = |levels: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) % levels) as f64 / 3.0 - levels as f64 / 6.0
        };
        for keep in [1, 2, 40, 255, 1023, 1024] {
            for len in [0, 1, 7, 300, 1024, 1025, 5000] {
                for levels in [1, 2, 17, 1 << 30] {
                    let scores: Vec<f64> = (0..len).map(|_| next(levels) + 0.0).collect();
                    check(&scores, keep);
                }
                let rising: Vec<f64> = (0..len).map(f64::from).collect();
                check(&rising, keep);
                let falling: Vec<f64> = (0..len).map(|i| -f64::from(i) + 0.0).collect();
                check(&falling, keep);
            }
        }
    }
}
