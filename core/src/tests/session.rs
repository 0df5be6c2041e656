//! The whole pass against the naive one, and everything a session promises.

use super::build::{Aligned, Builder, DTYPES, Random, seal};
use super::naive;
use crate::container::DType;
use crate::error::Code;
use crate::kernels::{Isa, Serial};
use crate::kv_cache::KvType;
use crate::memory::Block64;
use crate::model::config::{biases, norms};
use crate::model::{Activation, Model, QkNorm};
use crate::plan::Plan;
use crate::session::Session;
use std::vec;
use std::vec::Vec;

fn memory(plan: &Plan) -> Vec<Block64> {
    // What memory holds beforehand must not matter.
    vec![Block64([0xff; 64]); plan.block_count()]
}

fn ids(n: usize, seed: u64) -> Vec<u32> {
    let mut random = Random(seed);
    (0..n).map(|_| random.word() % 37).collect()
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|v| v.to_bits()).collect()
}

/// A plan of 64 positions.
fn plan(model: &Model<'_>, kv_type: KvType, batch: usize) -> Plan {
    Plan::new(model, 64, batch).unwrap().for_cache(model, kv_type).unwrap()
}

/// Logits of each position, token by token.
fn stepwise(file: &Aligned, kv_type: KvType, ids: &[u32]) -> Vec<Vec<u32>> {
    let model = Model::parse(file.bytes()).unwrap();
    let plan = plan(&model, kv_type, 1);
    let mut memory = memory(&plan);
    let mut session = Session::new(&model, plan, &mut memory, Isa::Scalar).unwrap();
    ids.iter().map(|&id| bits(session.step(id, &Serial).unwrap())).collect()
}

/// One configuration per feature of the decoder, and one with all at once.
fn variants() -> Vec<Builder> {
    let mut all = vec![Builder::tiny()];
    let mut with = |change: &dyn Fn(&mut Builder)| {
        let mut builder = Builder::tiny();
        change(&mut builder);
        builder.seed = all.len() as u64 * 17 + 3;
        all.push(builder);
    };
    with(&|b| b.config.tied = false);
    with(&|b| b.config.biases = biases::ALL);
    with(&|b| b.config.biases = biases::WQ | biases::WK | biases::WV);
    with(&|b| b.config.qk_norm = QkNorm::PerHead);
    with(&|b| b.config.qk_norm = QkNorm::Whole);
    with(&|b| b.config.norms = norms::AFTER_ATTENTION | norms::AFTER_FFN);
    with(&|b| b.config.norms = norms::ALL);
    with(&|b| b.config.activation = Activation::GeluTanh);
    with(&|b| b.windows = vec![3, 0]);
    with(&|b| (b.config.kv_head_count, b.config.head_dim) = (1, 16));
    with(&|b| (b.config.kv_head_count, b.config.head_dim) = (4, 64));
    with(&|b| b.rope_of_layer = vec![0, 255]);
    with(&|b| (b.ropes, b.rope_of_layer) = (vec![(4, 100.0), (10, 1e6)], vec![1, 0]));
    with(&|b| (b.config.attention_softcap, b.config.logit_softcap) = (1.5, 3.0));
    with(&|b| {
        b.config.embedding_scale = 12.0;
        b.config.residual_scale = 0.22;
        b.config.logit_divisor = 8.0;
        b.config.attention_scale = 0.015;
    });
    with(&|b| {
        b.config.norms = norms::ALL;
        b.config.biases = biases::ALL;
        b.config.qk_norm = QkNorm::PerHead;
        b.config.activation = Activation::GeluTanh;
        b.config.tied = false;
        b.windows = vec![2, 5];
        (b.ropes, b.rope_of_layer) = (vec![(6, 100.0), (10, 1e6)], vec![1, 0]);
        b.config.attention_softcap = 2.0;
        b.config.logit_softcap = 10.0;
        b.config.embedding_scale = 6.0;
        b.config.residual_scale = 0.7;
        b.config.logit_divisor = 3.0;
    });
    all
}

#[test]
fn every_variant_and_dtype_is_close_to_the_naive_decoder() {
    for (i, builder) in variants().into_iter().enumerate() {
        // A cache of codes: more positions than it has in a block.
        let coded = (DType::F32, KvType::Q8_0, ids(37, 4));
        for (dtype, kv_type, prompt) in DTYPES.map(|dtype| (dtype, KvType::F32, ids(9, 4))).into_iter().chain([coded]) {
            let file = builder.clone().dtype(dtype).build();
            let model = Model::parse(file.bytes()).unwrap();
            let exact = naive::logits(&model, kv_type, &prompt);
            let largest = exact.iter().flatten().fold(1.0f64, |m, v| m.max(v.abs()));
            let tolerance = match (dtype, kv_type) {
                // Now and then a code of the cache is the other neighbour of a middle: one of 127 steps.
                (_, KvType::Q8_0) => 1e-2,
                (DType::F32 | DType::Bf16, _) => 3e-6,
                // 16-bit activation codes cost about 2^-16 of a block's largest value.
                _ => 1e-3,
            } * largest;
            for (pos, (got, exact)) in stepwise(&file, kv_type, &prompt).iter().zip(&exact).enumerate() {
                for (id, (got, exact)) in got.iter().zip(exact).enumerate() {
                    let got = f64::from(f32::from_bits(*got));
                    let error = (got - exact).abs();
                    let what = format_args!("variant {i} {dtype:?} {kv_type:?} position {pos} id {id}");
                    assert!(error <= tolerance, "{what}: {got} for {exact}");
                }
            }
        }
    }
}

#[test]
fn batches_give_the_bits_of_single_tokens() {
    let prompt = ids(43, 5);
    let last = variants().len() - 1;
    for (i, builder) in variants().into_iter().enumerate() {
        for dtype in DTYPES {
            // Every dtype on the first and the last variant, in turn on the others: time.
            if i != 0 && i != last && dtype != DTYPES[i % DTYPES.len()] {
                continue;
            }
            let file = builder.clone().dtype(dtype).build();
            let model = Model::parse(file.bytes()).unwrap();
            for kv_type in KvType::ALL {
                let single = stepwise(&file, kv_type, &prompt);
                for batch in [1, 2, 3, 8, 17, 64] {
                    let plan = plan(&model, kv_type, batch);
                    let mut memory = memory(&plan);
                    let mut session = Session::new(&model, plan, &mut memory, Isa::Scalar).unwrap();
                    assert_eq!(bits(session.prefill(&prompt[..20], &Serial).unwrap()), single[19]);
                    assert_eq!(bits(session.prefill(&prompt[20..], &Serial).unwrap()), single[42]);
                }
            }
        }
    }
}

#[test]
fn five_and_ten_leave_fifteen_and_touch_nothing_beyond() {
    let mut builder = Builder::tiny();
    builder.config.kv_head_count = 2;
    let file = builder.build();
    let model = Model::parse(file.bytes()).unwrap();
    let plan = Plan::new(&model, 40, 8).unwrap();
    let mut memory = memory(&plan);
    let mut session = Session::new(&model, plan, &mut memory, Isa::Scalar).unwrap();
    session.prefill(&ids(5, 6), &Serial).unwrap();
    assert_eq!(session.kv_len(), 5);
    for i in 0..10 {
        // Greedy, forwarded each time.
        let logits = session.logits();
        let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
        session.step(best as u32, &Serial).unwrap();
        assert_eq!(session.kv_len(), 6 + i);
    }
    assert_eq!(session.kv_len(), 15);
    let row = model.config.head_dim;
    let (keys, values) = session.caches();
    for cache in [keys, values] {
        for head in cache.chunks_exact(40 * row) {
            assert!(head[..15 * row].iter().all(|v| v.is_finite()));
            assert!(head[15 * row..].iter().all(|v| v.to_bits() == u32::MAX));
        }
    }
}

#[test]
fn a_shortened_or_reset_sequence_gives_the_bits_of_a_cold_start() {
    for (dtype, kv_type) in DTYPES.into_iter().flat_map(|dtype| KvType::ALL.map(|kv_type| (dtype, kv_type))) {
        let file = Builder::tiny().dtype(dtype).build();
        let model = Model::parse(file.bytes()).unwrap();
        let plan = plan(&model, kv_type, 4);
        let mut memory = memory(&plan);
        let mut session = Session::new(&model, plan, &mut memory, Isa::Scalar).unwrap();
        let (first, second) = (ids(45, 7), ids(12, 8));
        session.prefill(&first, &Serial).unwrap();
        session.truncate(11).unwrap();
        let mixed = [&first[..11], &second].concat();
        assert_eq!(bits(session.prefill(&second, &Serial).unwrap()), stepwise(&file, kv_type, &mixed)[22]);
        session.reset();
        assert_eq!(session.kv_len(), 0);
        assert_eq!(bits(session.prefill(&second, &Serial).unwrap()), stepwise(&file, kv_type, &second)[11]);
        assert_eq!(session.truncate(13).unwrap_err().code(), Code::TruncateLength);
    }
}

/// Named root causes of an earlier runtime: each must make a difference here.
#[test]
fn position_and_length_advance_with_every_token() {
    let file = Builder::tiny().build();
    // The same token three times: without an advancing position all keys would be equal and so all logits.
    let same = stepwise(&file, KvType::F32, &[5, 5, 5]);
    assert_ne!(same[0], same[1]);
    assert_ne!(same[1], same[2]);
    // The order of earlier tokens matters only through their positions.
    let (ab, ba) = (stepwise(&file, KvType::F32, &[3, 9, 4]), stepwise(&file, KvType::F32, &[9, 3, 4]));
    assert_ne!(ab[2], ba[2]);
    // Earlier tokens matter: the length was committed.
    let (a, b) = (stepwise(&file, KvType::F32, &[1, 4]), stepwise(&file, KvType::F32, &[2, 4]));
    assert_ne!(a[1], b[1]);
}

#[test]
fn errors_leave_the_sequence_as_it_was() {
    let file = Builder::tiny().build();
    let model = Model::parse(file.bytes()).unwrap();
    let plan = Plan::new(&model, 10, 4).unwrap();
    let mut memory = memory(&plan);
    let mut session = Session::new(&model, plan, &mut memory, Isa::Scalar).unwrap();
    assert_eq!(session.prefill(&[], &Serial).unwrap_err().code(), Code::EmptyPrompt);
    session.prefill(&ids(7, 2), &Serial).unwrap();
    let error = session.prefill(&[1, 37], &Serial).unwrap_err();
    assert_eq!((error.code(), error.index()), (Code::TokenRange, Some(1)));
    assert_eq!(session.prefill(&[1; 4], &Serial).unwrap_err().code(), Code::ContextExceeded);
    assert_eq!(session.kv_len(), 7);
    session.prefill(&[1; 3], &Serial).unwrap();
    assert_eq!(session.step(1, &Serial).unwrap_err().code(), Code::ContextExceeded);
    assert_eq!(session.kv_len(), 10);
}

#[test]
fn values_that_are_not_finite_are_named() {
    // Weights so large that products overflow, placed in one tensor at a time.
    for (name, code) in [
        ("layers.1.wv.weight", Code::NonFiniteAttention),
        ("layers.1.wk.weight", Code::NonFiniteAttention),
        ("layers.1.wo.weight", Code::NonFiniteAttention),
        ("layers.1.w1.weight", Code::NonFiniteFfn),
        ("layers.1.w2.weight", Code::NonFiniteFfn),
        ("output.weight", Code::NonFiniteLogits),
    ] {
        let mut builder = Builder::tiny();
        builder.config.tied = false;
        let file = builder.build();
        let container = *Model::parse(file.bytes()).unwrap().container();
        let index = container.find(name).unwrap();
        let entry = container.entry(index).unwrap();
        let mut bytes = file.bytes().to_vec();
        let range = entry.byte_offset as usize..(entry.byte_offset + entry.byte_length) as usize;
        for value in bytes[range].as_chunks_mut::<4>().0 {
            *value = 3e38f32.to_le_bytes();
        }
        seal(&mut bytes);
        let file = Aligned::new(&bytes);
        let model = Model::parse(file.bytes()).unwrap();
        let plan = Plan::new(&model, 8, 4).unwrap();
        let mut memory = memory(&plan);
        let mut session = Session::new(&model, plan, &mut memory, Isa::Scalar).unwrap();
        let error = session.prefill(&[1, 2, 3], &Serial).unwrap_err();
        assert_eq!(error.code(), code, "{name}");
        assert_eq!(session.kv_len(), 0);
        if code != Code::NonFiniteLogits {
            assert_eq!(error.index(), Some(1), "{name}");
        }
    }
}

#[test]
fn plans_are_exact_and_checked() {
    let file = Builder::tiny().build();
    let model = Model::parse(file.bytes()).unwrap();
    assert_eq!(Plan::new(&model, 0, 1).unwrap_err().code(), Code::EmptyPlan);
    assert_eq!(Plan::new(&model, 65, 1).unwrap_err().code(), Code::ContextExceeded);
    let plan = Plan::new(&model, 16, 4).unwrap().for_workers(3).unwrap();
    assert_eq!(plan.kv_bytes(), 2 * 2 * 16 * 20 * 4);
    let coded = plan.for_cache(&model, KvType::Q8_0).unwrap();
    // Keys: two row groups; values: one column block; a step for each position.
    let head = 2 * model.config.head_dim.div_ceil(32) * 272 + model.config.head_dim.div_ceil(8) * 272 + 16 * 4;
    assert_eq!(coded.kv_bytes(), model.config.layer_count * model.config.kv_head_count * head);
    assert_eq!(coded.kv_bytes() + coded.logits_bytes() + coded.scratch_bytes(), coded.bytes());
    assert_eq!(plan.kv_bytes() + plan.logits_bytes() + plan.scratch_bytes(), plan.bytes());
    assert_eq!(plan.bytes() % 64, 0);
    let mut enough = memory(&plan);
    assert!(Session::new(&model, plan, &mut enough, Isa::Scalar).is_ok());
    let error = Session::new(&model, plan, &mut enough[1..], Isa::Scalar).unwrap_err();
    assert_eq!((error.code(), error.offset()), (Code::MemoryTooSmall, Some(plan.bytes() as u64)));
    let mut other = Builder::tiny();
    other.config.ffn_size = 51;
    let other = other.build();
    let other = Model::parse(other.bytes()).unwrap();
    assert_eq!(Session::new(&other, plan, &mut enough, Isa::Scalar).unwrap_err().code(), Code::PlanMismatch);
}
