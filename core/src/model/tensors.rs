//! Which tensors a model has, in which order and of which shape: the list the directory must equal.

use super::config::{Config, QkNorm, biases, norms};
use crate::container::Fnv;
use core::fmt;

/// A tensor of a layer, in the order of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
#[allow(missing_docs)]
pub enum Role {
    AttnNorm,
    Wq,
    WqBias,
    Wk,
    WkBias,
    Wv,
    WvBias,
    QNorm,
    KNorm,
    Wo,
    WoBias,
    AttnPostNorm,
    FfnNorm,
    W1,
    W1Bias,
    W3,
    W3Bias,
    W2,
    W2Bias,
    FfnPostNorm,
}

impl Role {
    /// Every role in the order of the file.
    pub const ALL: [Role; 20] = [
        Role::AttnNorm,
        Role::Wq,
        Role::WqBias,
        Role::Wk,
        Role::WkBias,
        Role::Wv,
        Role::WvBias,
        Role::QNorm,
        Role::KNorm,
        Role::Wo,
        Role::WoBias,
        Role::AttnPostNorm,
        Role::FfnNorm,
        Role::W1,
        Role::W1Bias,
        Role::W3,
        Role::W3Bias,
        Role::W2,
        Role::W2Bias,
        Role::FfnPostNorm,
    ];

    /// The name after `layers.N.`.
    pub const fn suffix(self) -> &'static str {
        match self {
            Role::AttnNorm => "attn_norm.weight",
            Role::Wq => "wq.weight",
            Role::WqBias => "wq.bias",
            Role::Wk => "wk.weight",
            Role::WkBias => "wk.bias",
            Role::Wv => "wv.weight",
            Role::WvBias => "wv.bias",
            Role::QNorm => "q_norm.weight",
            Role::KNorm => "k_norm.weight",
            Role::Wo => "wo.weight",
            Role::WoBias => "wo.bias",
            Role::AttnPostNorm => "attn_post_norm.weight",
            Role::FfnNorm => "ffn_norm.weight",
            Role::W1 => "w1.weight",
            Role::W1Bias => "w1.bias",
            Role::W3 => "w3.weight",
            Role::W3Bias => "w3.bias",
            Role::W2 => "w2.weight",
            Role::W2Bias => "w2.bias",
            Role::FfnPostNorm => "ffn_post_norm.weight",
        }
    }

    /// `[rows, cols]` in this model; cols 0 for a vector. `None` where the model has no such tensor.
    pub fn shape(self, config: &Config) -> Option<[usize; 2]> {
        let (hidden, ffn) = (config.hidden_size, config.ffn_size);
        let (query, kv) = (config.query_size(), config.kv_size());
        let norm = |bit: u32| (config.norms & bit != 0).then_some([hidden, 0]);
        let bias = |bit: u32, rows: usize| (config.biases & bit != 0).then_some([rows, 0]);
        let qk_norm = |whole: usize| match config.qk_norm {
            QkNorm::None => None,
            QkNorm::PerHead => Some([config.head_dim, 0]),
            QkNorm::Whole => Some([whole, 0]),
        };
        match self {
            Role::AttnNorm => norm(norms::BEFORE_ATTENTION),
            Role::Wq => Some([query, hidden]),
            Role::WqBias => bias(biases::WQ, query),
            Role::Wk | Role::Wv => Some([kv, hidden]),
            Role::WkBias => bias(biases::WK, kv),
            Role::WvBias => bias(biases::WV, kv),
            Role::QNorm => qk_norm(query),
            Role::KNorm => qk_norm(kv),
            Role::Wo => Some([hidden, query]),
            Role::WoBias => bias(biases::WO, hidden),
            Role::AttnPostNorm => norm(norms::AFTER_ATTENTION),
            Role::FfnNorm => norm(norms::BEFORE_FFN),
            Role::W1 | Role::W3 => Some([ffn, hidden]),
            Role::W1Bias => bias(biases::W1, ffn),
            Role::W3Bias => bias(biases::W3, ffn),
            Role::W2 => Some([hidden, ffn]),
            Role::W2Bias => bias(biases::W2, hidden),
            Role::FfnPostNorm => norm(norms::AFTER_FFN),
        }
    }
}

/// Name of the embedding.
pub const EMBEDDING: &str = "tok_embeddings.weight";
/// Name of the last norm.
pub const FINAL_NORM: &str = "norm.weight";
/// Name of an untied head.
pub const HEAD: &str = "output.weight";

/// A tensor the directory must have. Its `Display` is its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TensorSpec {
    /// The layer, for a tensor of a layer.
    pub layer: Option<u32>,
    /// The name, or what follows `layers.N.`.
    pub suffix: &'static str,
    /// Rows, or the elements of a vector.
    pub rows: usize,
    /// Columns; 0 for a vector.
    pub cols: usize,
}

impl TensorSpec {
    /// Hash of the name.
    pub fn name_hash(&self) -> u64 {
        let hash = match self.layer {
            Some(layer) => Fnv::new().then(b"layers.").then_number(layer).then(b"."),
            None => Fnv::new(),
        };
        hash.then(self.suffix.as_bytes()).finish()
    }
}

impl fmt::Display for TensorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(layer) = self.layer {
            write!(f, "layers.{layer}.")?;
        }
        f.write_str(self.suffix)
    }
}

/// Every tensor of a model of this configuration, in the order of the file.
pub fn tensors(config: &Config) -> impl Iterator<Item = TensorSpec> + use<> {
    let config = *config;
    let alone = |suffix, rows, cols| TensorSpec { layer: None, suffix, rows, cols };
    let first = alone(EMBEDDING, config.vocab_size, config.hidden_size);
    let norm = alone(FINAL_NORM, config.hidden_size, 0);
    let head = (!config.tied).then_some(alone(HEAD, config.vocab_size, config.hidden_size));
    let layers = (0..config.layer_count as u32).flat_map(move |layer| {
        Role::ALL.into_iter().filter_map(move |role| {
            let [rows, cols] = role.shape(&config)?;
            Some(TensorSpec { layer: Some(layer), suffix: role.suffix(), rows, cols })
        })
    });
    [first].into_iter().chain(layers).chain([norm]).chain(head)
}
