//! `@config`: what the generic decoder of `SPEC.md`, section 6, has to know beside the header.

use crate::bytes::u32_at;
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
    /// Reads the record, which stands at `base` in the file. Also gives the bytes of the windows, one u32 a layer.
    ///
    /// # Errors
    /// The first rule that does not hold, with the offset of its field.
    pub fn parse<'a>(header: &Header, record: &'a [u8], base: u64) -> Result<(Self, &'a [u8]), Error> {
        let fail = |code, field: usize| Error::new(code).at(base.saturating_add(field as u64));
        let (record, windows) =
            record.split_first_chunk::<FIXED_LENGTH>().ok_or_else(|| fail(Code::ConfigTooShort, record.len()))?;
        let word = |field| u32_at(record, field);
        let float = |field| f32::from_bits(u32_at(record, field));
        if word(0) != CONFIG_VERSION {
            return Err(fail(Code::ConfigVersion, 0));
        }
        let activation = match word(ACTIVATION) {
            1 => Activation::Silu,
            2 => Activation::GeluTanh,
            _ => return Err(fail(Code::UnknownActivation, ACTIVATION)),
        };
        let qk_norm = match word(QK_NORM) {
            0 => QkNorm::None,
            1 => QkNorm::PerHead,
            2 => QkNorm::Whole,
            _ => return Err(fail(Code::UnknownQkNorm, QK_NORM)),
        };
        let config = Self {
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
            activation,
            qk_norm,
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
        let scale = |value: f32| value.is_finite();
        let cap = |value: f32| value.is_finite() && value >= 0.0;
        let reserved = record.get(RESERVED..).unwrap_or(&[]);
        let rules = [
            (config.family <= LAST_FAMILY, Code::UnknownFamily, FAMILY),
            (config.norms & !norms::ALL == 0, Code::UnknownNorms, NORMS),
            (config.biases & !biases::ALL == 0, Code::UnknownBiases, BIASES),
            (scale(config.embedding_scale), Code::ConfigFloat, EMBEDDING_SCALE),
            (scale(config.attention_scale), Code::ConfigFloat, ATTENTION_SCALE),
            (scale(config.residual_scale), Code::ConfigFloat, RESIDUAL_SCALE),
            (cap(config.attention_softcap), Code::ConfigFloat, ATTENTION_SOFTCAP),
            (cap(config.logit_softcap), Code::ConfigFloat, LOGIT_SOFTCAP),
            (cap(config.logit_divisor) && config.logit_divisor > 0.0, Code::ConfigFloat, LOGIT_DIVISOR),
            (reserved.iter().all(|byte| *byte == 0), Code::ConfigReserved, RESERVED),
        ];
        for (holds, code, field) in rules {
            if !holds {
                return Err(fail(code, field));
            }
        }
        let windows_len = config.layer_count.saturating_mul(4);
        if windows.len() < windows_len {
            return Err(fail(Code::ConfigTooShort, FIXED_LENGTH.saturating_add(windows.len())));
        }
        if windows.len() > windows_len {
            return Err(fail(Code::ConfigTrailing, FIXED_LENGTH.saturating_add(windows_len)));
        }
        Ok((config, windows))
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
