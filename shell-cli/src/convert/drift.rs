//! How far the stored weights move the model: the same prompts through the source's weights in f32 and through the file.

use super::forward::{Runner, Weight};
use crate::failure::{Failure, Kind};
use serde_json::{Value, json};
use tinyrustlm_core::tokenizer::{Encode, Tokenizer};

/// Neutral prompts, one a line; `\n` stands for a line break.
const PROMPTS: &str = include_str!("prompts.txt");
/// Positions whose logits are in memory at a time.
const STRIP: usize = 32;
/// Most tokens of a prompt.
const MAX_TOKENS: usize = 256;

/// A promise about a file: lowest cosine at the last positions, least share of equal best tokens and of the five best.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    pub name: &'static str,
    cosine: f64,
    top1: f64,
    top5: f64,
}

/// The bands, strictest first.
pub const BANDS: [Band; 4] = [
    Band { name: "q8", cosine: 0.9995, top1: 0.99, top5: 0.99 },
    Band { name: "q6", cosine: 0.9990, top1: 0.985, top5: 0.99 },
    Band { name: "q5", cosine: 0.9985, top1: 0.98, top5: 0.99 },
    Band { name: "q4", cosine: 0.9970, top1: 0.96, top5: 0.985 },
];

/// What was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Drift {
    pub prompts: usize,
    pub positions: usize,
    /// Mean over all positions, in nats.
    pub kl: f64,
    /// Share of positions with the same best token.
    pub top1: f64,
    /// Mean share of common tokens among the five best.
    pub top5: f64,
    /// Lowest cosine at the last position of a prompt.
    pub min_cosine: f64,
    /// Mean cosine at the last positions.
    pub mean_cosine: f64,
}

impl Drift {
    /// The strictest band the figures meet.
    pub fn band(&self) -> Option<Band> {
        BANDS.into_iter().find(|b| self.min_cosine >= b.cosine && self.top1 >= b.top1 && self.top5 >= b.top5)
    }

    /// For the provenance. Numbers are texts of one width, so that the record's length does not depend on them.
    pub fn record(&self, calibration: Option<&str>) -> Value {
        let text = |x: f64| format!("{:9.6}", x.min(99.0));
        json!({
            "prompts": self.prompts,
            "positions": self.positions,
            "text": calibration.unwrap_or("built-in"),
            "kl": text(self.kl),
            "top1": text(self.top1),
            "top5": text(self.top5),
            "min_cosine": text(self.min_cosine),
            "mean_cosine": text(self.mean_cosine),
            "band": format!("{:4}", self.band().map_or("none", |band| band.name)),
        })
    }

    /// For a person.
    pub fn describe(&self) -> Vec<String> {
        let figures = format!(
            "KL {:.6}, same best token {:.2} %, five best {:.2} %, cosine min {:.6} mean {:.6} ({} prompts, {} positions)",
            self.kl,
            100.0 * self.top1,
            100.0 * self.top5,
            self.min_cosine,
            self.mean_cosine,
            self.prompts,
            self.positions
        );
        let verdict = match self.band() {
            Some(band) => format!("meets band {}", band.name),
            None => "meets no band: answers will differ noticeably from the source's. Try --quant auto, or keep some matrices f32 with --tensor-type"
                .into(),
        };
        vec![format!("drift     {figures}"), format!("band      {verdict}")]
    }
}

/// The prompts as ids. Prompts that give no ids are left out; long ones are cut at the context.
pub fn prompts(section: &[u8], text: Option<&str>, context: u32) -> Result<Vec<Vec<u32>>, Failure> {
    let bad = |error: tinyrustlm_core::Error| {
        Failure::new(Kind::Malformed, format!("tokenizer: {error} {}", error.code().name()))
    };
    let tokenizer = Tokenizer::parse(section).map_err(bad)?;
    let most = MAX_TOKENS.min(context as usize);
    let mut list = Vec::new();
    for line in text.unwrap_or(PROMPTS).lines().filter(|line| !line.is_empty()) {
        let text = line.replace("\\n", "\n");
        let mut scratch = vec![0; tokenizer.scratch_words(text.len())];
        let mut ids = vec![0; tokenizer.max_ids(text.len())];
        let how = Encode { add_special_tokens: true, content: None };
        let count = tokenizer.encode(text.as_bytes(), how, &mut scratch, &mut ids).map_err(bad)?;
        ids.truncate(count.min(most));
        if !ids.is_empty() {
            list.push(ids);
        }
    }
    Ok(list)
}

/// Compares final states, a strip of positions at a time.
pub fn compare(runner: &Runner, source: (&[f32], &Weight), file: (&[f32], &Weight)) -> Result<Drift, Failure> {
    let hidden = runner.architecture.hidden_size as usize;
    let vocab = runner.architecture.vocab_size as usize;
    let ends: Vec<usize> = runner
        .prompts
        .iter()
        .scan(0, |end, prompt| {
            *end += prompt.len();
            Some(*end - 1)
        })
        .collect();
    let (mut kl, mut top1, mut top5, mut position) = (0.0, 0usize, 0usize, 0usize);
    let (mut min, mut sum) = (f64::INFINITY, 0.0);
    for (a, b) in source.0.chunks(STRIP * hidden).zip(file.0.chunks(STRIP * hidden)) {
        let a = runner.logits(a, source.1)?;
        let b = runner.logits(b, file.1)?;
        for (a, b) in a.chunks_exact(vocab).zip(b.chunks_exact(vocab)) {
            kl += divergence(a, b);
            let (best_a, best_b) = (best::<5>(a), best::<5>(b));
            top1 += usize::from(best_a[0] == best_b[0]);
            top5 += best_a.iter().filter(|id| best_b.contains(id)).count();
            if ends.binary_search(&position).is_ok() {
                let cosine = cosine(a, b);
                min = cosine.min(min);
                sum += cosine;
            }
            position += 1;
        }
    }
    let positions = position.max(1) as f64;
    let five = vocab.min(5) as f64;
    Ok(Drift {
        prompts: runner.prompts.len(),
        positions: position,
        kl: (kl / positions).max(0.0),
        top1: top1 as f64 / positions,
        top5: top5 as f64 / positions / five,
        min_cosine: min,
        mean_cosine: sum / runner.prompts.len().max(1) as f64,
    })
}

/// KL divergence of the distribution of `b` from that of `a`, in nats.
pub fn divergence(a: &[f32], b: &[f32]) -> f64 {
    let max = |x: &[f32]| x.iter().fold(f32::NEG_INFINITY, |max, v| max.max(*v));
    let (max_a, max_b) = (max(a), max(b));
    let (mut sum_a, mut sum_b, mut mixed) = (0.0f64, 0.0f64, 0.0f64);
    for (a, b) in a.iter().zip(b) {
        let (a, b) = (f64::from(*a - max_a), f64::from(*b - max_b));
        let weight = libm::exp(a);
        sum_a += weight;
        sum_b += libm::exp(b);
        mixed += weight * (a - b);
    }
    mixed / sum_a - libm::log(sum_a) + libm::log(sum_b)
}

/// Cosine of the angle between two vectors.
pub fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// Ids of the `N` largest values, equal ones in the order of their ids; ids beyond a short vocabulary are `usize::MAX`.
pub fn best<const N: usize>(x: &[f32]) -> [usize; N] {
    let mut ids = [usize::MAX; N];
    let mut values = [f32::NEG_INFINITY; N];
    for (id, value) in x.iter().enumerate() {
        if *value > values[N - 1] {
            let at = values.iter().position(|kept| value > kept).unwrap_or(N - 1);
            values.copy_within(at..N - 1, at + 1);
            ids.copy_within(at..N - 1, at + 1);
            (values[at], ids[at]) = (*value, id);
        }
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_small_vectors() {
        assert_eq!(best::<3>(&[1.0, 5.0, 5.0, 2.0, -1.0]), [1, 2, 3]);
        assert!((cosine(&[1.0, 0.0], &[1.0, 1.0]) - 0.5f64.sqrt()).abs() < 1e-12);
        assert_eq!(divergence(&[1.0, 2.0, 3.0], &[2.0, 3.0, 4.0]), 0.0);
        // p = (3/4, 1/4), q = (1/2, 1/2): KL = ln 2 - H(p).
        let want = 2f64.ln() + 0.75 * 0.75f64.ln() + 0.25 * 0.25f64.ln();
        assert!((divergence(&[3f32.ln(), 0.0], &[0.0, 0.0]) - want).abs() < 1e-7);
    }

    #[test]
    fn bands_are_met_by_all_three_figures() {
        let drift = Drift { min_cosine: 0.9996, top1: 0.995, top5: 0.995, ..Drift::default() };
        assert_eq!(drift.band().unwrap().name, "q8");
        assert_eq!(Drift { top1: 0.986, ..drift }.band().unwrap().name, "q6");
        assert_eq!(Drift { min_cosine: 0.99, ..drift }.band(), None);
        let len = |d: Drift| super::super::provenance::encode(&d.record(None)).unwrap().len();
        assert_eq!(len(drift), len(Drift { kl: 12.5, min_cosine: -0.25, ..Drift::default() }));
    }

    #[test]
    fn there_are_at_least_60_prompts() {
        assert!(PROMPTS.lines().count() >= 60);
    }
}
