//! What a model is, once every default is materialised: the facts `@config`, `@rope` and the header are written from.

pub mod families;
pub mod fields;
mod ignored;
mod layers;
pub mod rope;

/// The families whose forward pass the generic decoder runs. The numbers are those of `@config`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Family {
    Llama = 1,
    Mistral = 2,
    Qwen2 = 3,
    Qwen3 = 4,
    Gemma2 = 5,
    Gemma3 = 6,
    Phi3 = 7,
    SmolLm3 = 8,
    Olmo2 = 9,
    Granite = 10,
}

impl Family {
    /// Every family.
    pub const ALL: [Family; 10] = [
        Self::Llama,
        Self::Mistral,
        Self::Qwen2,
        Self::Qwen3,
        Self::Gemma2,
        Self::Gemma3,
        Self::Phi3,
        Self::SmolLm3,
        Self::Olmo2,
        Self::Granite,
    ];

    /// `model_type` in `config.json`.
    pub const fn model_type(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Mistral => "mistral",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
            Self::Gemma2 => "gemma2",
            Self::Gemma3 => "gemma3_text",
            Self::Phi3 => "phi3",
            Self::SmolLm3 => "smollm3",
            Self::Olmo2 => "olmo2",
            Self::Granite => "granite",
        }
    }

    /// The entry of `architectures` in `config.json`.
    pub const fn architecture(self) -> &'static str {
        match self {
            Self::Llama => "LlamaForCausalLM",
            Self::Mistral => "MistralForCausalLM",
            Self::Qwen2 => "Qwen2ForCausalLM",
            Self::Qwen3 => "Qwen3ForCausalLM",
            Self::Gemma2 => "Gemma2ForCausalLM",
            Self::Gemma3 => "Gemma3ForCausalLM",
            Self::Phi3 => "Phi3ForCausalLM",
            Self::SmolLm3 => "SmolLM3ForCausalLM",
            Self::Olmo2 => "Olmo2ForCausalLM",
            Self::Granite => "GraniteForCausalLM",
        }
    }

    /// Norm weights are stored as an offset from 1.
    pub const fn norm_offset(self) -> bool {
        matches!(self, Self::Gemma2 | Self::Gemma3)
    }
}

/// Activation of the gate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Activation {
    Silu = 1,
    GeluTanh = 2,
}

/// Norm of queries and keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum QkNorm {
    None = 0,
    PerHead = 1,
    Projection = 2,
}

/// Bits of `norms`.
pub mod norms {
    pub const BEFORE_ATTENTION: u32 = 1;
    pub const BEFORE_FFN: u32 = 2;
    pub const AFTER_ATTENTION: u32 = 4;
    pub const AFTER_FFN: u32 = 8;
}

/// Bits of `biases`.
pub mod biases {
    pub const WQ: u32 = 1;
    pub const WK: u32 = 2;
    pub const WV: u32 = 4;
    pub const WO: u32 = 8;
    pub const W1: u32 = 16;
    pub const W3: u32 = 32;
    pub const W2: u32 = 64;
}

/// The effective configuration.
#[derive(Clone, Debug)]
pub struct Architecture {
    pub family: Family,
    pub vocab_size: u32,
    pub hidden_size: u32,
    pub layer_count: u32,
    pub head_count: u32,
    pub kv_head_count: u32,
    pub head_dim: u32,
    pub ffn_size: u32,
    /// The publisher's maximum.
    pub source_context: u32,
    /// Positions the file admits; below `source_context` where the rotary scaling would change beyond it.
    pub max_context: u32,
    pub rope_theta: f32,
    pub rms_norm_epsilon: f32,
    /// The configuration asks for the embedding as head.
    pub tied: bool,
    pub activation: Activation,
    pub qk_norm: QkNorm,
    pub norms: u32,
    pub biases: u32,
    pub embedding_scale: f32,
    pub attention_scale: f32,
    pub residual_scale: f32,
    /// 0: none.
    pub attention_softcap: f32,
    /// 0: none.
    pub logit_softcap: f32,
    pub logit_divisor: f32,
    /// Per layer; 0: all keys.
    pub window: Vec<u32>,
    pub rope_tables: Vec<rope::Table>,
    /// Per layer; 255: no rotation.
    pub rope_of_layer: Vec<u8>,
    /// Fields that do not change the result, each with the reason.
    pub ignored: Vec<(String, String)>,
    /// What a person should know about how the configuration was read.
    pub notes: Vec<String>,
}

impl Architecture {
    /// Rows of wq.
    pub fn q_rows(&self) -> u64 {
        u64::from(self.head_count) * u64::from(self.head_dim)
    }

    /// Rows of wk and wv.
    pub fn kv_rows(&self) -> u64 {
        u64::from(self.kv_head_count) * u64::from(self.head_dim)
    }
}
