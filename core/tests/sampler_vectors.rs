//! 10,000 tokens per profile against the independent model in `fixtures/sampler/model.py`. A build with debug
//! assertions runs the first 500 of each.

use tinyrustlm_core::Block64;
use tinyrustlm_core::sampler::{Bias, PrngKind, Sampler, SamplerConfig, StageOrder};

const VECTORS: &str = include_str!("../../fixtures/sampler/vectors.txt");
const TURN: u32 = 500;
const STEPS: u32 = if cfg!(debug_assertions) { TURN } else { 10_000 };

fn splitmix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

/// The logits of `vectors.py`.
fn fill(step: u32, logits: &mut [f32]) {
    for (token, slot) in logits.iter_mut().enumerate() {
        let a = (splitmix(u64::from(step) << 32 | token as u64) & 0xFFF) as i32;
        *slot = match step % 4 {
            0 => (a - 2048) as f32 / 256.0,
            1 => ((a * a) >> 12) as f32 / 64.0 - 40.0,
            2 => (a % 5) as f32 - 3.0,
            _ => -a as f32 / 64.0,
        };
    }
}

struct Line<'a> {
    name: &'a str,
    vocab: usize,
    config: SamplerConfig,
    rules: bool,
    ids: &'a str,
    fnv: u64,
}

fn parse(line: &str) -> Line<'_> {
    let mut words = line.split_whitespace();
    let name = words.next().unwrap();
    let vocab = words.next().unwrap().parse().unwrap();
    let mut parsed = Line { name, vocab, config: SamplerConfig::GREEDY, rules: false, ids: "", fnv: 0 };
    for word in words {
        let (key, value) = word.split_once('=').unwrap();
        let float = || value.parse::<f64>().unwrap();
        let config = &mut parsed.config;
        match key {
            "temperature" => config.temperature = float(),
            "top_k" => config.top_k = value.parse().unwrap(),
            "top_p" => config.top_p = float(),
            "min_p" => config.min_p = float(),
            "typical_p" => config.typical_p = float(),
            "repetition" => config.repetition_penalty = float(),
            "frequency" => config.frequency_penalty = float(),
            "presence" => config.presence_penalty = float(),
            "penalise_special" => config.penalise_special = true,
            "last" => config.order = StageOrder::TemperatureLast,
            "pcg" => config.prng = PrngKind::Pcg32,
            "seed" => config.seed = value.parse().unwrap(),
            "stream" => config.stream = value.parse().unwrap(),
            "rules" => parsed.rules = true,
            "ids" => parsed.ids = value,
            "short" if !cfg!(debug_assertions) => {}
            "fnv" if cfg!(debug_assertions) => {}
            "short" | "fnv" => parsed.fnv = u64::from_str_radix(value, 16).unwrap(),
            other => panic!("unknown key {other}"),
        }
    }
    parsed
}

fn run(line: &Line<'_>) -> Vec<u32> {
    let bias = [(3, 2.5), (9, f32::NEG_INFINITY), (11, -1.25), (200, 0.75)].map(|(id, value)| Bias { id, value });
    let mut memory = vec![Block64::ZERO; Sampler::blocks(line.vocab)];
    let mut sampler = Sampler::new(&line.config, line.vocab, &mut memory).unwrap();
    (0..3).for_each(|id| sampler.exempt(id));
    sampler.set_ends([2, 7].into_iter());
    if line.rules {
        sampler.ban(5, true);
        sampler.ban(17, true);
        sampler.set_bias(&bias).unwrap();
    }
    let mut logits = vec![0f32; line.vocab];
    let mut ids = Vec::new();
    for step in 0..STEPS {
        if step % TURN == 0 {
            sampler.start(step / TURN);
            let prompt: Vec<u32> = (0..8).map(|i| (splitmix(u64::from(step) + i) % line.vocab as u64) as u32).collect();
            sampler.note_prompt(&prompt);
        }
        let allowed = (line.rules && step % 3 == 0).then(|| {
            let mut words = vec![0u32; line.vocab.div_ceil(32)];
            for token in 0..line.vocab {
                if splitmix(token as u64 ^ u64::from(step)) & 3 != 0 {
                    words[token / 32] |= 1 << (token % 32);
                }
            }
            words
        });
        fill(step, &mut logits);
        let may_end = !line.rules || step % TURN >= 10;
        let choice = sampler.sample(&logits, allowed.as_deref(), may_end).unwrap();
        sampler.note_generated(choice.id);
        ids.push(choice.id);
    }
    ids
}

#[test]
fn every_profile_of_the_matrix_equals_the_model() {
    let mut wrong = Vec::new();
    for line in VECTORS.lines() {
        let line = parse(line);
        let ids = run(&line);
        let fnv = ids
            .iter()
            .flat_map(|id| id.to_le_bytes())
            .fold(0xCBF2_9CE4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01B3));
        if fnv != line.fnv {
            let first: Vec<String> = ids[..16].iter().map(u32::to_string).collect();
            wrong.push(format!("{}: {} instead of {}", line.name, first.join(","), line.ids));
        }
    }
    println!("{STEPS} tokens of each of {} profiles", VECTORS.lines().count());
    assert!(VECTORS.lines().count() >= 37);
    assert!(wrong.is_empty(), "{wrong:#?}");
}
