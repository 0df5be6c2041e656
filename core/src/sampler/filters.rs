//! The stages between scores and the draw.
//!
//! Candidates stand sorted, best first. A stage marks what it removes and leaves at least one. Weights are exp of the
//! distance to the best score, so the best has weight 1 and nothing overflows; a stage works on weights divided by the
//! weight of its survivors.

use super::candidates::Candidate;
use super::config::{SamplerConfig, StageOrder};
use super::exp::{LEAST, exp};
use super::scores::{RUN, Scores};
use super::{Choice, Cut};
use crate::kernels::{Isa, Lanes, Op, Task};
use crate::ops;
use libm::log;

/// The logarithm of a score's weight.
fn log_weight(score: f64, best: f64, temperature: f64) -> f64 {
    let x = (score - best) / temperature;
    if x > LEAST { x } else { LEAST }
}

/// What the survivors of the stages so far weigh together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mass {
    /// Sum of weights.
    pub total: f64,
    /// Sum of weight times log weight.
    log_total: f64,
}

impl Mass {
    pub(super) const NONE: Self = Self { total: 0.0, log_total: 0.0 };

    fn add(&mut self, log_weight: f64, weight: f64) {
        self.total += weight;
        self.log_total += weight * log_weight;
    }

    /// The mass of these candidates, best first.
    fn of(candidates: &[Candidate], best: f64, temperature: f64) -> Self {
        let mut mass = Self::NONE;
        for c in candidates {
            mass.add(log_weight(c.score, best, temperature), c.probability);
        }
        mass
    }
}

/// The mass of the tokens that may be chosen and are not listed: f32, 32 tokens at a time in the lanes of the numeric
/// law, and their sums in f64. `last` is the hindmost that is listed, if any is.
pub(super) struct Rest<'s> {
    pub scores: &'s Scores<'s>,
    pub best: f64,
    pub temperature: f64,
    pub last: Option<Candidate>,
}

impl Rest<'_> {
    /// The two sums.
    #[inline(never)]
    pub(super) fn mass(self, isa: Isa) -> Mass {
        isa.run(self)
    }
}

impl Task for Rest<'_> {
    type Out = Mass;

    #[inline(always)]
    fn run<V: Lanes>(self) -> Mass {
        let Self { scores, best, temperature, last } = self;
        let scale = 1.0 / temperature;
        let (edge, edge_id) = last.map_or((f64::INFINITY, u32::MAX), |c| (c.score, c.id));
        let mut mass = Mass::NONE;
        for from in scores.starts() {
            let mut logs = [ops::math::LEAST; RUN];
            let run = scores.run(from);
            for (log, (&id, &score)) in logs.iter_mut().zip(run.ids.iter().zip(&run.scores)) {
                // The filling of a run counts as listed.
                let listed = (score > edge) | (score == edge) & (id <= edge_id);
                *log = if listed { ops::math::LEAST } else { ((score - best) * scale) as f32 };
            }
            V::map(&mut logs, &[], &mut NoLess);
            let mut weights = logs;
            V::map(&mut weights, &[], &mut Exp);
            mass.total += f64::from(V::sum16(&weights));
            mass.log_total += f64::from(V::dot16(&weights, &logs));
        }
        mass
    }
}

/// Not below what `exp` takes.
struct NoLess;

impl<V: Lanes> Op<V> for NoLess {
    #[inline(always)]
    fn of(&mut self, log: V, _: V) -> V {
        log.max(V::splat(ops::math::LEAST))
    }
}

struct Exp;

impl<V: Lanes> Op<V> for Exp {
    #[inline(always)]
    fn of(&mut self, log: V, _: V) -> V {
        ops::math::exp(log)
    }
}

/// Runs every truncating stage. `candidates` is what top-k left (or the best 1,024); `rest` is given when there are
/// tokens beside them that no stage has removed. Returns the probability of those.
pub(super) fn truncate(
    config: &SamplerConfig,
    candidates: &mut [Candidate],
    rest: Option<&Scores<'_>>,
    isa: Isa,
) -> f64 {
    let candidates = alive(candidates);
    let best = candidates.first().map_or(0.0, |c| c.score);
    let temperature = match config.order {
        StageOrder::TemperatureFirst => config.temperature,
        StageOrder::TemperatureLast => 1.0,
    };
    weigh(candidates, best, temperature);
    let mut mass = Mass::of(candidates, best, temperature);
    let mut lost = 0.0;
    if let Some(scores) = rest {
        let rest = Rest { scores, best, temperature, last: candidates.last().copied() }.mass(isa);
        mass.total += rest.total;
        mass.log_total += rest.log_total;
        lost = rest.total / mass.total;
    }

    // Both cut off a tail, and never the best.
    let limit = if config.top_p < 1.0 { config.top_p * mass.total } else { f64::INFINITY };
    let (mut before, mut improbable) = (0.0, false);
    for (rank, c) in candidates.iter_mut().enumerate() {
        improbable |= rank > 0 && c.probability < config.min_p;
        if rank > 0 && before >= limit {
            c.cut = Cut::TopP as u32;
        } else if improbable {
            c.cut = Cut::MinP as u32;
        }
        before += c.probability;
    }
    let listed = candidates.len();
    let candidates = alive(candidates);
    if candidates.len() < listed {
        // What has no place would have been removed too.
        lost = 0.0;
        mass = Mass::of(candidates, best, temperature);
    }
    if config.typical_p < 1.0 {
        typical(candidates, mass, best, temperature, config.typical_p);
    }
    if config.order == StageOrder::TemperatureLast {
        weigh(candidates, best, config.temperature);
    }
    lost
}

/// The candidates in the running, while they are the first.
fn alive(candidates: &mut [Candidate]) -> &mut [Candidate] {
    let count = candidates.iter().take_while(|c| c.alive()).count();
    candidates.get_mut(..count).unwrap_or(&mut [])
}

/// Gives every candidate its weight.
fn weigh(candidates: &mut [Candidate], best: f64, temperature: f64) {
    for part in candidates.chunks_mut(RUN) {
        let mut weights = [0.0; RUN];
        for (weight, c) in weights.iter_mut().zip(&*part) {
            *weight = log_weight(c.score, best, temperature);
        }
        exp(&mut weights);
        for (c, weight) in part.iter_mut().zip(weights) {
            c.probability = weight;
        }
    }
}

/// Locally typical sampling: keeps the candidates whose information is closest to the entropy, up to the one at which
/// `limit` of the mass is reached, with every other that is just as close.
///
/// Along the ranking information rises, so the distance falls and then rises: the nearest lie around one place, and a
/// walk from there to both sides meets them in order.
fn typical(candidates: &mut [Candidate], mass: Mass, best: f64, temperature: f64, limit: f64) {
    let log_total = log(mass.total);
    let entropy = log_total - mass.log_total / mass.total;
    // How far a candidate's information -log p lies above the entropy.
    let above = |c: &Candidate| log_total - log_weight(c.score, best, temperature) - entropy;
    let distance = |at: usize| candidates.get(at).map_or(f64::INFINITY, |c| above(c).abs());
    // The next one in front of the place, and behind it.
    let mut high = candidates.iter().take_while(|c| above(c) < 0.0).count();
    let mut low = high.wrapping_sub(1);
    let mut sum = 0.0;
    let mut radius;
    loop {
        let nearer = distance(low) <= distance(high);
        let at = if nearer { low } else { high };
        radius = distance(at);
        let Some(c) = candidates.get(at) else { break };
        sum += c.probability;
        if sum >= limit * mass.total {
            break;
        }
        if nearer {
            low = low.wrapping_sub(1);
        } else {
            high = high.wrapping_add(1);
        }
    }
    for c in candidates {
        if above(c).abs() > radius {
            c.cut = Cut::TypicalP as u32;
        }
    }
}

/// Turns the weights of the survivors into probabilities, and those of the others into 0. The choice is the first survivor
/// whose upper bound exceeds `u`; rounding may leave the last with a positive probability.
pub(super) fn pick(candidates: &mut [Candidate], u: f64, choice: &mut Choice) {
    let mut total = 0.0;
    choice.survivors = 0;
    for c in candidates.iter().filter(|c| c.alive()) {
        total += c.probability;
        choice.survivors = choice.survivors.wrapping_add(1);
    }
    let mut sum = 0.0;
    for c in candidates {
        c.probability = if c.alive() { c.probability / total } else { 0.0 };
        if c.probability > 0.0 && sum <= u {
            sum += c.probability;
            (choice.id, choice.probability) = (c.id, c.probability);
        }
    }
}
