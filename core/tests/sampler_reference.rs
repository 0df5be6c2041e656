//! Surviving sets against transformers' logits processors, and the cases of the sampler that are worth a name.

use tinyrustlm_core::sampler::{Bias, Cut, OnAllMasked, Sampler, SamplerConfig, StageOrder};
use tinyrustlm_core::{Block64, Code};

const SETS: &str = include_str!("../../fixtures/sampler/transformers_sets.txt");
const VOCAB: usize = 1000;

fn splitmix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

/// The profile of `transformers_sets.py`.
fn profile(i: u64) -> SamplerConfig {
    let r = |n: u64, len: usize| (splitmix((i << 8) + n) % len as u64) as usize;
    SamplerConfig {
        repetition_penalty: [1.0, 1.0, 1.05, 1.3, 1.5, 0.8][r(0, 6)],
        temperature: [1.0, 0.2, 0.7, 1.5, 2.0][r(1, 5)],
        top_k: [0, 0, 1, 5, 40, 200][r(2, 6)],
        top_p: [1.0, 1.0, 0.5, 0.9, 0.95, 0.0][r(3, 6)],
        min_p: [0.0, 0.0, 0.05, 0.1, 0.5, 1.0][r(4, 6)],
        typical_p: [1.0, 1.0, 0.2, 0.9, 0.95][r(5, 5)],
        ..SamplerConfig::GREEDY
    }
}

/// The logits of `transformers_sets.py`.
fn vector(i: u64) -> Vec<f32> {
    let value = |token: u64| {
        let a = (splitmix(i << 32 | token) & 0xFFFF) as i64;
        match i % 4 {
            0 => (a - 32768) as f32 / 4096.0,
            1 => ((a * a) >> 20) as f32 / 128.0 - 24.0,
            2 => (a % 7) as f32 - 4.0,
            _ => -(a % 97) as f32 / 8.0 - 1.0,
        }
    };
    (0..VOCAB as u64).map(value).collect()
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| crc >> 1 ^ if crc & 1 == 0 { 0 } else { 0xEDB8_8320 };
    !bytes.iter().fold(!0, |crc, &b| (0..8).fold(crc ^ u32::from(b), |crc, _| step(crc)))
}

#[test]
fn surviving_sets_equal_the_reference() {
    let mut memory = vec![Block64::ZERO; Sampler::blocks(VOCAB)];
    let (mut compared, mut wrong) = (0, Vec::new());
    for (i, line) in (0u64..).zip(SETS.lines()) {
        let Some((count, crc)) = line.split_once(' ') else { continue };
        let config = profile(i);
        let mut sampler = Sampler::new(&config, VOCAB, &mut memory).unwrap();
        let prompt: Vec<u32> = (0..20).map(|n| (splitmix((i << 16) + n) % VOCAB as u64) as u32).collect();
        sampler.note_prompt(&prompt);
        let choice = sampler.sample(&vector(i), None, true).unwrap();
        let mut mask = [0u8; VOCAB / 8];
        let mut survivors = 0;
        for c in sampler.candidates().iter().filter(|c| c.cut() == Cut::None) {
            mask[c.id as usize / 8] |= 1 << (c.id % 8);
            survivors += 1;
        }
        assert_eq!(choice.survivors, survivors);
        compared += 1;
        if format!("{survivors} {:08x}", crc32(&mask)) != line {
            wrong.push(format!("{i}: {survivors} instead of {count} ({crc}) {config:?}"));
        }
    }
    println!("{compared} of 2100 vectors compared");
    assert!(compared >= 2000 && SETS.lines().count() == 2100);
    assert!(wrong.is_empty(), "{} differ: {:#?}", wrong.len(), &wrong[..wrong.len().min(10)]);
}

/// The surviving ids of one step.
fn survivors(config: SamplerConfig, logits: &[f32]) -> Vec<u32> {
    let mut memory = vec![Block64::ZERO; Sampler::blocks(logits.len())];
    let mut sampler = Sampler::new(&config, logits.len(), &mut memory).unwrap();
    sampler.sample(logits, None, true).unwrap();
    sampler.candidates().iter().filter(|c| c.cut() == Cut::None).map(|c| c.id).collect()
}

const PLAIN: SamplerConfig = SamplerConfig { temperature: 1.0, ..SamplerConfig::GREEDY };

#[test]
fn temperature_stands_where_the_profile_says() {
    let p = SamplerConfig { temperature: 0.5, top_p: 0.8, ..PLAIN };
    let m = SamplerConfig { temperature: 2.0, min_p: 0.1, ..PLAIN };
    assert_eq!(survivors(p, &[3.0, 2.0, 1.0]), [0]);
    assert_eq!(survivors(m, &[4.0, 2.0, 0.0]), [0, 1, 2]);
    let order = StageOrder::TemperatureLast;
    assert_eq!(survivors(SamplerConfig { order, ..p }, &[3.0, 2.0, 1.0]), [0, 1]);
    assert_eq!(survivors(SamplerConfig { order, ..m }, &[4.0, 2.0, 0.0]), [0, 1]);
}

#[test]
fn filters_work_on_what_is_left_and_leave_one() {
    assert_eq!(survivors(SamplerConfig { top_k: 1, top_p: 0.8, ..PLAIN }, &[1.0, 0.9, 0.8, 0.7]), [0]);
    assert_eq!(survivors(SamplerConfig { min_p: 0.2, ..PLAIN }, &[-5.0, -6.0, -9.0]), [0, 1]);
    assert_eq!(survivors(SamplerConfig { top_p: 0.0, ..PLAIN }, &[0.0, 0.0]), [0]);
    // All as good as the k-th stay, as in the reference; the array ends at 1,024.
    assert_eq!(survivors(SamplerConfig { top_k: 2, ..PLAIN }, &[1.0, 2.0, 1.0, 1.0, 0.0]), [1, 0, 2, 3]);
    assert_eq!(survivors(SamplerConfig { top_k: 1, ..PLAIN }, &[1.0; 5000]).len(), 1024);
}

#[test]
fn penalties_follow_sign_and_count() {
    let logits = [2.0, 1.0, -1.0, 0.5, -3.0];
    let mut memory = vec![Block64::ZERO; Sampler::blocks(5)];
    let mut scores = |config: SamplerConfig, prompt: &[u32], generated: &[u32]| {
        let mut sampler = Sampler::new(&config, 5, &mut memory).unwrap();
        sampler.note_prompt(prompt);
        generated.iter().for_each(|&id| sampler.note_generated(id));
        sampler.sample(&logits, None, true).unwrap();
        let mut scores = [0.0; 5];
        sampler.candidates().iter().for_each(|c| scores[c.id as usize] = c.score);
        scores
    };
    let repetition = SamplerConfig { repetition_penalty: 1.5, ..PLAIN };
    assert_eq!(scores(repetition, &[0, 2, 2], &[0]), [2.0 / 1.5, 1.0, -1.5, 0.5, -3.0]);
    let subtractive = SamplerConfig { frequency_penalty: 0.5, presence_penalty: 0.25, ..PLAIN };
    assert_eq!(scores(subtractive, &[1, 3, 4], &[0, 0, 2]), [0.75, 1.0, -1.75, 0.5, -3.0]);
}

#[test]
fn special_tokens_escape_penalties_unless_told() {
    let mut memory = vec![Block64::ZERO; Sampler::blocks(3)];
    for (penalise_special, best) in [(false, 0), (true, 1)] {
        let config = SamplerConfig { repetition_penalty: 2.0, penalise_special, ..SamplerConfig::GREEDY };
        let mut sampler = Sampler::new(&config, 3, &mut memory).unwrap();
        sampler.exempt(0);
        sampler.note_prompt(&[0]);
        assert_eq!(sampler.sample(&[3.0, 2.0, 1.0], None, true).unwrap().id, best);
    }
}

#[test]
fn flat_logits_and_a_penalty_never_repeat_until_all_are_used() {
    let vocab = 3000;
    let config = SamplerConfig { repetition_penalty: 1.5, ..SamplerConfig::GREEDY };
    let mut memory = vec![Block64::ZERO; Sampler::blocks(vocab)];
    for level in [2.0, -2.0] {
        let mut sampler = Sampler::new(&config, vocab, &mut memory).unwrap();
        let logits = vec![level; vocab];
        for id in 0..vocab as u32 {
            assert_eq!(sampler.sample(&logits, None, true).unwrap().id, id);
            sampler.note_generated(id);
        }
    }
}

#[test]
fn temperature_zero_is_greedy_and_a_tiny_one_is_finite() {
    let logits = [1.0, 3.0, 3.0, 2.0];
    let mut memory = vec![Block64::ZERO; Sampler::blocks(4)];
    for temperature in [0.0, 1e-8, 1e-300] {
        let config = SamplerConfig { temperature, ..SamplerConfig::GREEDY };
        let choice = Sampler::new(&config, 4, &mut memory).unwrap().sample(&logits, None, true).unwrap();
        assert!(choice.id == 1 || (temperature > 0.0 && choice.id == 2));
        assert_eq!(choice.draw.is_none(), temperature == 0.0);
    }
}

#[test]
fn bans_hold_and_end_tokens_wait() {
    let bias = [Bias { id: 1, value: f32::NEG_INFINITY }];
    let mut memory = vec![Block64::ZERO; Sampler::blocks(4)];
    let mut sampler = Sampler::new(&SamplerConfig::GREEDY, 4, &mut memory).unwrap();
    let logits = [1.0, 9.0, 8.0, 7.0];
    sampler.set_bias(&bias).unwrap();
    assert_eq!(sampler.sample(&logits, None, true).unwrap().id, 2);
    sampler.set_ends([2].into_iter());
    assert_eq!(sampler.sample(&logits, None, false).unwrap().id, 3);
    assert_eq!(sampler.sample(&logits, Some(&[0b0001]), true).unwrap().id, 0);
    sampler.ban(0, true);
    assert_eq!(sampler.sample(&logits, Some(&[0b0001]), true).unwrap_err().code(), Code::AllTokensMasked);
    let force = SamplerConfig { on_all_masked: OnAllMasked::ForceEos, ..SamplerConfig::GREEDY };
    sampler.set_config(&force).unwrap();
    let forced = sampler.sample(&logits, Some(&[0b0001]), true).unwrap();
    assert!(forced.forced && forced.id == 2);
    assert_eq!(sampler.sample(&logits, Some(&[]), true).unwrap_err().code(), Code::TokenMaskTooShort);
}

#[test]
fn faults_are_numbered_and_leave_the_sampler_usable() {
    let mut memory = vec![Block64::ZERO; Sampler::blocks(3)];
    assert_eq!(
        Sampler::new(&SamplerConfig::GREEDY, 3000, &mut memory).unwrap_err().code(),
        Code::SamplerMemoryTooShort
    );
    let mut sampler = Sampler::new(&PLAIN, 3, &mut memory).unwrap();
    let before = sampler.sample(&[0.0, 1.0, 2.0], None, true).unwrap().id;
    sampler.start(0);
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let error = sampler.sample(&[0.0, bad, 2.0], None, true).unwrap_err();
        assert_eq!((error.code(), error.index()), (Code::NonFiniteLogit, Some(1)));
    }
    assert_eq!(sampler.sample(&[0.0], None, true).unwrap_err().code(), Code::LogitsLength);
    for bias in [[Bias { id: 3, value: 1.0 }; 2], [Bias { id: 1, value: 1.0 }; 2], [Bias { id: 1, value: f32::NAN }; 2]]
    {
        let index = u32::from(bias[0].id == 1 && bias[0].value == 1.0);
        let mut memory = vec![Block64::ZERO; Sampler::blocks(3)];
        let error = Sampler::new(&PLAIN, 3, &mut memory).unwrap().set_bias(&bias).unwrap_err();
        assert_eq!((error.code(), error.index()), (Code::InvalidLogitBias, Some(index)));
    }
    assert_eq!(sampler.sample(&[0.0, 1.0, 2.0], None, true).unwrap().id, before);
}

#[test]
fn logprobs_are_the_log_softmax_of_the_raw_logits() {
    let logits: Vec<f32> = (0..300).map(|i| ((i * 7919) % 613) as f32 / 40.0).collect();
    let mut memory = vec![Block64::ZERO; Sampler::blocks(300)];
    let mut sampler = Sampler::new(&SamplerConfig::GREEDY, 300, &mut memory).unwrap();
    let mut top = [Default::default(); 5];
    let denominator = sampler.logprobs(&logits, &mut top).unwrap();
    let expected = logits.iter().map(|&x| f64::from(x).exp()).sum::<f64>().ln();
    // The terms are f32.
    assert!((denominator - expected).abs() < 1e-7);
    let mut order: Vec<usize> = (0..300).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    for (got, id) in top.iter().zip(order) {
        assert_eq!(got.id as usize, id);
        assert_eq!(got.logprob, f64::from(logits[id]) - denominator);
    }
}

#[test]
fn what_the_cap_cuts_is_reported() {
    let logits = vec![1.0f32; 4096];
    let mut memory = vec![Block64::ZERO; Sampler::blocks(4096)];
    let lost = |config: SamplerConfig, memory: &mut [Block64]| {
        Sampler::new(&config, 4096, memory).unwrap().sample(&logits, None, true).unwrap().lost_mass
    };
    assert!((lost(PLAIN, &mut memory) - 0.75).abs() < 1e-12);
    assert_eq!(lost(SamplerConfig { top_p: 0.1, ..PLAIN }, &mut memory), 0.0);
    assert!((lost(SamplerConfig { top_p: 0.9, ..PLAIN }, &mut memory) - 0.75).abs() < 1e-12);
}
