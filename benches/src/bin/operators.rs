//! The operators between the matrix products, each alone, with every instruction set of this CPU.
//!
//!     cargo run --release -p tinyrustlm-benches --no-default-features --bin operators -- [ROUNDS] [NAME]
//!
//! 15 rounds by default; NAME keeps the operators whose names contain it. No model is needed: the shapes are those of
//! SmolLM2-135M, and larger ones beside them to show how the cost grows. In each round all instruction sets take turns;
//! printed are medians, and how many times as fast as portable code a set is within a round. What has no instruction set
//! is one row, `any`.
//!
//! An element is a float of the input or, in attention, a product: for each query head, position and dimension two, one
//! with the key and one with the value. GB/s count what is read and written, for operators that do little else.
//!
//! `attend` visits the caches of as many layers as make 64 MB, 30 at most, so that long ones come from memory as in a model;
//! `read` is what nothing but reading the same bytes takes in the same rounds.
//!
//! Attention over a cache of codes is private to the core. It is measured in sessions over a model of one layer: a step at
//! a depth, less a step at depth 1; once with keys and values as f32, once as codes. One layer's cache is small and stays in
//! the caches of the CPU.

use std::error::Error;
use std::hint::black_box;
use tinyrustlm::core::container::DType;
use tinyrustlm::core::kernels::codes::encode;
use tinyrustlm::core::kernels::{Isa, Serial, Step};
use tinyrustlm::core::kv_cache::{CacheShape, KvType};
use tinyrustlm::core::model::{Activation, Matrix, Model, RopeTable};
use tinyrustlm::core::ops::activation::{finish_logits, gate};
use tinyrustlm::core::ops::attention::{Attend, attend};
use tinyrustlm::core::ops::embed::embed;
use tinyrustlm::core::ops::residual::add_scaled;
use tinyrustlm::core::ops::rms_norm::rms_norm;
use tinyrustlm::core::ops::rope::{angles, rotate};
use tinyrustlm::core::plan::Plan;
use tinyrustlm::core::session::Session;
use tinyrustlm::measure::{Clock, decode_seconds, read_seconds};
use tinyrustlm::{Memory, describe};
use tinyrustlm_benches::{
    DIM, HEADS, HIDDEN, KV_HEADS, Random, Table, Turns, calls, instruction_sets, one_layer, seconds_each,
};

const USAGE: &str = "usage: operators [ROUNDS] [NAME]";
/// Elements of the feed-forward half.
const FFN: usize = 1536;
/// Query heads of a key head.
const GROUP: usize = HEADS / KV_HEADS;
/// Seconds of a turn.
const TURN: f64 = 1e-3;
/// Bytes of keys and values that long caches together have, more than a CPU's caches hold.
const WORKING_SET: usize = 64 << 20;

/// What is measured: the operator, at which size, and its elements and bytes for each call.
struct Case {
    name: &'static str,
    size: String,
    elements: usize,
    /// None where memory does not hold it up.
    bytes: Option<usize>,
}

/// How it is measured.
struct Bench {
    rounds: usize,
    only: String,
    sets: Vec<Isa>,
    table: Table,
}

impl Bench {
    fn skips(&self, name: &str) -> bool {
        !name.contains(&self.only)
    }

    /// Measures `call` with each instruction set.
    fn each_set(&self, case: &Case, mut call: impl FnMut(Isa)) {
        let sets: Vec<Option<Isa>> = self.sets.iter().copied().map(Some).collect();
        self.all(case, &sets, "", |isa| isa.into_iter().for_each(&mut call));
    }

    /// Measures `call`, which knows no instruction sets.
    fn any(&self, case: &Case, mut call: impl FnMut()) {
        self.all(case, &[None], "any", |_| call());
    }

    /// Measures `call` of each contestant. `none` is the name of the one that is no instruction set.
    fn all(&self, case: &Case, contestants: &[Option<Isa>], none: &str, mut call: impl FnMut(Option<Isa>)) {
        if self.skips(case.name) {
            return;
        }
        let calls: Vec<usize> = contestants.iter().map(|&isa| calls(TURN, || call(isa))).collect();
        let turn = |at: usize| seconds_each(calls[at], || call(contestants[at]));
        let turns = Turns::of(self.rounds, contestants.len(), turn);
        self.print(case, contestants, none, &turns);
    }

    /// A line for each contestant, portable code being the first where there is more than one.
    fn print(&self, case: &Case, contestants: &[Option<Isa>], none: &str, turns: &Turns) {
        for (at, isa) in contestants.iter().enumerate() {
            let ratio = (at > 0).then(|| turns.ratio(0, at));
            self.line(case, isa.map_or(none, |isa| isa.name()), turns.median(at), ratio);
        }
    }

    fn line(&self, case: &Case, set: &str, seconds: f64, ratio: Option<f64>) {
        self.table.row([
            case.name.to_owned(),
            case.size.clone(),
            set.to_owned(),
            format!("{:.1}", seconds * 1e9),
            format!("{:.3}", seconds * 1e9 / case.elements as f64),
            ratio.map_or(String::new(), |ratio| format!("{ratio:.2}")),
            case.bytes.map_or(String::new(), |bytes| format!("{:.1}", bytes as f64 / seconds / 1e9)),
        ]);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    let rounds =
        arguments.next_if(|word| word.parse::<usize>().is_ok()).map_or(Ok(15), |word| word.parse::<usize>())?;
    let only = arguments.next().unwrap_or_default();
    if rounds == 0 || only.starts_with('-') || arguments.next().is_some() {
        return Err(USAGE.into());
    }
    let mut random = Random(1);
    let columns =
        [("operator", 24), ("size", 14), ("set", 7), ("ns", 12), ("ns/element", 11), ("x scalar", 9), ("GB/s", 7)];
    let bench = Bench { rounds, only, sets: instruction_sets(), table: Table::new(&columns) };
    embeddings(&bench, &mut random);
    norms(&bench, &mut random);
    rotations(&bench, &mut random);
    codes(&bench, &mut random);
    stores(&bench, &mut random);
    attention(&bench, &mut random);
    sessions(&bench)?;
    activations(&bench, &mut random);
    residuals(&bench, &mut random);
    logits(&bench, &mut random);
    Ok(())
}

/// Rows of an embedding, here and there in it.
fn embeddings(bench: &Bench, random: &mut Random) {
    const ROWS: usize = 8192;
    let types = [
        (DType::F32, "embed f32"),
        (DType::Bf16, "embed bf16"),
        (DType::Q8_0, "embed q8_0"),
        (DType::Q4_0, "embed q4_0"),
        (DType::Q4_1, "embed q4_1"),
    ];
    for (dtype, name) in types {
        for cols in [HIDDEN, 2048] {
            if bench.skips(name) {
                continue;
            }
            let data = tinyrustlm_benches::weights(dtype, ROWS, cols, random);
            let matrix = Matrix { dtype, rows: ROWS, cols, data: bytemuck::cast_slice(&data) };
            let mut out = vec![0.0; cols];
            let mut row = 0;
            // Rows in blocks share their bytes with seven others.
            let bytes = (dtype == DType::F32).then_some(2 * 4 * cols);
            let case = Case { name, size: format!("{cols}"), elements: cols, bytes };
            bench.any(&case, || {
                row = (row + 5077) % ROWS;
                embed(&matrix, row, 1.5, &mut out);
                black_box(&mut out);
            });
        }
    }
}

fn norms(bench: &Bench, random: &mut Random) {
    for size in [DIM, HIDDEN, FFN, 4096] {
        // Weights of 1 keep what is normed again and again in range.
        let (mut x, weight) = (random.floats(size), vec![1.0; size]);
        let case = Case { name: "rms_norm", size: format!("{size}"), elements: size, bytes: None };
        bench.each_set(&case, |isa| {
            rms_norm(isa, &mut x, &weight, 1e-5);
            black_box(&mut x);
        });
    }
}

fn rotations(bench: &Bench, random: &mut Random) {
    for dim in [DIM, 2 * DIM] {
        let inv_freq: Vec<f32> = (0..dim / 2).map(|i| 10_000f32.powf(-((2 * i) as f32) / dim as f32)).collect();
        let table = RopeTable { rotary_dim: dim, attention_factor: 1.0, inv_freq: &inv_freq };
        let (mut cos, mut sin) = (vec![0.0; dim / 2], vec![0.0; dim / 2]);
        let mut position = 0;
        let case = Case { name: "rope angles", size: format!("{}", dim / 2), elements: dim / 2, bytes: None };
        bench.any(&case, || {
            position = (position + 1) % 8192;
            angles(&table, position, &mut cos, &mut sin);
            black_box((&mut cos, &mut sin));
        });
        for heads in [KV_HEADS, HEADS, 32] {
            let mut x = random.floats(heads * dim);
            let case = Case { name: "rope rotate", size: format!("{heads}x{dim}"), elements: x.len(), bytes: None };
            bench.each_set(&case, |isa| {
                rotate(isa, &mut x, dim, &cos, &sin);
                black_box(&mut x);
            });
        }
    }
}

/// The codes of a product's inputs.
fn codes(bench: &Bench, random: &mut Random) {
    for (tokens, cols) in [(1, HIDDEN), (1, FFN), (8, HIDDEN), (64, HIDDEN), (64, FFN)] {
        let x = random.floats(tokens * cols);
        let (mut codes, mut steps) = (vec![0; x.len()], vec![Step { d: 0.0, sum: 0 }; x.len() / 32]);
        let case = Case { name: "encode", size: format!("{tokens}x{cols}"), elements: x.len(), bytes: None };
        bench.each_set(&case, |isa| {
            black_box(encode(isa, &x, cols, &mut codes, &mut steps));
            black_box((&mut codes, &mut steps));
        });
    }
}

/// The keys and values of new positions into the cache of a layer.
fn stores(bench: &Bench, random: &mut Random) {
    const CONTEXT: usize = 2048;
    for (kv_type, name) in [(KvType::F32, "store f32"), (KvType::Q8_0, "store q8_0")] {
        let shape = CacheShape { kv_type, context: CONTEXT, kv_heads: KV_HEADS, head_dim: DIM };
        let (mut keys, mut values) = (vec![0.0; shape.key_len() * KV_HEADS], vec![0.0; shape.value_len() * KV_HEADS]);
        for tokens in [1, 64] {
            let new = random.floats(tokens * KV_HEADS * DIM);
            let mut first = 0;
            let case =
                Case { name, size: format!("{tokens}x{}", KV_HEADS * DIM), elements: 2 * new.len(), bytes: None };
            bench.any(&case, || {
                black_box(shape.store_keys(&mut keys, first, &new));
                black_box(shape.store_values(&mut values, first, &new));
                first = (first + tokens) % CONTEXT;
            });
        }
    }
}

/// A position's attention in one layer over keys and values as f32.
fn attention(bench: &Bench, random: &mut Random) {
    for (name, softcap) in [("attend f32", 0.0), ("attend f32, soft cap", 50.0)] {
        for positions in [64, 512, 2048, 8192] {
            if bench.skips(name) {
                continue;
            }
            let head = positions * DIM;
            let bytes = 2 * 4 * KV_HEADS * head;
            let layers = (WORKING_SET / bytes).clamp(1, 30);
            let (keys, values) = (random.floats(layers * KV_HEADS * head), random.floats(layers * KV_HEADS * head));
            let queries = random.floats(HEADS * DIM);
            let (mut scores, mut out) = (vec![0.0; GROUP * positions], vec![0.0; HEADS * DIM]);
            let mut layer = 0;
            let case = Case { name, size: format!("{positions}"), elements: 2 * HEADS * head, bytes: Some(bytes) };
            let contestants: Vec<Option<Isa>> = bench.sets.iter().copied().map(Some).chain([None]).collect();
            bench.all(&case, &contestants, "read", |isa| {
                layer = (layer + 1) % layers;
                let cache = layer * KV_HEADS * head..(layer + 1) * KV_HEADS * head;
                let Some(isa) = isa else {
                    for floats in [&keys[cache.clone()], &values[cache]] {
                        read_seconds(Clock::Wall, bytemuck::cast_slice(floats), &Serial);
                    }
                    return;
                };
                let heads = keys[cache.clone()].chunks_exact(head).zip(values[cache].chunks_exact(head));
                let rows = queries.chunks_exact(GROUP * DIM).zip(out.chunks_exact_mut(GROUP * DIM));
                for ((keys, values), (queries, out)) in heads.zip(rows) {
                    let job = Attend {
                        queries,
                        keys,
                        values,
                        stride: DIM,
                        head_dim: DIM,
                        positions,
                        scale: 0.125,
                        softcap,
                        cold: true,
                        scores: &mut scores,
                        score_stride: positions,
                        out,
                    };
                    black_box(attend(isa, job));
                }
                black_box(&mut out);
            });
        }
    }
}

/// The same in a session, over f32 and over codes.
fn sessions(bench: &Bench) -> Result<(), Box<dyn Error>> {
    /// Steps of a turn.
    const STEPS: usize = 16;
    const DEPTHS: [usize; 3] = [256, 1024, 2048];
    let kinds = [(KvType::F32, "attend f32, in session"), (KvType::Q8_0, "attend q8_0, in session")];
    if kinds.iter().all(|(_, name)| bench.skips(name)) {
        return Ok(());
    }
    let file = one_layer(DEPTHS[DEPTHS.len() - 1] + STEPS)?;
    let said = |e| describe(e, Some(file.bytes()));
    let model = Model::parse(file.bytes()).map_err(said)?;
    for (kv_type, name) in kinds {
        // For each instruction set a sequence of one position, then the deep ones.
        let of_set = |isa| [1].into_iter().chain(DEPTHS).map(move |depth| (isa, depth));
        let all: Vec<(Isa, usize)> = bench.sets.iter().flat_map(|&isa| of_set(isa)).collect();
        let plan = |depth| Plan::new(&model, depth + STEPS, 64).and_then(|plan| plan.for_cache(&model, kv_type));
        let plans = all.iter().map(|(_, depth)| plan(*depth)).collect::<Result<Vec<_>, _>>().map_err(said)?;
        let mut memories = plans.iter().map(Memory::new).collect::<Result<Vec<_>, _>>()?;
        let sessions = plans.iter().zip(&mut memories).zip(&all);
        let sessions = sessions.map(|((plan, memory), (isa, _))| Session::new(&model, *plan, memory.blocks(), *isa));
        let mut sessions = sessions.collect::<Result<Vec<_>, _>>().map_err(said)?;
        let mut turns = vec![Turns::new(bench.sets.len()); DEPTHS.len()];
        for round in 0..=bench.rounds {
            for (set, of_set) in sessions.chunks_mut(1 + DEPTHS.len()).enumerate() {
                let mut alone = 0.0;
                for (at, session) in of_set.iter_mut().enumerate() {
                    let depth = all[at].1;
                    let steps = decode_seconds(Clock::Wall, session, &Serial, depth, STEPS).map_err(said)?;
                    // Of the steps the fastest: a difference of two that were disturbed says nothing.
                    let step = steps.into_iter().fold(f64::INFINITY, f64::min);
                    match at.checked_sub(1) {
                        None => alone = step,
                        // The first round fills the caches.
                        Some(deep) if round > 0 => turns[deep].put(set, step - alone),
                        Some(_) => {}
                    }
                }
            }
        }
        let sets: Vec<Option<Isa>> = bench.sets.iter().copied().map(Some).collect();
        for (depth, turns) in DEPTHS.iter().zip(&turns) {
            let case = Case { name, size: format!("{depth}"), elements: 2 * HEADS * DIM * (depth - 1), bytes: None };
            bench.print(&case, &sets, "", turns);
        }
    }
    Ok(())
}

fn activations(bench: &Bench, random: &mut Random) {
    for (activation, name) in [(Activation::Silu, "gate silu"), (Activation::GeluTanh, "gate gelu tanh")] {
        for size in [HIDDEN, FFN, 64 * FFN] {
            // From here the activation is stable, and `up` brings it back: the same values in each call.
            let mut x: Vec<f32> = random.floats(size).into_iter().map(|x| -0.55 + 0.4 * x).collect();
            let mut activated = x.clone();
            gate(Isa::baseline(), activation, &mut activated, &vec![1.0; size]);
            let up: Vec<f32> = x.iter().zip(&activated).map(|(x, activated)| x / activated).collect();
            let case = Case { name, size: format!("{size}"), elements: size, bytes: None };
            bench.each_set(&case, |isa| {
                gate(isa, activation, &mut x, &up);
                black_box(&mut x);
            });
        }
    }
}

fn residuals(bench: &Bench, random: &mut Random) {
    for size in [HIDDEN, 2048, 64 * HIDDEN] {
        let (mut x, branch) = (random.floats(size), random.floats(size));
        let case = Case { name: "add_scaled", size: format!("{size}"), elements: size, bytes: Some(3 * 4 * size) };
        bench.each_set(&case, |isa| {
            black_box(add_scaled(isa, &mut x, &branch, 0.5));
            black_box(&mut x);
        });
    }
}

fn logits(bench: &Bench, random: &mut Random) {
    // A divisor of -1 is a division that leaves the values in range.
    let kinds = [("logits", 1.0, 0.0), ("logits, divisor", -1.0, 0.0), ("logits, soft cap", 1.0, 30.0)];
    for (name, divisor, cap) in kinds {
        for size in [8192, 49_152, 262_144] {
            let mut logits = random.floats(size);
            let case = Case { name, size: format!("{size}"), elements: size, bytes: Some(2 * 4 * size) };
            bench.each_set(&case, |isa| {
                black_box(finish_logits(isa, &mut logits, divisor, cap));
                black_box(&mut logits);
            });
        }
    }
}
