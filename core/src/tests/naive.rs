//! The decoder once more, in f64 and one token at a time, written from the specification alone.

use crate::container::DType;
use crate::kernels::f16::f16_to_f32;
use crate::kv_cache::KvType;
use crate::model::config::{Config, QkNorm};
use crate::model::tensors::Role;
use crate::model::{Activation, Linear, Matrix, Model};
use std::vec;
use std::vec::Vec;

/// Row `r` of a matrix, its values as `SPEC.md`, section 4, writes them.
pub fn row(m: &Matrix<'_>, r: usize) -> Vec<f64> {
    if !m.dtype.is_quantised() {
        let size = if m.dtype == DType::F32 { 4 } else { 2 };
        let widen = |value: &[u8]| {
            let mut bytes = [0; 4];
            bytes[4 - size..].copy_from_slice(value);
            f64::from(f32::from_le_bytes(bytes))
        };
        return m.data[r * m.cols * size..(r + 1) * m.cols * size].chunks(size).map(widen).collect();
    }
    let group_bytes = m.dtype.group_bytes();
    let half = |group: &[u8], i: usize| f16_to_f32([group[2 * i], group[2 * i + 1]]);
    (0..m.cols)
        .map(|c| {
            let group = &m.data[((r / 8) * m.cols.div_ceil(32) + c / 32) * group_bytes..][..group_bytes];
            let (lane, column) = (r % 8, c % 32);
            let codes = &group[2 * m.dtype.group_scales()..];
            let d = half(group, lane);
            let nibble = || {
                let byte = codes[(column / 4 % 4) * 32 + lane * 4 + column % 4];
                if column < 16 { byte & 15 } else { byte >> 4 }
            };
            let w = match m.dtype {
                DType::Q8_0 => d * f32::from(codes[(column / 4) * 32 + lane * 4 + column % 4] as i8),
                DType::Q4_0 => d * (f32::from(nibble()) - 8.0),
                _ => d * f32::from(nibble()) + half(group, lane + 8),
            };
            f64::from(w)
        })
        .collect()
}

fn linear(l: &Linear<'_>, x: &[f64]) -> Vec<f64> {
    (0..l.matrix.rows)
        .map(|r| {
            let dot: f64 = row(&l.matrix, r).iter().zip(x).map(|(w, x)| w * x).sum();
            dot + l.bias.map_or(0.0, |b| f64::from(b[r]))
        })
        .collect()
}

fn norm(x: &[f64], w: Option<&[f32]>, eps: f32) -> Vec<f64> {
    let Some(w) = w else { return x.to_vec() };
    x.chunks(w.len())
        .flat_map(|x| {
            let mean = x.iter().map(|v| v * v).sum::<f64>() / x.len() as f64;
            let factor = 1.0 / (mean + f64::from(eps)).sqrt();
            x.iter().zip(w).map(move |(v, w)| v * factor * f64::from(*w)).collect::<Vec<_>>()
        })
        .collect()
}

fn cap(x: f64, cap: f32) -> f64 {
    if cap == 0.0 { x } else { (x / f64::from(cap)).tanh() * f64::from(cap) }
}

/// The f16 nearest to a value that is not negative, ties to even.
fn half(x: f64) -> f64 {
    let step = (x.max(1e-30).log2().floor().max(-14.0) - 10.0).exp2();
    (x / step).round_ties_even() * step
}

/// What a cache of codes keeps of keys, with a scale for each 32, or of values, with one for each head.
fn coded(x: &[f64], head_dim: usize, block: usize, step: fn(f64) -> f64) -> Vec<f64> {
    x.chunks(head_dim)
        .flat_map(|head| head.chunks(block))
        .flat_map(|block| {
            let d = step(block.iter().fold(0.0f64, |m, v| m.max(v.abs())) / 127.0);
            block.iter().map(move |v| if d == 0.0 { 0.0 } else { (v / d).round_ties_even().clamp(-127.0, 127.0) * d })
        })
        .collect()
}

/// Logits of each position.
pub fn logits(model: &Model<'_>, kv_type: KvType, ids: &[u32]) -> Vec<Vec<f64>> {
    let c: &Config = &model.config;
    let (d, eps) = (c.head_dim, c.rms_norm_epsilon);
    let mut keys: Vec<Vec<Vec<f64>>> = vec![vec![]; c.layer_count];
    let mut values = keys.clone();
    let mut all = vec![];
    for (pos, &id) in ids.iter().enumerate() {
        let mut x: Vec<f64> =
            row(&model.embedding(), id as usize).iter().map(|v| v * f64::from(c.embedding_scale)).collect();
        for i in 0..c.layer_count {
            let layer = model.layer(i);
            let h = norm(&x, layer.norm(Role::AttnNorm), eps);
            let (mut q, mut k, v) = (
                linear(&layer.linear(Role::Wq), &h),
                linear(&layer.linear(Role::Wk), &h),
                linear(&layer.linear(Role::Wv), &h),
            );
            match c.qk_norm {
                QkNorm::None => assert!(layer.norm(Role::QNorm).is_none()),
                QkNorm::PerHead => assert_eq!(layer.norm(Role::QNorm).unwrap().len(), d),
                QkNorm::Whole => assert_eq!(layer.norm(Role::QNorm).unwrap().len(), c.head_count * d),
            }
            q = norm(&q, layer.norm(Role::QNorm), eps);
            k = norm(&k, layer.norm(Role::KNorm), eps);
            if let Some(table) = model.rope.table_index(i) {
                let table = model.rope.table(table).unwrap();
                for head in q.chunks_mut(d).chain(k.chunks_mut(d)) {
                    let half = table.rotary_dim / 2;
                    for j in 0..half {
                        let angle = f64::from(pos as f32 * table.inv_freq[j]);
                        let factor = f64::from(table.attention_factor);
                        let (sin, cos) = (angle.sin() * factor, angle.cos() * factor);
                        let (a, b) = (head[j], head[j + half]);
                        head[j] = a * cos - b * sin;
                        head[j + half] = b * cos + a * sin;
                    }
                }
            }
            if kv_type == KvType::Q8_0 {
                keys[i].push(coded(&k, d, 32, half));
                values[i].push(coded(&v, d, d, |d| d));
            } else {
                keys[i].push(k);
                values[i].push(v);
            }
            let window = model.window(i);
            let first = if window == 0 { 0 } else { (pos + 1).saturating_sub(window) };
            let mut attended = vec![];
            for head in 0..c.head_count {
                let kv = head / (c.head_count / c.kv_head_count);
                let q = &q[head * d..(head + 1) * d];
                let scores: Vec<f64> = (first..=pos)
                    .map(|t| {
                        let k = &keys[i][t][kv * d..(kv + 1) * d];
                        let dot: f64 = q.iter().zip(k).map(|(a, b)| a * b).sum();
                        cap(dot * f64::from(c.attention_scale), c.attention_softcap)
                    })
                    .collect();
                let max = scores.iter().copied().fold(f64::MIN, f64::max);
                let e: Vec<f64> = scores.iter().map(|s| (s - max).exp()).collect();
                let sum: f64 = e.iter().sum();
                for j in 0..d {
                    let mix: f64 = (first..=pos).map(|t| e[t - first] * values[i][t][kv * d + j]).sum();
                    attended.push(mix / sum);
                }
            }
            let branch = norm(&linear(&layer.linear(Role::Wo), &attended), layer.norm(Role::AttnPostNorm), eps);
            x.iter_mut().zip(&branch).for_each(|(x, b)| *x += b * f64::from(c.residual_scale));
            let h = norm(&x, layer.norm(Role::FfnNorm), eps);
            let (gate, up) = (linear(&layer.linear(Role::W1), &h), linear(&layer.linear(Role::W3), &h));
            let gated: Vec<f64> = gate
                .iter()
                .zip(&up)
                .map(|(&g, u)| {
                    let u2 = (2.0 / std::f64::consts::PI).sqrt() * (g + 0.044715 * g * g * g);
                    match c.activation {
                        Activation::Silu => g / (1.0 + (-g).exp()) * u,
                        Activation::GeluTanh => 0.5 * g * (1.0 + u2.tanh()) * u,
                    }
                })
                .collect();
            let branch = norm(&linear(&layer.linear(Role::W2), &gated), layer.norm(Role::FfnPostNorm), eps);
            x.iter_mut().zip(&branch).for_each(|(x, b)| *x += b * f64::from(c.residual_scale));
        }
        let h = norm(&x, Some(model.final_norm()), eps);
        let head = Linear { matrix: model.head(), bias: None };
        let out = linear(&head, &h);
        all.push(out.iter().map(|v| cap(v / f64::from(c.logit_divisor), c.logit_softcap)).collect());
    }
    all
}
