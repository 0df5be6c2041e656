//! The forward pass one widened layer at a time, over all positions of a set of prompts, with the core's own operators.
//! Only the weights in use are in memory: a matrix is asked for by name, used, and dropped.

use super::config::{Activation, Architecture, QkNorm, biases, norms};
use crate::failure::{Failure, Kind};
use std::collections::BTreeMap;
use tinyrustlm_core::container::DType;
use tinyrustlm_core::kernels::{Codes, Input, Isa, Product, Step, Workers, codes, matmul};
use tinyrustlm_core::model::{self, Linear, Matrix, RopeTable};
use tinyrustlm_core::ops::activation::{finish_logits, gate};
use tinyrustlm_core::ops::attention::{Attend, attend};
use tinyrustlm_core::ops::embed::embed;
use tinyrustlm_core::ops::residual::add_scaled;
use tinyrustlm_core::ops::rms_norm::rms_norm;
use tinyrustlm_core::ops::rope::{angles, rotate};

/// A tensor in memory: payload bytes of the container, in words so that they are aligned.
#[derive(Debug)]
pub struct Weight {
    pub dtype: DType,
    pub rows: usize,
    pub cols: usize,
    pub words: Vec<u32>,
}

impl Weight {
    fn matrix(&self) -> Matrix<'_> {
        let data: &[u8] = bytemuck::cast_slice(&self.words);
        // An odd number of bf16 leaves half a word.
        let len = if self.dtype == DType::Bf16 { 2 * self.rows * self.cols } else { data.len() };
        Matrix { dtype: self.dtype, rows: self.rows, cols: self.cols, data: &data[..len] }
    }

    fn floats(&self) -> &[f32] {
        bytemuck::cast_slice(&self.words)
    }
}

/// Gives a tensor by its name in the container.
pub type Provide<'a> = dyn FnMut(&str) -> Result<Weight, Failure> + 'a;

/// Mean squares of the inputs of each matrix, by the matrix's name.
pub type Moments = BTreeMap<String, Vec<f32>>;

/// What a pass needs beside the weights.
#[derive(Clone, Copy)]
pub struct Runner<'a> {
    pub architecture: &'a Architecture,
    /// The head is the embedding.
    pub tied: bool,
    pub prompts: &'a [Vec<u32>],
    pub isa: Isa,
    pub workers: &'a dyn Workers,
}

fn broken(what: &str) -> Failure {
    Failure::new(Kind::Malformed, format!("the forward pass fails at {what}: a value is not finite"))
}

impl Runner<'_> {
    /// Positions of all prompts.
    pub fn positions(&self) -> usize {
        self.prompts.iter().map(Vec::len).sum()
    }

    /// Runs all layers and the last norm. Gives `[positions, hidden]`; `moments`, where wanted, are filled.
    pub fn states(&self, provide: &mut Provide, mut moments: Option<&mut Moments>) -> Result<Vec<f32>, Failure> {
        let a = self.architecture;
        let hidden = a.hidden_size as usize;
        let mut x = vec![0.0; self.positions() * hidden];
        {
            let embedding = provide("tok_embeddings.weight")?;
            let matrix = embedding.matrix();
            for (id, row) in self.prompts.iter().flatten().zip(x.chunks_exact_mut(hidden)) {
                embed(&matrix, *id as usize, a.embedding_scale, row);
            }
        }
        for index in 0..a.layer_count as usize {
            self.layer(index, &mut x, provide, &mut moments)?;
        }
        let norm = provide("norm.weight")?;
        rms_norm(self.isa, &mut x, norm.floats(), a.rms_norm_epsilon);
        if let Some(moments) = moments {
            moments.insert("output.weight".into(), mean_squares(&x, hidden));
        }
        Ok(x)
    }

    fn layer(
        &self,
        index: usize,
        x: &mut [f32],
        provide: &mut Provide,
        moments: &mut Option<&mut Moments>,
    ) -> Result<(), Failure> {
        let a = self.architecture;
        let name = |role: &str| format!("layers.{index}.{role}.weight");
        let eps = a.rms_norm_epsilon;
        let isa = self.isa;
        let normed = |x: &[f32], bit: u32, role: &str, provide: &mut Provide| -> Result<Vec<f32>, Failure> {
            let mut out = x.to_vec();
            if a.norms & bit != 0 {
                rms_norm(isa, &mut out, provide(&name(role))?.floats(), eps);
            }
            Ok(out)
        };
        let mut linear = |input: &[f32], role: &str, bit: u32, provide: &mut Provide| -> Result<Vec<f32>, Failure> {
            let weight = provide(&name(role))?;
            if let Some(moments) = moments {
                moments.insert(name(role), mean_squares(input, weight.cols));
            }
            let bias = if a.biases & bit != 0 { Some(provide(&format!("layers.{index}.{role}.bias"))?) } else { None };
            self.product(input, &weight, bias.as_ref().map(Weight::floats))
        };

        let input = normed(x, norms::BEFORE_ATTENTION, "attn_norm", provide)?;
        let mut q = linear(&input, "wq", biases::WQ, provide)?;
        let mut k = linear(&input, "wk", biases::WK, provide)?;
        let v = linear(&input, "wv", biases::WV, provide)?;
        if a.qk_norm != QkNorm::None {
            rms_norm(isa, &mut q, provide(&name("q_norm"))?.floats(), eps);
            rms_norm(isa, &mut k, provide(&name("k_norm"))?.floats(), eps);
        }
        self.rotate(index, &mut q, &mut k);
        let attended = self.attend(index, &q, &k, &v).ok_or_else(|| broken(&format!("layer {index}, attention")))?;
        let branch = linear(&attended, "wo", biases::WO, provide)?;
        let branch = normed(&branch, norms::AFTER_ATTENTION, "attn_post_norm", provide)?;
        if !add_scaled(isa, x, &branch, a.residual_scale) {
            return Err(broken(&format!("layer {index}, attention")));
        }

        let input = normed(x, norms::BEFORE_FFN, "ffn_norm", provide)?;
        let mut gated = linear(&input, "w1", biases::W1, provide)?;
        let up = linear(&input, "w3", biases::W3, provide)?;
        let activation = match a.activation {
            Activation::Silu => model::Activation::Silu,
            Activation::GeluTanh => model::Activation::GeluTanh,
        };
        gate(isa, activation, &mut gated, &up);
        let branch = linear(&gated, "w2", biases::W2, provide)?;
        let branch = normed(&branch, norms::AFTER_FFN, "ffn_post_norm", provide)?;
        if !add_scaled(isa, x, &branch, a.residual_scale) {
            return Err(broken(&format!("layer {index}, ffn")));
        }
        Ok(())
    }

    /// Logits of some positions of the final states; `[positions, vocabulary]`.
    pub fn logits(&self, states: &[f32], head: &Weight) -> Result<Vec<f32>, Failure> {
        let a = self.architecture;
        let mut logits = self.product(states, head, None)?;
        if !finish_logits(self.isa, &mut logits, a.logit_divisor, a.logit_softcap) {
            return Err(broken("the logits"));
        }
        Ok(logits)
    }

    /// Name of the head's tensor.
    pub fn head_name(&self) -> &'static str {
        if self.tied { "tok_embeddings.weight" } else { "output.weight" }
    }

    fn product(&self, input: &[f32], weight: &Weight, bias: Option<&[f32]>) -> Result<Vec<f32>, Failure> {
        let tokens = input.len() / weight.cols;
        let mut out = vec![0.0; tokens * weight.rows];
        let blocks = weight.cols.div_ceil(32);
        let coded = if weight.dtype.is_quantised() { tokens * blocks } else { 0 };
        let (mut code, mut steps) = (vec![0i16; coded * 32], vec![Step { d: 0.0, sum: 0 }; coded]);
        if coded != 0 && !codes::encode(self.isa, input, weight.cols, &mut code, &mut steps) {
            return Err(broken("an activation"));
        }
        let input = Input { tokens, cols: weight.cols, floats: input, codes: Codes { codes: &code, steps: &steps } };
        let linear = Linear { matrix: weight.matrix(), bias };
        matmul(self.isa, self.workers, &input, &[Product::new(&linear, &mut out)])
            .map_err(|error| Failure::new(Kind::Malformed, format!("matrix product: {error}")))?;
        Ok(out)
    }

    fn rotate(&self, index: usize, q: &mut [f32], k: &mut [f32]) {
        let a = self.architecture;
        let Some(table) = a.rope_tables.get(usize::from(a.rope_of_layer[index])) else { return };
        let view = RopeTable {
            rotary_dim: table.rotary_dim as usize,
            attention_factor: table.attention_factor,
            inv_freq: &table.inv_freq,
        };
        let half = table.inv_freq.len();
        let (mut cos, mut sin) = (vec![0.0; half], vec![0.0; half]);
        let positions = self.prompts.iter().flat_map(|prompt| 0..prompt.len());
        let rows = q.chunks_exact_mut(a.q_rows() as usize).zip(k.chunks_exact_mut(a.kv_rows() as usize));
        for (position, (q, k)) in positions.zip(rows) {
            angles(&view, position, &mut cos, &mut sin);
            rotate(self.isa, q, a.head_dim as usize, &cos, &sin);
            rotate(self.isa, k, a.head_dim as usize, &cos, &sin);
        }
    }

    fn attend(&self, index: usize, q: &[f32], k: &[f32], v: &[f32]) -> Option<Vec<f32>> {
        let a = self.architecture;
        let (dim, q_len, kv_len) = (a.head_dim as usize, a.q_rows() as usize, a.kv_rows() as usize);
        let group = q_len / a.kv_head_count as usize;
        let window = a.window[index] as usize;
        let mut out = vec![0.0; q.len()];
        let mut first = 0;
        for prompt in self.prompts {
            let mut scores = vec![0.0; group / dim * prompt.len()];
            for token in 0..prompt.len() {
                let start = if window == 0 { 0 } else { (token + 1).saturating_sub(window) };
                for head in 0..a.kv_head_count as usize {
                    let at = (first + token) * q_len + head * group;
                    let keys = (first + start) * kv_len + head * dim;
                    let end = (first + token + 1) * kv_len;
                    let finite = attend(
                        self.isa,
                        Attend {
                            queries: &q[at..at + group],
                            keys: &k[keys..end],
                            values: &v[keys..end],
                            stride: kv_len,
                            head_dim: dim,
                            positions: token + 1 - start,
                            scale: a.attention_scale,
                            softcap: a.attention_softcap,
                            cold: false,
                            scores: &mut scores,
                            score_stride: prompt.len(),
                            out: &mut out[at..at + group],
                        },
                    );
                    if !finite {
                        return None;
                    }
                }
            }
            first += prompt.len();
        }
        Some(out)
    }
}

fn mean_squares(x: &[f32], cols: usize) -> Vec<f32> {
    let mut sums = vec![0.0f64; cols];
    let mut rows = 0u32;
    for row in x.chunks_exact(cols) {
        rows += 1;
        for (sum, x) in sums.iter_mut().zip(row) {
            *sum += f64::from(*x) * f64::from(*x);
        }
    }
    sums.iter().map(|sum| (sum / f64::from(rows.max(1))) as f32).collect()
}
