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

/// A selection in progress over a pool of the caller.
pub(super) struct Selection<'p> {
    pool: &'p mut [Candidate],
    len: usize,
    keep: usize,
    full: usize,
    floor: f64,
    /// Best score that was turned away.
    refused: f64,
}

impl<'p> Selection<'p> {
    /// Selects the `keep` best. The pool must hold twice as many.
    pub(super) fn new(pool: &'p mut [Candidate], keep: usize) -> Self {
        // A small selection still takes 256 more before it prunes, or rising scores would prune at every step.
        let full = keep.saturating_add(keep.max(256)).min(pool.len());
        Self { pool, len: 0, keep, full, floor: f64::NEG_INFINITY, refused: f64::NEG_INFINITY }
    }

    /// Offers every token, ids ascending.
    pub(super) fn offer(&mut self, scores: &Scores<'_>) {
        self.raise_floor(scores);
        for from in scores.starts() {
            let best = scores.best(from);
            if best <= self.floor {
                self.refuse(best);
                continue;
            }
            for (id, score) in scores.run(from).each() {
                if score > self.floor {
                    self.take(id, score);
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
        let places = runs.div_ceil(per_place);
        if places <= self.keep {
            return;
        }
        for (at, from) in scores.starts().enumerate() {
            let best = scores.best(from);
            if let Some(place) = self.pool.get_mut(at / per_place) {
                let first = at % per_place == 0;
                *place = Candidate::new(0, if first { best } else { best.max(place.score) });
            }
        }
        self.len = places;
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

    fn take(&mut self, id: u32, score: f64) {
        if self.len >= self.full {
            self.prune();
            if score <= self.floor {
                self.refuse(score);
                return;
            }
        }
        if let Some(slot) = self.pool.get_mut(self.len) {
            *slot = Candidate::new(id, score);
            self.len = self.len.saturating_add(1);
        }
    }

    /// Keeps the best, in the order they came in.
    fn prune(&mut self) {
        if self.len <= self.keep {
            return;
        }
        let Some(pool) = self.pool.get_mut(..self.len) else { return };
        // Radix selection from the top byte: `prefix` is what the wanted key begins with, `wanted` its rank among the
        // keys that begin so.
        let (mut prefix, mut mask, mut wanted) = (0u64, 0u64, self.keep);
        for shift in [56u32, 48, 40, 32, 24, 16, 8, 0] {
            let mut counts = [0usize; 256];
            for c in pool.iter() {
                let k = key(c.score);
                if k & mask == prefix
                    && let Some(n) = counts.get_mut((k >> shift & 255) as usize)
                {
                    *n = n.saturating_add(1);
                }
            }
            let mut here = 0;
            for (byte, &n) in counts.iter().enumerate().rev() {
                here = n;
                if wanted <= n {
                    prefix |= (byte as u64) << shift;
                    break;
                }
                wanted = wanted.saturating_sub(n);
            }
            mask |= 255 << shift;
            if here == wanted {
                break;
            }
        }
        self.floor = f64::INFINITY;
        let mut kept = 0usize;
        for at in 0..pool.len() {
            let Some(&c) = pool.get(at) else { break };
            let k = key(c.score) & mask;
            let stays = k > prefix || (k == prefix && wanted > 0);
            if !stays {
                self.refused = self.refused.max(c.score);
                continue;
            }
            if k == prefix {
                wanted = wanted.saturating_sub(1);
            }
            self.floor = self.floor.min(c.score);
            if let Some(slot) = pool.get_mut(kept) {
                *slot = c;
            }
            kept = kept.saturating_add(1);
        }
        self.len = kept;
    }

    /// The number selected, now sorted at the front of the pool, and the best score that was turned away.
    pub(super) fn finish(mut self) -> (usize, f64) {
        self.prune();
        if let Some((best, other)) = self.pool.split_at_mut_checked(self.pool.len() / 2)
            && let (Some(best), Some(other)) = (best.get_mut(..self.len), other.get_mut(..self.len))
        {
            sort(best, other);
        }
        (self.len, self.refused)
    }
}

/// Sorts by score, best first, and keeps the order of equals: by the bytes of the key, from the lowest. `other` is room
/// of the same length. O(n) whatever the scores.
fn sort(candidates: &mut [Candidate], other: &mut [Candidate]) {
    let (mut from, mut to) = (candidates, other);
    let mut moved = false;
    for shift in [0u32, 8, 16, 24, 32, 40, 48, 56] {
        let digit = |c: &Candidate| (!key(c.score) >> shift & 255) as usize;
        let mut places = [0usize; 256];
        for c in from.iter() {
            if let Some(count) = places.get_mut(digit(c)) {
                *count = count.saturating_add(1);
            }
        }
        // Scores made of f32 have the same low bytes throughout.
        if places.contains(&from.len()) {
            continue;
        }
        let mut next = 0usize;
        for place in places.iter_mut() {
            next = next.saturating_add(core::mem::replace(place, next));
        }
        for c in from.iter() {
            if let Some(place) = places.get_mut(digit(c)) {
                if let Some(slot) = to.get_mut(*place) {
                    *slot = *c;
                }
                *place = place.saturating_add(1);
            }
        }
        core::mem::swap(&mut from, &mut to);
        moved = !moved;
    }
    if moved {
        for (slot, c) in to.iter_mut().zip(from.iter()) {
            *slot = *c;
        }
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
        let mut selection = Selection::new(&mut pool, keep);
        selection.offer(&offered);
        let (len, refused) = selection.finish();
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
