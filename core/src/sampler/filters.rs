//! The stages between scores and the draw.
//!
//! Candidates stand sorted, best first. A stage marks what it removes and leaves at least one. Weights are exp of the
//! distance to the best score, so the best has weight 1 and nothing overflows; a stage works on weights divided by the
//! weight of its survivors.

use super::Cut;
use super::candidates::{Candidate, sort};
use super::config::{SamplerConfig, StageOrder};
use super::scores::Scores;
use libm::{exp, log};

/// What the survivors of the stages so far weigh together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mass {
    /// Sum of weights.
    total: f64,
    /// Sum of weight times log weight.
    log_total: f64,
}

impl Mass {
    const NONE: Self = Self { total: 0.0, log_total: 0.0 };

    fn add(&mut self, log_weight: f64, weight: f64) {
        self.total += weight;
        if weight > 0.0 {
            self.log_total += weight * log_weight;
        }
    }

    /// The mass of the candidates still in the running, best first.
    fn of(candidates: &[Candidate], best: f64, temperature: f64) -> Self {
        let mut mass = Self::NONE;
        for c in candidates.iter().filter(|c| c.alive()) {
            mass.add((c.score - best) / temperature, c.probability);
        }
        mass
    }
}

/// Runs every truncating stage. `candidates` is what top-k left (or the best 1,024), `scratch` as long again; `scores`
/// is given when top-k is off, so that the distribution is that of the whole vocabulary.
/// Returns the probability of what was lost because the candidates have only so many places.
pub(super) fn truncate(
    config: &SamplerConfig,
    candidates: &mut [Candidate],
    scratch: &mut [Candidate],
    scores: Option<&Scores<'_>>,
) -> f64 {
    let best = candidates.first().map_or(0.0, |c| c.score);
    let temperature = match config.order {
        StageOrder::TemperatureFirst => config.temperature,
        StageOrder::TemperatureLast => 1.0,
    };
    weigh(candidates, best, temperature);
    let listed = Mass::of(candidates, best, temperature);
    let mut mass = listed;
    if let Some(scores) = scores {
        mass = Mass::NONE;
        scores.each(|_, score| {
            let log_weight = (score - best) / temperature;
            mass.add(log_weight, exp(log_weight));
        });
    }
    let mut lost = 0.0;
    if mass.total > listed.total {
        lost = 1.0 - listed.total / mass.total;
    }

    if config.top_p < 1.0 {
        let limit = config.top_p * mass.total;
        let mut before = 0.0;
        cut_from(candidates, Cut::TopP, |c| {
            let crossed = before >= limit;
            before += c.probability;
            crossed
        });
    }
    if config.min_p > 0.0 {
        cut_from(candidates, Cut::MinP, |c| c.probability < config.min_p);
    }
    if candidates.iter().any(|c| c.cut() == Cut::TopP || c.cut() == Cut::MinP) {
        // What has no place would have been removed too.
        lost = 0.0;
        mass = Mass::of(candidates, best, temperature);
    }
    if config.typical_p < 1.0 {
        typical(candidates, scratch, mass, best, temperature, config.typical_p);
    }
    if config.order == StageOrder::TemperatureLast {
        weigh(candidates, best, config.temperature);
    }
    lost
}

/// Gives every candidate its weight.
fn weigh(candidates: &mut [Candidate], best: f64, temperature: f64) {
    for c in candidates.iter_mut() {
        c.probability = exp((c.score - best) / temperature);
    }
}

/// Removes the first candidate in the running for which `gone` holds, and all behind it; never the best.
fn cut_from(candidates: &mut [Candidate], stage: Cut, mut gone: impl FnMut(&Candidate) -> bool) {
    let mut cutting = false;
    for (rank, c) in candidates.iter_mut().enumerate().filter(|(_, c)| c.alive()) {
        cutting = cutting || gone(c) && rank > 0;
        if cutting {
            c.cut = stage as u32;
        }
    }
}

/// Locally typical sampling: keeps the candidates whose information is closest to the entropy, up to the one at which
/// `limit` of the mass is reached, with every other that is just as close.
fn typical(
    candidates: &mut [Candidate],
    scratch: &mut [Candidate],
    mass: Mass,
    best: f64,
    temperature: f64,
    limit: f64,
) {
    let log_total = log(mass.total);
    let entropy = log_total - mass.log_total / mass.total;
    // Distance of a candidate's information -log p from the entropy.
    let distance = |c: &Candidate| {
        let information = log_total - (c.score - best) / temperature;
        (information - entropy).abs()
    };
    let mut len = 0usize;
    for (rank, c) in (0u32..).zip(candidates.iter()).filter(|(_, c)| c.alive()) {
        if let Some(slot) = scratch.get_mut(len) {
            *slot = Candidate { probability: c.probability, ..Candidate::new(rank, -distance(c)) };
            len = len.saturating_add(1);
        }
    }
    let Some(nearest) = scratch.get_mut(..len) else { return };
    sort(nearest);
    let mut sum = 0.0;
    let crossing = nearest.iter().find(|c| {
        sum += c.probability;
        sum >= limit * mass.total
    });
    let Some(crossing) = crossing else { return };
    let radius = -crossing.score;
    for c in candidates.iter_mut().filter(|c| c.alive()) {
        if distance(c) > radius {
            c.cut = Cut::TypicalP as u32;
        }
    }
}

/// Turns the weights of the survivors into probabilities, and those of the others into 0. Returns how many survive.
pub(super) fn normalise(candidates: &mut [Candidate]) -> usize {
    let mut total = 0.0;
    let mut survivors = 0usize;
    for c in candidates.iter().filter(|c| c.alive()) {
        total += c.probability;
        survivors = survivors.saturating_add(1);
    }
    // Typical sampling may leave only candidates whose weight under the final temperature is 0.
    let even = total <= 0.0;
    for c in candidates.iter_mut() {
        c.probability = match (c.alive(), even) {
            (false, _) => 0.0,
            (true, false) => c.probability / total,
            (true, true) => 1.0 / survivors as f64,
        };
    }
    survivors
}

/// The first survivor whose upper bound exceeds `u`; rounding may leave the last with a positive probability.
pub(super) fn pick(candidates: &[Candidate], u: f64) -> Option<&Candidate> {
    let mut sum = 0.0;
    let mut last = None;
    for c in candidates.iter().filter(|c| c.probability > 0.0) {
        sum += c.probability;
        last = Some(c);
        if sum > u {
            break;
        }
    }
    last
}
