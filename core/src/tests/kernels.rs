//! Every instruction set this machine has, against portable code, bit for bit.

use super::build::{Builder, DTYPES, Random, matrix};
use crate::container::DType;
use crate::kernels::codes::encode;
use crate::kernels::{Codes, Input, Isa, Product, Serial, Step, matmul};
use crate::kv_cache::{CacheShape, KvType};
use crate::memory::Block64;
use crate::model::{Activation, Linear, Matrix, Model};
use crate::ops::activation::{finish_logits, gate};
use crate::ops::attention::{Attend, attend};
use crate::ops::code_attention::{AttendCodes, attend_codes};
use crate::ops::residual::add_scaled;
use crate::ops::rms_norm::rms_norm;
use crate::ops::rope::rotate;
use crate::plan::Plan;
use crate::session::Session;
use std::ops::{Deref, DerefMut};
use std::vec;
use std::vec::Vec;

/// Instruction sets besides `Scalar`.
fn others() -> Vec<Isa> {
    let mut all = vec![];
    #[cfg(target_arch = "x86_64")]
    {
        use crate::kernels::{Avx2, Avx512};
        use std::is_x86_feature_detected as has;
        let avx2 = has!("avx2") && has!("f16c");
        let avx512 = has!("avx512f") && has!("avx512bw") && has!("avx512vl") && has!("avx512vnni");
        if avx2 {
            // SAFETY: just detected.
            #[allow(unsafe_code)]
            all.push(Isa::Avx2(unsafe { Avx2::assume() }));
        }
        if avx2 && avx512 {
            // SAFETY: just detected.
            #[allow(unsafe_code)]
            all.push(Isa::Avx512(unsafe { Avx512::assume() }));
        } else {
            static ONCE: std::sync::Once = std::sync::Once::new();
            let say =
                || std::eprintln!("SKIPPED comparison of the AVX-512 kernels: this machine has no AVX-512 with VNNI");
            ONCE.call_once(say);
        }
    }
    if Isa::baseline() != Isa::Scalar {
        all.push(Isa::baseline());
    }
    if all.is_empty() && !cfg!(miri) {
        std::eprintln!("SKIPPED comparison of kernels: this machine has none but the portable ones");
    }
    // `linker/sanitized` reads it.
    let names: Vec<_> = [Isa::Scalar].iter().chain(&all).map(|isa| isa.name()).collect();
    std::println!("ran: {}", names.join(" "));
    all
}

/// `few` where an interpreter runs this, which takes its time.
fn cases<T: Clone>(few: &[T], all: impl IntoIterator<Item = T>) -> Vec<T> {
    if cfg!(miri) { few.to_vec() } else { all.into_iter().collect() }
}

/// Elements that end where their allocation ends, so that AddressSanitizer sees every access beyond, and begin `shift`
/// elements after it begins: 0 shows accesses before them, others put them at every alignment they may have.
struct Placed<T> {
    all: Vec<T>,
    shift: usize,
}

impl<T: Copy> Placed<T> {
    fn new(elements: &[T], shift: usize) -> Self {
        let mut all = vec![elements[0]; shift + elements.len()];
        all[shift..].copy_from_slice(elements);
        Self { all, shift }
    }
}

impl<T> Deref for Placed<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.all[self.shift..]
    }
}

impl<T> DerefMut for Placed<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.all[self.shift..]
    }
}

fn product(isa: Isa, m: Matrix<'_>, x: &[f32], shift: usize, bias: Option<&[f32]>) -> Vec<u32> {
    let (tokens, blocks) = (x.len() / m.cols, m.cols.div_ceil(32));
    let x = Placed::new(x, shift);
    // Integers twice as long as codes: they are read in pairs and must begin where such a pair may.
    let mut pairs = Placed::new(&vec![0i32; tokens * blocks * 16], shift);
    let mut steps = Placed::new(&vec![Step { d: 0.0, sum: 0 }; tokens * blocks], shift);
    assert!(encode(isa, &x, m.cols, bytemuck::cast_slice_mut(&mut pairs), &mut steps));
    let mut out = Placed::new(&vec![f32::NAN; tokens * m.rows], shift);
    let codes = Codes { codes: bytemuck::cast_slice(&pairs), steps: &steps };
    let input = Input { tokens, cols: m.cols, floats: &x, codes };
    matmul(isa, &Serial, &input, &[Product::new(&Linear { matrix: m, bias }, &mut out)]).unwrap();
    out.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn matrix_products() {
    let mut random = Random(21);
    let others = others();
    let sizes = cases(&[9], 1..70);
    for (i, &rows) in sizes.iter().enumerate() {
        // All sizes for rows and, in another order, for columns; a few long rows.
        let cols = match i % 16 {
            5 => 32 * i + 1,
            _ if cfg!(miri) => 37,
            _ => sizes[(i * 29 + 7) % sizes.len()],
        };
        for dtype in DTYPES {
            let data = matrix(&mut random, dtype, rows as u32, cols as u32);
            // Payloads are read at every alignment their elements allow.
            let (bytes, halves, floats);
            let data = match dtype {
                DType::F32 => {
                    let values: Vec<f32> = data.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
                    floats = Placed::new(&values, i % 16);
                    bytemuck::cast_slice(&floats)
                }
                DType::Bf16 => {
                    let values: Vec<u16> = data.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect();
                    halves = Placed::new(&values, i % 32);
                    bytemuck::cast_slice(&halves)
                }
                _ => {
                    bytes = Placed::new(&data, i % 13);
                    &bytes
                }
            };
            let m = Matrix { dtype, rows, cols, data };
            let bias: Vec<f32> = (0..rows).map(|_| random.float()).collect();
            for tokens in cases(&[1, 9], [1, 2, 3, 8, 9, 17]) {
                let x: Vec<f32> = (0..tokens * cols).map(|_| random.float()).collect();
                let bias = (i % 3 == 0).then_some(bias.as_slice());
                let expected = product(Isa::Scalar, m, &x, i % 16, bias);
                for isa in &others {
                    let got = product(*isa, m, &x, i % 16, bias);
                    assert_eq!(got, expected, "{}: {dtype:?} {rows} x {cols}, {tokens}", isa.name());
                }
            }
        }
    }
}

/// Numbers of tokens that are no whole tile, and more row groups than stay in the first cache while such numbers take turns.
#[test]
#[cfg_attr(miri, ignore = "minutes")]
fn many_row_groups_for_tokens_left_over() {
    let mut random = Random(25);
    let others = others();
    for (rows, cols) in [(401, 90), (64, 2050), (520, 33)] {
        for dtype in [DType::Q8_0, DType::Q4_0] {
            let data = matrix(&mut random, dtype, rows as u32, cols as u32);
            let m = Matrix { dtype, rows, cols, data: &data };
            for tokens in (2..8).chain([11, 15]) {
                let x: Vec<f32> = (0..tokens * cols).map(|_| random.float()).collect();
                let expected = product(Isa::Scalar, m, &x, 0, None);
                for isa in &others {
                    let got = product(*isa, m, &x, 0, None);
                    assert_eq!(got, expected, "{}: {dtype:?} {rows} x {cols}, {tokens}", isa.name());
                }
            }
        }
    }
}

#[test]
fn bf16_gives_the_bits_of_the_same_values_in_f32() {
    let all: Vec<Isa> = others().into_iter().chain([Isa::Scalar]).collect();
    let mut random = Random(24);
    for cols in cases(&[35], 1..70) {
        let rows = 1 + cols % 11;
        let bytes = matrix(&mut random, DType::Bf16, rows as u32, cols as u32);
        let halves: Vec<u16> = bytes.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect();
        let floats: Vec<f32> = halves.iter().map(|half| f32::from_bits(u32::from(*half) << 16)).collect();
        let narrow = Matrix { dtype: DType::Bf16, rows, cols, data: bytemuck::cast_slice(&halves) };
        let wide = Matrix { dtype: DType::F32, rows, cols, data: bytemuck::cast_slice(&floats) };
        for tokens in [1, 2, 9] {
            let x: Vec<f32> = (0..tokens * cols).map(|_| random.float()).collect();
            let expected = product(Isa::Scalar, wide, &x, 0, None);
            for &isa in &all {
                assert_eq!(product(isa, narrow, &x, 0, None), expected, "{}: {rows} x {cols}", isa.name());
            }
        }
    }
}

#[test]
fn extreme_codes() {
    let others = others();
    for dtype in [DType::Q8_0, DType::Q4_0, DType::Q4_1] {
        for fill in cases(&[0x80], [0x00u8, 0xff, 0x80, 0x7f, 0xf0, 0x0f, 0x08]) {
            for scale in cases(&[0xfbff], [0x7bffu16, 0xfbff, 0x0001, 0x8001, 0x0000, 0x8000, 0x03ff]) {
                let mut data = vec![fill; dtype.group_bytes() * 2];
                for group in data.chunks_mut(dtype.group_bytes()) {
                    for half in group[..2 * dtype.group_scales()].chunks_mut(2) {
                        half.copy_from_slice(&scale.to_le_bytes());
                    }
                }
                let m = Matrix { dtype, rows: 8, cols: 64, data: &data };
                for sign in cases(&[-1.0], [1.0f32, -1.0]) {
                    let alternating = |i: usize| if i.is_multiple_of(2) { sign } else { -sign };
                    let all = [vec![sign; 64], (0..64).map(alternating).collect(), vec![1e-35 * sign; 64]];
                    for x in cases(&all[..1], all.iter().cloned()) {
                        for tokens in [1, 9] {
                            let x = x.repeat(tokens);
                            let expected = product(Isa::Scalar, m, &x, 0, None);
                            for isa in &others {
                                assert_eq!(product(*isa, m, &x, 0, None), expected, "{}", isa.name());
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Floats of every kind, those that are not finite included.
fn odd_floats(random: &mut Random, n: usize) -> Vec<f32> {
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f32::MIN_POSITIVE,
        1e-42,
        -1e-42,
        87.0,
        -87.0,
        88.5,
        -103.0,
        1e30,
        -1e30,
        f32::MAX,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
    ];
    (0..n)
        .map(|_| match random.word() % 3 {
            0 => special[random.word() as usize % special.len()],
            1 => random.float() * 100.0,
            _ => random.float(),
        })
        .collect()
}

fn bits(floats: &[f32]) -> Vec<u32> {
    // Which NaN comes out is not part of the law.
    floats.iter().map(|v| if v.is_nan() { u32::MAX } else { v.to_bits() }).collect()
}

#[test]
fn activation_codes() {
    let mut random = Random(29);
    let others = others();
    for (n, tokens) in cases(&[(37usize, 9usize), (64, 1)], (1..100).flat_map(|n| [1, 8, 11].map(|tokens| (n, tokens))))
    {
        let blocks = tokens * n.div_ceil(32);
        for kind in 0..5 {
            let mut x: Vec<f32> = (0..n * tokens).map(|_| random.float()).collect();
            let last = x.len() - 1;
            match kind {
                // Blocks that count as zero, and those just above.
                0 => x.iter_mut().for_each(|v| *v *= f32::from_bits(0x0d80_0000)),
                // The largest, halves of a step, zeros of either sign.
                1 => x.iter_mut().for_each(|v| *v *= f32::MAX),
                2 => x.iter_mut().for_each(|v| *v = (*v * 65534.0).round() / 65534.0),
                3 => x.iter_mut().for_each(|v| *v = if *v < 0.5 { -0.0 } else { *v }),
                // What is not finite is seen wherever it stands.
                _ => x[last] = [f32::NAN, f32::INFINITY, -f32::INFINITY][n % 3],
            }
            let x = Placed::new(&x, n % 16);
            let run = |isa: Isa| {
                // Whatever stood there before.
                let mut codes = Placed::new(&vec![7i16; blocks * 32], n % 16);
                let mut steps = vec![Step { d: 0.0, sum: 0 }; blocks];
                let finite = encode(isa, &x, n, &mut codes, &mut steps);
                let all = Codes { codes: &codes, steps: &steps };
                let each =
                    (0..blocks).map(|i| all.block(tokens, blocks / tokens, i * tokens / blocks, i % (blocks / tokens)));
                let in_order = each.map(|(codes, Step { d, sum })| {
                    let columns: Vec<_> = codes.as_chunks().0.iter().flat_map(|places| isa.columns(*places)).collect();
                    (columns, d.to_bits(), isa.sum_of_codes(sum))
                });
                // Codes of what is not finite are never used.
                (finite, finite.then(|| in_order.collect::<Vec<_>>()))
            };
            let expected = run(Isa::Scalar);
            assert_eq!(expected.0, kind != 4);
            for isa in &others {
                assert!(run(*isa) == expected, "{} {tokens} x {n}, kind {kind}", isa.name());
            }
        }
    }
}

#[test]
fn operators() {
    let mut random = Random(22);
    let others = others();
    for n in cases(&[1, 35], 1..200) {
        let x = odd_floats(&mut random, n);
        let y = Placed::new(&odd_floats(&mut random, n), n % 16);
        // Every operator in place, its answer after the floats.
        let run = |isa: Isa| {
            let mut all = vec![];
            for activation in [Activation::Silu, Activation::GeluTanh] {
                let mut a = Placed::new(&x, n / 16 % 16);
                gate(isa, activation, &mut a, &y);
                all.push((bits(&a), true));
            }
            for (divisor, cap) in [(1.0, 0.0), (7.0, 30.0)] {
                let mut a = Placed::new(&x, n / 16 % 16);
                let finite = finish_logits(isa, &mut a, divisor, cap);
                all.push((bits(&a), finite));
            }
            let mut a = Placed::new(&x, n / 16 % 16);
            let finite = add_scaled(isa, &mut a, &y, 0.3);
            all.push((bits(&a), finite));
            let mut a = Placed::new(&x, n / 16 % 16);
            rms_norm(isa, &mut a, &y, 1e-5);
            all.push((bits(&a), true));
            let mut a = Placed::new(&x.repeat(2), n / 16 % 16);
            rotate(isa, &mut a, 2 * n, &x, &y);
            all.push((bits(&a), true));
            all
        };
        let expected = run(Isa::Scalar);
        for isa in &others {
            assert_eq!(run(*isa), expected, "{} of {n}", isa.name());
        }
    }
}

#[test]
fn attention() {
    let mut random = Random(23);
    let others = others();
    for (i, positions) in cases(&[1, 19], 1..200).into_iter().enumerate() {
        let (heads, dim) = (1 + i % 3, [64, 16, 10, 80, 128, 34][i % 6]);
        let mut floats = |n: usize| Placed::new(&(0..n).map(|_| random.float()).collect::<Vec<f32>>(), i % 16);
        let (queries, keys, values) = (floats(heads * dim), floats(positions * dim), floats(positions * dim));
        let run = |isa: Isa| {
            let mut scores = Placed::new(&vec![0.0; heads * 200], i % 16);
            let mut out = Placed::new(&vec![0.0; heads * dim], i % 16);
            assert!(attend(
                isa,
                Attend {
                    queries: &queries,
                    keys: &keys,
                    values: &values,
                    stride: dim,
                    head_dim: dim,
                    positions,
                    scale: 0.3,
                    softcap: if i % 5 == 0 { 2.0 } else { 0.0 },
                    cold: i % 2 == 0,
                    scores: &mut scores,
                    score_stride: 200,
                    out: &mut out,
                },
            ));
            bits(&out)
        };
        let expected = run(Isa::Scalar);
        for isa in &others {
            assert_eq!(run(*isa), expected, "{}: {positions} positions, {heads} heads of {dim}", isa.name());
        }
    }
}

#[test]
fn attention_over_codes() {
    let mut random = Random(24);
    let others = others();
    for (i, positions) in cases(&[3], 1..100).into_iter().enumerate() {
        let (heads, dim) = (1 + i % 3, [64, 16, 10, 80, 128, 34][i % 6]);
        let hidden = positions / 2 % 32;
        let mut floats = |n: usize| Placed::new(&(0..n).map(|_| random.float()).collect::<Vec<f32>>(), i % 16);
        let (queries, keys, values) = (floats(heads * dim), floats(positions * dim), floats(positions * dim));
        let shape = CacheShape { kv_type: KvType::Q8_0, context: positions, kv_heads: 1, head_dim: dim };
        let mut key_cache = Placed::new(&vec![0.0; shape.key_len()], i % 16);
        let mut value_cache = Placed::new(&vec![0.0; shape.value_len()], i % 16);
        assert!(shape.store_keys(&mut key_cache, 0, &keys) && shape.store_values(&mut value_cache, 0, &values));
        let run = |isa: Isa| {
            let mut space = Placed::new(&vec![9.0; shape.score_len(heads)], i % 16);
            let mut out = Placed::new(&vec![9.0; heads * dim], i % 16);
            let (values, steps) = shape.value_codes(&value_cache, 0, 0..positions);
            assert!(attend_codes(
                isa,
                AttendCodes {
                    queries: &queries,
                    keys: shape.key_codes(&key_cache, 0, 0..positions),
                    values,
                    steps,
                    hidden,
                    scale: 0.3,
                    softcap: if i % 5 == 0 { 2.0 } else { 0.0 },
                    cold: (i % 2 == 0).then(|| shape.key_codes(&key_cache, 0, 0..positions).soon()),
                    space: &mut space,
                    out: &mut out,
                },
            ));
            bits(&out)
        };
        let expected = run(Isa::Scalar);
        for isa in &others {
            assert_eq!(run(*isa), expected, "{}: {positions} positions, {heads} heads of {dim}", isa.name());
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes")]
fn sessions() {
    let others = others();
    for (dtype, kv_type) in DTYPES.into_iter().flat_map(|dtype| KvType::ALL.map(|kv| (dtype, kv))) {
        let file = Builder::tiny().dtype(dtype).build();
        let model = Model::parse(file.bytes()).unwrap();
        let plan = Plan::new(&model, 64, 8).unwrap().for_cache(&model, kv_type).unwrap();
        let ids: Vec<u32> = (0..43).map(|i| i * 7 % 37).collect();
        let run = |isa: Isa| {
            let mut memory = vec![Block64([0xff; 64]); plan.block_count()];
            let mut session = Session::new(&model, plan, &mut memory, isa).unwrap();
            bits(session.prefill(&ids, &Serial).unwrap())
        };
        let expected = run(Isa::Scalar);
        for isa in &others {
            assert_eq!(run(*isa), expected, "{}: {dtype:?}, cache {kv_type:?}", isa.name());
        }
    }
}
