//! The tensors by their roles.

use super::tensors::Role;
use super::{Linear, Matrix, Model};
use crate::bytes::rows;
use crate::container::{DType, RESERVED};
use crate::error::Code;

/// The weights of one layer. Absent norms are `None`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Layer<'a> {
    pub attn_norm: Option<&'a [f32]>,
    pub wq: Linear<'a>,
    pub wk: Linear<'a>,
    pub wv: Linear<'a>,
    pub q_norm: Option<&'a [f32]>,
    pub k_norm: Option<&'a [f32]>,
    pub wo: Linear<'a>,
    pub attn_post_norm: Option<&'a [f32]>,
    pub ffn_norm: Option<&'a [f32]>,
    /// The gate.
    pub w1: Linear<'a>,
    /// Up.
    pub w3: Linear<'a>,
    /// Down.
    pub w2: Linear<'a>,
    pub ffn_post_norm: Option<&'a [f32]>,
}

impl<'a> Model<'a> {
    /// The weights of layer `index`, which must be below `layer_count`.
    pub fn layer(&self, index: usize) -> Layer<'a> {
        let first = RESERVED.len().saturating_add(1).saturating_add(index.saturating_mul(self.layer_entries));
        let entry = |role: Role| {
            let slot = self.slots.get(role as usize).copied().flatten()?;
            Some(first.saturating_add(usize::from(slot)))
        };
        let vector = |role| entry(role).map(|index| self.vector(index));
        let linear =
            |weight, bias| Linear { matrix: self.matrix(entry(weight).unwrap_or(usize::MAX)), bias: vector(bias) };
        Layer {
            attn_norm: vector(Role::AttnNorm),
            wq: linear(Role::Wq, Role::WqBias),
            wk: linear(Role::Wk, Role::WkBias),
            wv: linear(Role::Wv, Role::WvBias),
            q_norm: vector(Role::QNorm),
            k_norm: vector(Role::KNorm),
            wo: linear(Role::Wo, Role::WoBias),
            attn_post_norm: vector(Role::AttnPostNorm),
            ffn_norm: vector(Role::FfnNorm),
            w1: linear(Role::W1, Role::W1Bias),
            w3: linear(Role::W3, Role::W3Bias),
            w2: linear(Role::W2, Role::W2Bias),
            ffn_post_norm: vector(Role::FfnPostNorm),
        }
    }

    /// The embedding `[vocab_size, hidden_size]`.
    pub fn embedding(&self) -> Matrix<'a> {
        self.matrix(RESERVED.len())
    }

    /// The norm before the head, `[hidden_size]`.
    pub fn final_norm(&self) -> &'a [f32] {
        self.vector(self.after_layers())
    }

    /// The head `[vocab_size, hidden_size]`; the embedding itself where they are tied.
    pub fn head(&self) -> Matrix<'a> {
        if self.config.tied { self.embedding() } else { self.matrix(self.after_layers().saturating_add(1)) }
    }

    fn after_layers(&self) -> usize {
        let in_layers = self.config.layer_count.saturating_mul(self.layer_entries);
        RESERVED.len().saturating_add(1).saturating_add(in_layers)
    }

    fn vector(&self, index: usize) -> &'a [f32] {
        bytemuck::try_cast_slice(self.container.payload(index)).unwrap_or(&[])
    }

    fn matrix(&self, index: usize) -> Matrix<'a> {
        match self.container.entry(index) {
            Some(entry) => {
                let [rows, cols, ..] = entry.dims;
                let data = self.container.payload(index);
                Matrix { dtype: entry.dtype, rows: rows as usize, cols: cols as usize, data }
            }
            None => Matrix { dtype: DType::F32, rows: 0, cols: 0, data: &[] },
        }
    }
}

/// Refuses values that are not finite: floats of f32 payloads, scales and minimums of groups.
/// Gives the offset in the payload.
pub(super) fn wrong_value(dtype: DType, payload: &[u8]) -> Option<(Code, u64)> {
    let group_bytes = dtype.group_bytes();
    if group_bytes == 0 {
        let Ok(words) = bytemuck::try_cast_slice::<_, u32>(payload) else { return Some((Code::ModelMisaligned, 0)) };
        let infinite = |word: &u32| word & 0x7f80_0000 == 0x7f80_0000;
        // Pieces keep the search vectorised.
        let piece = words.chunks(1024).position(|piece| piece.iter().fold(false, |any, word| any | infinite(word)))?;
        let first = piece.saturating_mul(1024);
        let at = first.saturating_add(words.iter().skip(first).position(infinite).unwrap_or(0));
        return Some((Code::WeightNotFinite, (at as u64).saturating_mul(4)));
    }
    let infinite = |scale: &[u8; 2]| u16::from_le_bytes(*scale) & 0x7c00 == 0x7c00;
    let scales = |group: &'_ [u8]| group.as_chunks::<2>().0.iter().take(dtype.group_scales()).position(infinite);
    let (group, scale) = rows(payload, group_bytes).map(scales).enumerate().find_map(|(i, at)| Some((i, at?)))?;
    let at = (group as u64).saturating_mul(group_bytes as u64).saturating_add((scale as u64).saturating_mul(2));
    Some((Code::ScaleNotFinite, at))
}
