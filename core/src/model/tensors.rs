//! Which tensors a model has, in which order and of which shape: the list the directory must equal.

use super::config::{Config, QkNorm, biases, norms};
use crate::bytes::line;
use crate::container::{DType, Fnv};
use crate::error::Error;
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
    pub fn suffix(self) -> &'static str {
        line(SUFFIXES, self as usize)
    }

    /// Rows and columns in a model, columns 0 for a vector; `None` where the model has no such tensor.
    pub fn shape(self, config: &Config) -> Option<[usize; 2]> {
        let (rows, cols, switch) = *ROWS.get(self as usize)?;
        let per_head = matches!(switch, Switch::QkNorm) && config.qk_norm == QkNorm::PerHead;
        let size = |size: Size| match size {
            Size::None => 0,
            Size::Hidden => config.hidden_size,
            Size::Ffn => config.ffn_size,
            Size::Query => config.query_size(),
            Size::Kv => config.kv_size(),
        };
        let there = match switch {
            Switch::On => true,
            Switch::Norm(bit) => config.norms & u32::from(bit) != 0,
            Switch::Bias(bit) => config.biases & u32::from(bit) != 0,
            Switch::QkNorm => config.qk_norm != QkNorm::None,
        };
        there.then(|| [if per_head { config.head_dim } else { size(rows) }, size(cols)])
    }
}

#[derive(Clone, Copy)]
enum Size {
    None,
    Hidden,
    Ffn,
    Query,
    Kv,
}

/// What of the configuration a tensor depends on.
#[derive(Clone, Copy)]
enum Switch {
    On,
    Norm(u8),
    Bias(u8),
    QkNorm,
}

/// What follows `layers.N.`, a line for each role.
const SUFFIXES: &str = "\
attn_norm.weight\n\
wq.weight\n\
wq.bias\n\
wk.weight\n\
wk.bias\n\
wv.weight\n\
wv.bias\n\
q_norm.weight\n\
k_norm.weight\n\
wo.weight\n\
wo.bias\n\
attn_post_norm.weight\n\
ffn_norm.weight\n\
w1.weight\n\
w1.bias\n\
w3.weight\n\
w3.bias\n\
w2.weight\n\
w2.bias\n\
ffn_post_norm.weight\n\
";

/// Rows, columns, and whether it is there, of each role.
const ROWS: [(Size, Size, Switch); Role::ALL.len()] = [
    (Size::Hidden, Size::None, Switch::Norm(norms::BEFORE_ATTENTION as u8)),
    (Size::Query, Size::Hidden, Switch::On),
    (Size::Query, Size::None, Switch::Bias(biases::WQ as u8)),
    (Size::Kv, Size::Hidden, Switch::On),
    (Size::Kv, Size::None, Switch::Bias(biases::WK as u8)),
    (Size::Kv, Size::Hidden, Switch::On),
    (Size::Kv, Size::None, Switch::Bias(biases::WV as u8)),
    (Size::Query, Size::None, Switch::QkNorm),
    (Size::Kv, Size::None, Switch::QkNorm),
    (Size::Hidden, Size::Query, Switch::On),
    (Size::Hidden, Size::None, Switch::Bias(biases::WO as u8)),
    (Size::Hidden, Size::None, Switch::Norm(norms::AFTER_ATTENTION as u8)),
    (Size::Hidden, Size::None, Switch::Norm(norms::BEFORE_FFN as u8)),
    (Size::Ffn, Size::Hidden, Switch::On),
    (Size::Ffn, Size::None, Switch::Bias(biases::W1 as u8)),
    (Size::Ffn, Size::Hidden, Switch::On),
    (Size::Ffn, Size::None, Switch::Bias(biases::W3 as u8)),
    (Size::Hidden, Size::Ffn, Switch::On),
    (Size::Hidden, Size::None, Switch::Bias(biases::W2 as u8)),
    (Size::Hidden, Size::None, Switch::Norm(norms::AFTER_FFN as u8)),
];

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

    /// Whether it may be stored so: vectors are floats, and no tensor is a record.
    pub(super) fn admits(&self, dtype: DType) -> bool {
        dtype == DType::F32 || (self.cols != 0 && dtype != DType::Bytes)
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

/// Visits every tensor of a model of this configuration, in the order of the file, until one fails.
///
/// # Errors
/// That of the visit.
pub fn for_each_tensor(config: &Config, visit: &mut dyn FnMut(&TensorSpec) -> Result<(), Error>) -> Result<(), Error> {
    let alone = |suffix, rows, cols| TensorSpec { layer: None, suffix, rows, cols };
    visit(&alone(EMBEDDING, config.vocab_size, config.hidden_size))?;
    for layer in 0..config.layer_count {
        for role in Role::ALL {
            if let Some([rows, cols]) = role.shape(config) {
                visit(&TensorSpec { layer: Some(layer as u32), suffix: role.suffix(), rows, cols })?;
            }
        }
    }
    visit(&alone(FINAL_NORM, config.hidden_size, 0))?;
    if config.tied { Ok(()) } else { visit(&alone(HEAD, config.vocab_size, config.hidden_size)) }
}
