//! What a choice costs, by profile and vocabulary, and beside a decoding step.
//!
//!     cargo run --release -p tinyrustlm-benches --no-default-features --bin sampler -- [MODEL.slm] [ROUNDS] [THREADS]
//!
//! 100 rounds and one thread by default. Without a model: vocabularies from 1,024 to 262,144 tokens and logits made from a
//! seed, new ones in each round, on which every profile chooses once; printed are medians, and nanoseconds for each token of
//! the vocabulary, which stay the same where the cost grows with it. With a model each round is a decoding step and, on its
//! logits, one choice of every profile; printed are median and least, of the choice and as a share of the step's.

use std::error::Error;
use tinyrustlm::core::Block64;
use tinyrustlm::core::kernels::{Isa, Workers};
use tinyrustlm::core::model::Model;
use tinyrustlm::core::plan::Plan;
use tinyrustlm::core::sampler::{LogProb, Preset, Sampler, SamplerConfig, StageOrder};
use tinyrustlm::core::session::Session;
use tinyrustlm::{Memory, ModelFile, Threads, describe, detect};
use tinyrustlm_benches::{Random, Table, Turns, timed};

const USAGE: &str = "usage: sampler [MODEL.slm] [ROUNDS] [THREADS]";
/// The vocabularies of a toy, a small model, SmolLM2, Qwen and Gemma.
const VOCABULARIES: [usize; 5] = [1024, 8192, 49_152, 151_936, 262_144];
/// Log-probabilities that are asked for.
const LOGPROBS: usize = 32;

fn profiles() -> Vec<(String, SamplerConfig)> {
    let warm = SamplerConfig { temperature: 0.8, ..SamplerConfig::GREEDY };
    let mut all = vec![("greedy".to_owned(), SamplerConfig::GREEDY)];
    all.extend(Preset::ALL.map(|(name, preset)| (format!("preset {name}"), preset.profile().0)));
    let order = StageOrder::TemperatureLast;
    let rest = [
        ("top-k off", warm),
        ("top-k off, hot", SamplerConfig { temperature: 2.0, ..warm }),
        ("top-k off, top-p 0.95", SamplerConfig { top_p: 0.95, ..warm }),
        ("top-k off, min-p 0.05", SamplerConfig { min_p: 0.05, ..warm }),
        ("top-k off, typical 0.9", SamplerConfig { typical_p: 0.9, ..warm }),
        ("top-k off, T last", SamplerConfig { top_p: 0.95, order, ..warm }),
        ("top-k 1024", SamplerConfig { top_k: 1024, ..warm }),
        ("all at once", SamplerConfig { top_k: 0, ..Preset::Creative.profile().0 }),
    ];
    all.extend(rest.map(|(name, config)| (name.to_owned(), config)));
    all
}

/// A sampler for every profile, each with its memory.
struct Samplers<'m> {
    samplers: Vec<Sampler<'m>>,
    /// The figures of each, then those of the log-probabilities.
    turns: Turns,
}

/// Memory for the samplers of all profiles.
fn memories(profiles: &[(String, SamplerConfig)], vocab: usize) -> Vec<Vec<Block64>> {
    vec![vec![Block64::ZERO; Sampler::blocks(vocab)]; profiles.len()]
}

impl<'m> Samplers<'m> {
    fn new(
        profiles: &[(String, SamplerConfig)],
        vocab: usize,
        isa: Isa,
        memories: &'m mut [Vec<Block64>],
    ) -> Result<Self, tinyrustlm::core::Error> {
        let mut samplers = vec![];
        for ((_, config), memory) in profiles.iter().zip(memories) {
            let mut sampler = Sampler::new(config, vocab, memory)?;
            sampler.set_isa(isa);
            samplers.push(sampler);
        }
        Ok(Self { samplers, turns: Turns::new(profiles.len() + 1) })
    }

    /// One choice of every profile. Gives the ids.
    fn round(&mut self, logits: &[f32]) -> Result<Vec<u32>, tinyrustlm::core::Error> {
        let mut ids = vec![];
        for (at, sampler) in self.samplers.iter_mut().enumerate() {
            let (seconds, choice) = timed(|| sampler.sample(logits, None, true));
            let choice = choice?;
            self.turns.put(at, seconds);
            sampler.note_generated(choice.id);
            ids.push(choice.id);
        }
        if let Some(sampler) = self.samplers.first_mut() {
            let (seconds, done) = timed(|| sampler.logprobs(logits, &mut [LogProb::default(); LOGPROBS]));
            done?;
            self.turns.put(ids.len(), seconds);
        }
        Ok(ids)
    }
}

/// The names of what is measured.
fn names(profiles: &[(String, SamplerConfig)]) -> impl Iterator<Item = String> {
    profiles.iter().map(|(name, _)| name.clone()).chain([format!("{LOGPROBS} log-probabilities")])
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    let path = arguments.next_if(|word| word.parse::<usize>().is_err());
    let mut number = |usual: usize| arguments.next().map_or(Ok(usual), |word| word.parse::<usize>());
    let (rounds, threads) = (number(100).map_err(|_| USAGE)?, number(1).map_err(|_| USAGE)?);
    if rounds == 0 || arguments.next().is_some() || path.as_ref().is_some_and(|path| path.starts_with('-')) {
        return Err(USAGE.into());
    }
    match path {
        Some(path) => beside_steps(&path, rounds, threads),
        None => by_vocabulary(rounds),
    }
}

/// Logits as models give them: most near a mean, a few far above.
fn made(random: &mut Random, vocab: usize) -> Vec<f32> {
    let normal = |random: &mut Random| (0..4).map(|_| random.float()).sum::<f32>();
    let mut logits: Vec<f32> = (0..vocab).map(|_| 2.0 * normal(random)).collect();
    for _ in 0..vocab / 100 {
        logits[random.bits() as usize % vocab] += 2.0 + 2.0 * normal(random).abs();
    }
    logits
}

fn by_vocabulary(rounds: usize) -> Result<(), Box<dyn Error>> {
    let (profiles, isa) = (profiles(), detect());
    let mut memories = VOCABULARIES.map(|vocab| memories(&profiles, vocab));
    let all = VOCABULARIES.into_iter().zip(&mut memories);
    let all = all.map(|(vocab, memories)| Samplers::new(&profiles, vocab, isa, memories));
    let mut all = all.collect::<Result<Vec<_>, _>>()?;
    let mut random = Random(1);
    for _ in 0..rounds {
        for (samplers, vocab) in all.iter_mut().zip(VOCABULARIES) {
            samplers.round(&made(&mut random, vocab))?;
        }
    }
    let what = format!("{rounds} rounds, {}; us for", isa.name());
    let print = |what: &str, places: usize, figure: &dyn Fn(usize, usize) -> f64| {
        let columns = VOCABULARIES.map(|vocab| vocab.to_string());
        let columns: Vec<(&str, usize)> = columns.iter().map(|vocab| (vocab.as_str(), 9)).collect();
        let table = Table::new(&[&[(what, 28)], columns.as_slice()].concat());
        for (at, name) in names(&profiles).enumerate() {
            let figures = (0..VOCABULARIES.len()).map(|vocab| format!("{:.places$}", figure(vocab, at)));
            table.row([name].into_iter().chain(figures));
        }
    };
    print(&what, 1, &|vocab, at| all[vocab].turns.median(at) * 1e6);
    println!();
    print("ns for each token", 3, &|vocab, at| all[vocab].turns.median(at) * 1e9 / VOCABULARIES[vocab] as f64);
    Ok(())
}

fn beside_steps(path: &str, rounds: usize, threads: usize) -> Result<(), Box<dyn Error>> {
    let file = ModelFile::open(path)?;
    let said = |e| describe(e, Some(file.bytes()));
    let model = Model::parse(file.bytes()).map_err(said)?;
    let threads = Threads::new(threads)?;
    let plan = Plan::new(&model, rounds.saturating_add(1).min(model.config.max_context), 64).map_err(said)?;
    let plan = plan.for_workers(threads.count()).map_err(said)?;
    let mut memory = Memory::new(&plan)?;
    let mut session = Session::new(&model, plan, memory.blocks(), detect()).map_err(said)?;
    let profiles = profiles();
    let mut memories = memories(&profiles, plan.vocab_size);
    let mut samplers = Samplers::new(&profiles, plan.vocab_size, session.isa(), &mut memories).map_err(said)?;
    let mut steps = Turns::new(1);
    let talking = profiles.iter().position(|(name, _)| name == "preset chat").unwrap_or(0);
    session.prefill(&[1], &threads).map_err(said)?;
    for _ in 1..plan.context {
        let ids = samplers.round(session.logits()).map_err(said)?;
        let (seconds, done) = timed(|| session.step(ids[talking], &threads).map(|_| ()));
        done.map_err(said)?;
        steps.put(0, seconds);
    }
    let (step, least_step) = (steps.median(0), steps.least(0));
    println!(
        "{} rounds, vocabulary {}, {}, {} threads; decoding step {:.2} ms, least {:.2} ms",
        plan.context - 1,
        plan.vocab_size,
        session.isa().name(),
        threads.count(),
        step * 1e3,
        least_step * 1e3
    );
    let table = Table::new(&[("profile", 24), ("median us", 10), ("share", 8), ("least us", 10), ("share", 8)]);
    for (at, name) in names(&profiles).enumerate() {
        let (time, least) = (samplers.turns.median(at), samplers.turns.least(at));
        table.row([
            name,
            format!("{:.1}", time * 1e6),
            format!("{:.2} %", 100.0 * time / step),
            format!("{:.1}", least * 1e6),
            format!("{:.2} %", 100.0 * least / least_step),
        ]);
    }
    Ok(())
}
