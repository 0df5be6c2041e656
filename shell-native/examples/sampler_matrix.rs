//! The sampler experiment matrix: what each setting does to the text of a model, and what it costs.
//!
//!     cargo run --release -p tinyrustlm --example sampler_matrix -- MODEL.slm [TOKENS]
//!
//! A row per setting, over the same prompts and seeds: tokens that differ from greedy, distinct tokens and 3-grams,
//! longest repetition, mean log-probability under the model itself, mean survivors, largest lost mass, why generation
//! ended, and the time of one choice next to that of one decoding step. Then a row per way to end, all greedy.

use std::collections::{BTreeMap, HashSet};
use std::time::Instant;
use tinyrustlm::core::kernels::Workers;
use tinyrustlm::core::model::Model;
use tinyrustlm::core::plan::Plan;
use tinyrustlm::core::sampler::{Bias, Preset, PrngKind, Sampler, SamplerConfig, StageOrder};
use tinyrustlm::core::session::{Generation, Limits, LoopRule, Session};
use tinyrustlm::core::stops::StopReason;
use tinyrustlm::core::tokenizer::Encode;
use tinyrustlm::core::{Block64, Error};
use tinyrustlm::{Memory, ModelFile, Threads, detect};

const PROMPTS: [&str; 3] = ["The capital of France is", "Once upon a time", "To sort a list of numbers,"];
const SEEDS: [u64; 2] = [0, 1];

fn settings() -> Vec<(String, SamplerConfig)> {
    let greedy = SamplerConfig::GREEDY;
    let one = SamplerConfig { temperature: 1.0, ..greedy };
    let mut rows = vec![("greedy".to_owned(), greedy)];
    rows.extend([0.2, 0.5, 0.7, 1.0, 1.3].map(|t| (format!("T {t}"), SamplerConfig { temperature: t, ..greedy })));
    rows.extend([1, 10, 40].map(|k| (format!("top-k {k}"), SamplerConfig { top_k: k, ..one })));
    rows.extend([0.5, 0.9].map(|p| (format!("top-p {p}"), SamplerConfig { top_p: p, ..one })));
    rows.extend([0.02, 0.1].map(|p| (format!("min-p {p}"), SamplerConfig { min_p: p, ..one })));
    rows.push(("typical 0.9".into(), SamplerConfig { typical_p: 0.9, ..one }));
    rows.extend([1.1, 1.5].map(|r| (format!("repetition {r}"), SamplerConfig { repetition_penalty: r, ..greedy })));
    rows.push(("frequency 0.5".into(), SamplerConfig { frequency_penalty: 0.5, ..greedy }));
    rows.push(("presence 0.5".into(), SamplerConfig { presence_penalty: 0.5, ..greedy }));
    rows.extend(Preset::ALL.map(|(name, preset)| (format!("preset {name}"), preset.profile().0)));
    let chat = Preset::Chat.profile().0;
    rows.push(("chat, T last".into(), SamplerConfig { order: StageOrder::TemperatureLast, ..chat }));
    rows.push(("chat, pcg32".into(), SamplerConfig { prng: PrngKind::Pcg32, ..chat }));
    rows
}

#[derive(Default)]
struct Row {
    ids: Vec<Vec<u32>>,
    logprob: f64,
    survivors: f64,
    lost: f64,
    tokens: usize,
    stops: BTreeMap<&'static str, usize>,
    loops: usize,
}

fn run(
    generation: &mut Generation<'_, '_>,
    workers: &dyn Workers,
    config: &SamplerConfig,
    prompts: &[Vec<u32>],
    limits: &Limits,
) -> Result<Row, Error> {
    let mut row = Row::default();
    let mut out = vec![0; generation.room()];
    for &seed in &SEEDS {
        for prompt in prompts {
            generation.sampler().set_config(&SamplerConfig { seed, ..*config })?;
            generation.begin(prompt, 0, limits)?;
            while generation.is_running() {
                if let Some(token) = generation.next(workers, None, &mut out)?.token {
                    row.tokens += 1;
                    row.logprob += token.logprob.unwrap_or(0.0);
                    row.survivors += f64::from(token.choice.survivors);
                    row.lost = row.lost.max(token.choice.lost_mass);
                }
            }
            *row.stops.entry(generation.stop().map_or("none", StopReason::name)).or_default() += 1;
            row.loops += usize::from(generation.looped().is_some());
            row.ids.push(generation.generated().to_vec());
        }
    }
    Ok(row)
}

fn share<T: std::hash::Hash + Eq>(items: impl Iterator<Item = T>) -> f64 {
    let (mut all, mut distinct) = (0usize, HashSet::new());
    for item in items {
        all += 1;
        distinct.insert(item);
    }
    if all == 0 { 0.0 } else { distinct.len() as f64 / all as f64 }
}

/// Median microseconds of one choice on `logits`.
fn cost(config: &SamplerConfig, logits: &[f32], transcript: &[u32]) -> Result<f64, Error> {
    let mut memory = vec![Block64::ZERO; Sampler::blocks(logits.len())];
    let mut sampler = Sampler::new(config, logits.len(), &mut memory)?;
    sampler.note_prompt(transcript);
    let mut times = Vec::new();
    for _ in 0..101 {
        let start = Instant::now();
        sampler.sample(logits, None, true)?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// Ways to end: a stop id against a stop string of the same text, end tokens early and banned, loops, the context's edge.
fn endings(
    generation: &mut Generation<'_, '_>,
    workers: &dyn Workers,
    prompt: &[u32],
    limits: &Limits,
) -> Result<(), Box<dyn std::error::Error>> {
    let plain = Limits { ignore_eos: true, ..*limits };
    let mut out = vec![0; generation.room()];
    let mut finish =
        |generation: &mut Generation<'_, '_>, prompt: &[u32], limits: &Limits| -> Result<Vec<u32>, Error> {
            generation.sampler().set_config(&SamplerConfig::GREEDY)?;
            generation.begin(prompt, 0, limits)?;
            while generation.is_running() {
                generation.next(workers, None, &mut out)?;
            }
            Ok(generation.generated().to_vec())
        };
    let free = finish(generation, prompt, &plain)?;
    let stop = free[free.len() / 2];
    let text = String::from_utf8(generation.tokenizer().token_bytes(stop).to_vec()).unwrap_or_default();
    let full: Vec<u32> = prompt.iter().copied().cycle().take(generation.session().context() - 3).collect();
    let looping = Limits { loops: Some(LoopRule { max_period: 16, repetitions: 3 }), ..plain };
    println!("\nending                         tokens  reason");
    let mut row = |generation: &mut Generation<'_, '_>, name: &str, prompt: &[u32], limits: &Limits| {
        finish(generation, prompt, limits).map(|ids| {
            println!("{name:<30} {:>6}  {}", ids.len(), generation.stop().map_or("none", StopReason::name));
        })
    };
    row(generation, "maximum", prompt, &plain)?;
    generation.set_stops(&[stop], std::iter::empty(), false)?;
    row(generation, &format!("stop id {stop}"), prompt, &plain)?;
    // A token of bytes has no text of its own.
    if !text.is_empty() {
        generation.set_stops(&[], [text.as_bytes()].into_iter(), false)?;
        row(generation, &format!("stop string {text:?}"), prompt, &plain)?;
    }
    generation.set_stops(&[], std::iter::empty(), false)?;
    let ends: Vec<u32> = generation.session().model().stops.ids().to_vec();
    let forced: Vec<Bias> = ends.iter().take(1).map(|&id| Bias { id, value: 1e5 }).collect();
    // The sampler keeps the list for as long as it lives.
    generation.sampler().set_bias(Box::leak(forced.into_boxed_slice()))?;
    row(generation, "end token forced", prompt, limits)?;
    row(generation, "  the same, at least 8 tokens", prompt, &Limits { min_new_tokens: 8, ..*limits })?;
    row(generation, "  the same, ignored", prompt, &plain)?;
    generation.sampler().set_bias(&[])?;
    row(generation, "loops of 16 tokens, 3 times", prompt, &looping)?;
    row(generation, "prompt 3 short of the context", &full, &plain)?;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: sampler_matrix MODEL.slm [TOKENS]")?;
    let tokens: u32 = args.next().map_or(Ok(48), |n| n.parse())?;
    let file = ModelFile::open(&path)?;
    let model = Model::parse(file.bytes())?;
    let tokenizer = model.tokenizer()?;
    let workers = Threads::new(Threads::default_count())?;
    let context = model.config.max_context.min(256);
    let plan = Plan::new(&model, context, 64)?.for_workers(workers.count())?;
    let mut memory = Memory::new(&plan)?;
    let mut blocks = vec![Block64::ZERO; Generation::blocks(plan.vocab_size, plan.context)];
    let session = Session::new(&model, plan, memory.blocks(), detect())?;
    let mut generation = Generation::new(session, &tokenizer, &SamplerConfig::GREEDY, &mut blocks)?;
    let mut prompts = Vec::new();
    for text in PROMPTS {
        let mut scratch = vec![0; tokenizer.scratch_words(text.len())];
        let mut ids = vec![0; tokenizer.max_ids(text.len())];
        let how = Encode { add_special_tokens: false, content: None };
        let len = tokenizer.encode(text.as_bytes(), how, &mut scratch, &mut ids)?;
        prompts.push(ids[..len].to_vec());
    }

    let limits = Limits { max_new_tokens: tokens, logprobs: 1, continues: true, ..Limits::default() };
    let greedy = run(&mut generation, &workers, &SamplerConfig::GREEDY, &prompts, &limits)?;
    let logits = generation.session().logits().to_vec();
    let transcript: Vec<u32> = generation.prompt().iter().chain(generation.generated()).copied().collect();
    // A decoding step, for the price: the median of passes over one more token.
    let mut steps = Vec::new();
    let mut out = vec![0; generation.room()];
    let long = Limits { max_new_tokens: 24, ignore_eos: true, ..Limits::default() };
    generation.begin(&prompts[0], 0, &long)?;
    while generation.is_running() {
        let start = Instant::now();
        generation.next(&workers, None, &mut out)?;
        steps.push(start.elapsed().as_secs_f64() * 1e6);
    }
    steps.sort_by(f64::total_cmp);
    let step = steps[steps.len() / 2];

    println!("{path}: {} prompts x {} seeds x {tokens} tokens; decoding step {step:.0} us", PROMPTS.len(), SEEDS.len());
    println!("setting           differ  dist-1  dist-3  loops  logprob  survive   lost  choice us  share  ends");
    for (name, config) in settings() {
        let row = run(&mut generation, &workers, &config, &prompts, &limits)?;
        let (mut differ, mut all) = (0, 0);
        for (a, b) in row.ids.iter().zip(&greedy.ids) {
            all += a.len();
            differ += (0..a.len()).filter(|&i| b.get(i) != Some(&a[i])).count();
        }
        let one = share(row.ids.iter().enumerate().flat_map(|(i, ids)| ids.iter().map(move |id| (i, id))));
        let three = share(row.ids.iter().enumerate().flat_map(|(i, ids)| ids.windows(3).map(move |w| (i, w))));
        let us = cost(&config, &logits, &transcript)?;
        let n = row.tokens.max(1) as f64;
        let ends: Vec<String> = row.stops.iter().map(|(reason, n)| format!("{reason} {n}")).collect();
        println!(
            "{name:<16} {:>6.1}% {:>7.3} {:>7.3} {:>6} {:>8.3} {:>8.1} {:>6.4} {us:>10.1} {:>5.2}%  {}",
            100.0 * differ as f64 / all.max(1) as f64,
            one,
            three,
            row.loops,
            row.logprob / n,
            row.survivors / n,
            row.lost,
            100.0 * us / step,
            ends.join(", "),
        );
    }
    endings(&mut generation, &workers, &prompts[1], &limits)
}
