//! `@config`: what the generic decoder of `SPEC.md`, section 6, has to know beside the header.

use crate::bytes::{Bound, bound, check_bounds, u32_at, word};
use crate::container::Header;
use crate::error::{Code, Error};

/// Bytes before the windows.
pub const FIXED_LENGTH: usize = 64;
/// The only version.
pub const CONFIG_VERSION: u32 = 1;

/// Position of `family`.
pub const FAMILY: usize = 4;
/// Position of `activation`.
pub const ACTIVATION: usize = 8;
/// Position of `qk_norm`.
pub const QK_NORM: usize = 12;
/// Position of `norms`.
pub const NORMS: usize = 16;
/// Position of `biases`.
pub const BIASES: usize = 20;
/// Position of `embedding_scale`.
pub const EMBEDDING_SCALE: usize = 24;
/// Position of `attention_scale`.
pub const ATTENTION_SCALE: usize = 28;
/// Position of `residual_scale`.
pub const RESIDUAL_SCALE: usize = 32;
/// Position of `attention_softcap`.
pub const ATTENTION_SOFTCAP: usize = 36;
/// Position of `logit_softcap`.
pub const LOGIT_SOFTCAP: usize = 40;
/// Position of `logit_divisor`.
pub const LOGIT_DIVISOR: usize = 44;
/// Position of `source_context`.
pub const SOURCE_CONTEXT: usize = 48;
/// Position of the reserved bytes.
pub const RESERVED: usize = 52;

/// Bits of `norms`.
pub mod norms {
    /// Before attention.
    pub const BEFORE_ATTENTION: u32 = 1;
    /// Before the FFN.
    pub const BEFORE_FFN: u32 = 2;
    /// On the output of attention.
    pub const AFTER_ATTENTION: u32 = 4;
    /// On the output of the FFN.
    pub const AFTER_FFN: u32 = 8;
    /// Every known bit.
    pub const ALL: u32 = 15;
}

/// Bits of `biases`.
pub mod biases {
    /// wq.
    pub const WQ: u32 = 1;
    /// wk.
    pub const WK: u32 = 2;
    /// wv.
    pub const WV: u32 = 4;
    /// wo.
    pub const WO: u32 = 8;
    /// w1, the gate.
    pub const W1: u32 = 16;
    /// w3, up.
    pub const W3: u32 = 32;
    /// w2, down.
    pub const W2: u32 = 64;
    /// Every known bit.
    pub const ALL: u32 = 127;
}

/// Highest number of a family.
pub const LAST_FAMILY: u32 = 10;

const BOUNDS: [Bound; 6] = [
    bound(0, CONFIG_VERSION, CONFIG_VERSION, Code::ConfigVersion),
    bound(ACTIVATION, 1, 2, Code::UnknownActivation),
    bound(QK_NORM, 0, 2, Code::UnknownQkNorm),
    bound(FAMILY, 0, LAST_FAMILY, Code::UnknownFamily),
    bound(NORMS, 0, norms::ALL, Code::UnknownNorms),
    bound(BIASES, 0, biases::ALL, Code::UnknownBiases),
];

/// The gate's activation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Activation {
    /// x / (1 + exp(-x)).
    Silu = 1,
    /// GELU, tanh form.
    GeluTanh = 2,
}

/// Which norm queries and keys get before the rotation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum QkNorm {
    /// None.
    None = 0,
    /// Over each head, one weight for all heads.
    PerHead = 1,
    /// Over the whole projection.
    Whole = 2,
}

/// Every size and switch of a model: the header's dimensions and the fixed part of `@config`.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs)]
pub struct Config {
    pub vocab_size: usize,
    pub special_token_count: usize,
    pub hidden_size: usize,
    pub layer_count: usize,
    pub head_count: usize,
    pub kv_head_count: usize,
    pub head_dim: usize,
    pub ffn_size: usize,
    pub max_context: usize,
    pub rms_norm_epsilon: f32,
    /// The embedding is the head.
    pub tied: bool,
    /// Informative; see `SPEC.md`, 3.2.
    pub family: u32,
    pub activation: Activation,
    pub qk_norm: QkNorm,
    /// Bits of [`norms`].
    pub norms: u32,
    /// Bits of [`biases`].
    pub biases: u32,
    pub embedding_scale: f32,
    pub attention_scale: f32,
    pub residual_scale: f32,
    /// 0: none.
    pub attention_softcap: f32,
    /// 0: none.
    pub logit_softcap: f32,
    pub logit_divisor: f32,
    /// The publisher's maximum, informative.
    pub source_context: u32,
}

impl Config {
    /// A configuration that is still to be read.
    pub(super) const EMPTY: Self = Self {
        vocab_size: 0,
        special_token_count: 0,
        hidden_size: 0,
        layer_count: 0,
        head_count: 0,
        kv_head_count: 0,
        head_dim: 0,
        ffn_size: 0,
        max_context: 0,
        rms_norm_epsilon: 0.0,
        tied: false,
        family: 0,
        activation: Activation::Silu,
        qk_norm: QkNorm::None,
        norms: 0,
        biases: 0,
        embedding_scale: 0.0,
        attention_scale: 0.0,
        residual_scale: 0.0,
        attention_softcap: 0.0,
        logit_softcap: 0.0,
        logit_divisor: 0.0,
        source_context: 0,
    };

    /// Reads the record, which stands at `base` in the file. Behind its fixed part stand the windows of the layers, four
    /// bytes each.
    ///
    /// # Errors
    /// The first rule that does not hold, with its offset.
    #[inline(never)]
    pub(super) fn read(&mut self, header: &Header, record: &[u8], base: u64) -> Result<(), Error> {
        let fail = |code, field: usize| Err(Error::new(code).at(base.saturating_add(field as u64)));
        let Some(fixed) = record.first_chunk::<FIXED_LENGTH>() else {
            return fail(Code::ConfigTooShort, record.len());
        };
        check_bounds(record, base, &BOUNDS)?;
        let word = |field| word(fixed, field);
        let float = |field| f32::from_bits(word(field));
        for field in (EMBEDDING_SCALE..=LOGIT_DIVISOR).step_by(4) {
            let value = f32::from_bits(u32_at(record, field));
            let signed = field < ATTENTION_SOFTCAP;
            let fits = value.is_finite() && (signed || value >= 0.0) && (field != LOGIT_DIVISOR || value > 0.0);
            if !fits {
                return fail(Code::ConfigFloat, field);
            }
        }
        if record.iter().take(FIXED_LENGTH).skip(RESERVED).any(|byte| *byte != 0) {
            return fail(Code::ConfigReserved, RESERVED);
        }
        let end = (header.layer_count as usize).saturating_mul(4).saturating_add(FIXED_LENGTH);
        if record.len() < end {
            return fail(Code::ConfigTooShort, record.len());
        }
        if record.len() > end {
            return fail(Code::ConfigTrailing, end);
        }
        *self = Self {
            vocab_size: header.vocab_size as usize,
            special_token_count: header.special_token_count as usize,
            hidden_size: header.hidden_size as usize,
            layer_count: header.layer_count as usize,
            head_count: header.head_count as usize,
            kv_head_count: header.kv_head_count as usize,
            head_dim: header.head_dim as usize,
            ffn_size: header.ffn_size as usize,
            max_context: header.max_context as usize,
            rms_norm_epsilon: header.rms_norm_epsilon,
            tied: header.tied(),
            family: word(FAMILY),
            activation: if word(ACTIVATION) == 1 { Activation::Silu } else { Activation::GeluTanh },
            qk_norm: match word(QK_NORM) {
                0 => QkNorm::None,
                1 => QkNorm::PerHead,
                _ => QkNorm::Whole,
            },
            norms: word(NORMS),
            biases: word(BIASES),
            embedding_scale: float(EMBEDDING_SCALE),
            attention_scale: float(ATTENTION_SCALE),
            residual_scale: float(RESIDUAL_SCALE),
            attention_softcap: float(ATTENTION_SOFTCAP),
            logit_softcap: float(LOGIT_SOFTCAP),
            logit_divisor: float(LOGIT_DIVISOR),
            source_context: word(SOURCE_CONTEXT),
        };
        Ok(())
    }

    /// The fixed part of the record; the windows, a u32 for each layer, follow it.
    pub fn emit(&self) -> [u8; FIXED_LENGTH] {
        let mut out = [0; FIXED_LENGTH];
        let words = [
            CONFIG_VERSION,
            self.family,
            self.activation as u32,
            self.qk_norm as u32,
            self.norms,
            self.biases,
            self.embedding_scale.to_bits(),
            self.attention_scale.to_bits(),
            self.residual_scale.to_bits(),
            self.attention_softcap.to_bits(),
            self.logit_softcap.to_bits(),
            self.logit_divisor.to_bits(),
            self.source_context,
        ];
        for (to, word) in out.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        out
    }

    /// Width of all queries of a position: head_count * head_dim. The header bounds it.
    pub fn query_size(&self) -> usize {
        self.head_count.saturating_mul(self.head_dim)
    }

    /// Width of the keys, or values, of a position: kv_head_count * head_dim.
    pub fn kv_size(&self) -> usize {
        self.kv_head_count.saturating_mul(self.head_dim)
    }
}
