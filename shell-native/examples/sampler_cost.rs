//! What a choice costs beside a decoding step: `sampler_cost MODEL.slm [ROUNDS] [THREADS]`.
//!
//! Every round runs one decoding step and then, on its logits, one choice of every profile, so that a noisy machine
//! disturbs all alike. Printed are median and least, of the choice and as a share of the step's.

use std::time::Instant;
use tinyrustlm::core::Block64;
use tinyrustlm::core::kernels::Workers;
use tinyrustlm::core::model::Model;
use tinyrustlm::core::plan::Plan;
use tinyrustlm::core::sampler::{LogProb, Preset, Sampler, SamplerConfig, StageOrder};
use tinyrustlm::core::session::Session;
use tinyrustlm::measure::median;
use tinyrustlm::{Memory, ModelFile, Threads, detect};

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

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |i: usize, usual: usize| arguments.get(i).and_then(|a| a.parse().ok()).unwrap_or(usual);
    let file = ModelFile::open(arguments.get(1).ok_or("usage: sampler_cost MODEL.slm [ROUNDS] [THREADS]")?)?;
    let model = Model::parse(file.bytes())?;
    let threads = Threads::new(number(3, 1))?;
    let rounds = number(2, 100);
    let plan = Plan::new(&model, (rounds + 1).min(model.config.max_context), 64)?.for_workers(threads.count())?;
    let mut memory = Memory::new(&plan)?;
    let mut session = Session::new(&model, plan, memory.blocks(), detect())?;
    let vocab = plan.vocab_size;
    let profiles = profiles();
    let mut memories = vec![vec![Block64::ZERO; Sampler::blocks(vocab)]; profiles.len()];
    let mut samplers = Vec::new();
    for ((_, config), memory) in profiles.iter().zip(&mut memories) {
        let mut sampler = Sampler::new(config, vocab, memory)?;
        sampler.set_isa(session.isa());
        samplers.push(sampler);
    }
    let mut times = vec![Vec::new(); profiles.len() + 2];
    session.prefill(&[1], &threads)?;
    for round in 1..plan.context {
        let logits = session.logits().to_vec();
        let mut next = 0;
        for (at, sampler) in samplers.iter_mut().enumerate() {
            let start = Instant::now();
            let choice = sampler.sample(&logits, None, true)?;
            times[at].push(start.elapsed().as_secs_f64());
            sampler.note_generated(choice.id);
            if profiles[at].0 == "preset chat" {
                next = choice.id;
            }
        }
        let start = Instant::now();
        samplers[0].logprobs(&logits, &mut [LogProb::default(); 32])?;
        times[profiles.len()].push(start.elapsed().as_secs_f64());
        let start = Instant::now();
        session.step(next, &threads)?;
        times[profiles.len() + 1].push(start.elapsed().as_secs_f64());
        debug_assert_eq!(session.kv_len(), round + 1);
    }
    let least = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
    let steps = times.pop().unwrap_or_default();
    let (least_step, step) = (least(&steps), median(steps));
    println!(
        "{} rounds, vocabulary {vocab}, {}, {} threads; decoding step {:.2} ms, least {:.2} ms",
        plan.context - 1,
        session.isa().name(),
        threads.count(),
        step * 1e3,
        least_step * 1e3
    );
    println!("profile                    median    share     least    share");
    let names = profiles.iter().map(|(name, _)| name.as_str()).chain(["32 log-probabilities"]);
    for (name, times) in names.zip(times) {
        let (least, time) = (least(&times), median(times));
        println!(
            "{name:<24} {:>6.1} us {:>6.2} % {:>6.1} us {:>6.2} %",
            time * 1e6,
            100.0 * time / step,
            least * 1e6,
            100.0 * least / least_step
        );
    }
    Ok(())
}
