//! Every instruction set this machine has, against portable code, bit for bit.

use super::build::{Random, matrix};
use crate::container::DType;
use crate::kernels::codes::encode;
use crate::kernels::{Codes, Input, Isa, Product, Serial, Step, matmul};
use crate::model::{Activation, Linear, Matrix};
use crate::ops::activation::{finish_logits, gate};
use crate::ops::attention::{Attend, attend};
use crate::ops::residual::add_scaled;
use crate::ops::rms_norm::rms_norm;
use crate::ops::rope::rotate;
use std::vec;
use std::vec::Vec;

/// Instruction sets besides `Scalar`.
fn others() -> Vec<Isa> {
    let mut all = vec![];
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("f16c") {
        // SAFETY: just detected.
        #[allow(unsafe_code)]
        all.push(Isa::Avx2(unsafe { crate::kernels::Avx2::assume() }));
    }
    if Isa::baseline() != Isa::Scalar {
        all.push(Isa::baseline());
    }
    if all.is_empty() {
        std::eprintln!("SKIPPED comparison of kernels: this machine has none but the portable ones");
    }
    all
}

struct Inputs {
    x: Vec<f32>,
    codes: Vec<i16>,
    steps: Vec<Step>,
}

fn inputs(x: Vec<f32>, tokens: usize, cols: usize) -> Inputs {
    let blocks = cols.div_ceil(32);
    // The codes of a session begin at a multiple of 64; a vector of i16 promises less.
    let mut codes = vec![0i16; tokens * blocks * 32];
    let mut steps = vec![Step { d: 0.0, sum: 0 }; tokens * blocks];
    assert!(encode(Isa::Scalar, &x, cols, &mut codes, &mut steps));
    Inputs { x, codes, steps }
}

fn product(isa: Isa, m: Matrix<'_>, inputs: &Inputs, tokens: usize, bias: Option<&[f32]>) -> Vec<u32> {
    let mut out = vec![f32::NAN; tokens * m.rows];
    let codes = Codes { codes: &inputs.codes, steps: &inputs.steps };
    let input = Input { tokens, cols: m.cols, floats: &inputs.x, codes };
    matmul(isa, &Serial, &input, &[Product::new(&Linear { matrix: m, bias }, &mut out)]).unwrap();
    out.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn matrix_products() {
    let mut random = Random(21);
    let sizes: Vec<usize> = if cfg!(miri) { vec![1, 9, 33] } else { (1..70).collect() };
    for isa in others() {
        for (i, &rows) in sizes.iter().enumerate() {
            // All sizes for rows and, in another order, for columns; a few long rows.
            let cols = if i % 16 == 5 { 32 * i + 1 } else { sizes[(i * 29 + 7) % sizes.len()] };
            for dtype in [DType::F32, DType::Q8_0, DType::Q4_0, DType::Q4_1] {
                let data = matrix(&mut random, dtype, rows as u32, cols as u32);
                // Payloads are read at every alignment their elements allow.
                let shift = if dtype == DType::F32 { 4 * (i % 4) } else { i % 13 };
                let mut place = vec![0u64; data.len() / 8 + 4];
                let place = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut place)[shift..shift + data.len()];
                place.copy_from_slice(&data);
                let m = Matrix { dtype, rows, cols, data: place };
                let bias: Vec<f32> = (0..rows).map(|_| random.float()).collect();
                for tokens in [1, 2, 3, 8, 9, 17] {
                    let x = (0..tokens * cols).map(|_| random.float()).collect();
                    let inputs = inputs(x, tokens, cols);
                    let bias = (i % 3 == 0).then_some(bias.as_slice());
                    let expected = product(Isa::Scalar, m, &inputs, tokens, bias);
                    assert_eq!(product(isa, m, &inputs, tokens, bias), expected, "{dtype:?} {rows} x {cols}, {tokens}");
                }
            }
        }
    }
}

#[test]
fn extreme_codes() {
    for isa in others() {
        for dtype in [DType::Q8_0, DType::Q4_0, DType::Q4_1] {
            for fill in [0x00u8, 0xff, 0x80, 0x7f, 0xf0, 0x0f, 0x08] {
                for scale in [0x7bffu16, 0xfbff, 0x0001, 0x8001, 0x0000, 0x8000, 0x03ff] {
                    let mut data = vec![fill; dtype.group_bytes() * 2];
                    for group in data.chunks_mut(dtype.group_bytes()) {
                        for half in group[..2 * dtype.group_scales()].chunks_mut(2) {
                            half.copy_from_slice(&scale.to_le_bytes());
                        }
                    }
                    let m = Matrix { dtype, rows: 8, cols: 64, data: &data };
                    for sign in [1.0f32, -1.0] {
                        let alternating = |i: usize| if i.is_multiple_of(2) { sign } else { -sign };
                        for x in [vec![sign; 64], (0..64).map(alternating).collect(), vec![1e-35 * sign; 64]] {
                            let inputs = inputs(x, 1, 64);
                            assert_eq!(product(isa, m, &inputs, 1, None), product(Isa::Scalar, m, &inputs, 1, None));
                            let many = self::inputs(inputs.x.repeat(9), 9, 64);
                            assert_eq!(product(isa, m, &many, 9, None), product(Isa::Scalar, m, &many, 9, None));
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
fn operators() {
    let mut random = Random(22);
    for isa in others() {
        for n in 1..200 {
            let x = odd_floats(&mut random, n);
            let y = odd_floats(&mut random, n);
            for activation in [Activation::Silu, Activation::GeluTanh] {
                let (mut a, mut b) = (x.clone(), x.clone());
                gate(Isa::Scalar, activation, &mut a, &y);
                gate(isa, activation, &mut b, &y);
                assert_eq!(bits(&a), bits(&b));
            }
            for (divisor, cap) in [(1.0, 0.0), (7.0, 30.0)] {
                let (mut a, mut b) = (x.clone(), x.clone());
                let finite = finish_logits(Isa::Scalar, &mut a, divisor, cap);
                assert_eq!(finite, finish_logits(isa, &mut b, divisor, cap));
                assert_eq!(bits(&a), bits(&b));
            }
            let (mut a, mut b) = (x.clone(), x.clone());
            assert_eq!(add_scaled(Isa::Scalar, &mut a, &y, 0.3), add_scaled(isa, &mut b, &y, 0.3));
            assert_eq!(bits(&a), bits(&b));
            let (mut a, mut b) = (x.clone(), x.clone());
            rms_norm(Isa::Scalar, &mut a, &y, 1e-5);
            rms_norm(isa, &mut b, &y, 1e-5);
            assert_eq!(bits(&a), bits(&b));
            let (mut a, mut b) = (x.repeat(2), x.repeat(2));
            rotate(Isa::Scalar, &mut a, 2 * n, &x, &y);
            rotate(isa, &mut b, 2 * n, &x, &y);
            assert_eq!(bits(&a), bits(&b));
        }
    }
}

#[test]
fn attention() {
    let mut random = Random(23);
    for isa in others() {
        for (i, positions) in (1..200).enumerate() {
            let (heads, dim) = (1 + i % 3, [64, 16, 10, 80, 128, 34][i % 6]);
            let mut floats = |n: usize| (0..n).map(|_| random.float()).collect::<Vec<f32>>();
            let (queries, keys, values) = (floats(heads * dim), floats(positions * dim), floats(positions * dim));
            let run = |isa: Isa| {
                let (mut scores, mut out) = (vec![0.0; heads * 200], vec![0.0; heads * dim]);
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
                        scores: &mut scores,
                        score_stride: 200,
                        out: &mut out,
                    },
                ));
                bits(&out)
            };
            assert_eq!(run(isa), run(Isa::Scalar), "{positions} positions, {heads} heads of {dim}");
        }
    }
}
