//! Which tensor of the source becomes which tensor of the container, and what is done to it on the way.

use super::config::{Architecture, Family, QkNorm, biases, norms};
use super::refusal::{Refusal, refuse};
use super::source::Source;
use crate::failure::Failure;

/// Naming scheme of a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Naming {
    HuggingFace,
    Gguf,
    /// The source already uses the container's names.
    Container,
}

/// Order of the rows of a matrix of queries or keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowOrder {
    Same,
    /// The source keeps the two dimensions of a rotated pair side by side; the container keeps halves of a head.
    PairsToHalves {
        head_dim: u64,
    },
}

/// Part of a source tensor.
#[derive(Clone, PartialEq, Debug)]
pub struct Piece {
    pub source: String,
    /// First row taken; as many rows as the destination has.
    pub first_row: u64,
    pub order: RowOrder,
    /// The source stores an offset from 1.
    pub add_one: bool,
    /// Rows the whole source tensor must have.
    pub source_rows: u64,
}

impl Piece {
    /// Source row of destination row `row`.
    pub fn source_row(&self, row: u64) -> u64 {
        self.first_row
            + match self.order {
                RowOrder::Same => row,
                RowOrder::PairsToHalves { head_dim } => {
                    let (head, at, half) = (row / head_dim, row % head_dim, head_dim / 2);
                    head * head_dim + if at < half { 2 * at } else { 2 * (at - half) + 1 }
                }
            }
    }

    /// What is done to the rows, for the ledger.
    pub fn transforms(&self, rows: u64) -> Vec<String> {
        let mut list = Vec::new();
        if self.source_rows != rows {
            list.push(format!("rows {}..{}", self.first_row, self.first_row + rows));
        }
        if let RowOrder::PairsToHalves { head_dim } = self.order {
            list.push(format!("rotary pairs to halves, head_dim {head_dim}"));
        }
        if self.add_one {
            list.push("add 1".into());
        }
        list
    }
}

/// One tensor of the container.
#[derive(Clone, PartialEq, Debug)]
pub struct Destination {
    pub name: String,
    /// Rows and columns, or elements.
    pub shape: Vec<u64>,
    pub piece: Piece,
}

impl Destination {
    /// Rows of a matrix, elements of a vector.
    pub fn rows(&self) -> u64 {
        self.shape[0]
    }

    /// Columns of a matrix, 1 for a vector.
    pub fn cols(&self) -> u64 {
        self.shape.get(1).copied().unwrap_or(1)
    }

    /// A matrix, which may be quantised.
    pub fn is_matrix(&self) -> bool {
        self.shape.len() == 2
    }

    /// Embedding or head, which stay 8-bit where the rest is 4-bit.
    pub fn is_vocabulary(&self) -> bool {
        matches!(self.name.as_str(), "tok_embeddings.weight" | "output.weight")
    }
}

/// Name of the head in a source.
pub fn head_name(naming: Naming) -> &'static str {
    match naming {
        Naming::HuggingFace => "lm_head.weight",
        Naming::Gguf | Naming::Container => "output.weight",
    }
}

/// Name of the embedding in a source.
pub fn embedding_name(naming: Naming) -> &'static str {
    match naming {
        Naming::HuggingFace => "model.embed_tokens.weight",
        Naming::Gguf => "token_embd.weight",
        Naming::Container => "tok_embeddings.weight",
    }
}

/// Every tensor of the container in the order of the directory (`SPEC.md` section 2.2). `tied`: no head of its own.
/// `pairs`: rotated queries and keys stand as pairs in the source.
pub fn destinations(a: &Architecture, naming: Naming, tied: bool, pairs: bool) -> Vec<Destination> {
    let (hidden, ffn) = (u64::from(a.hidden_size), u64::from(a.ffn_size));
    let (q, kv, vocab) = (a.q_rows(), a.kv_rows(), u64::from(a.vocab_size));
    let offset = a.family.norm_offset() && naming == Naming::HuggingFace;
    let order = if pairs { RowOrder::PairsToHalves { head_dim: u64::from(a.head_dim) } } else { RowOrder::Same };
    let mut list = Vec::new();
    let mut add = |name: String, shape: &[u64], source: String, order: RowOrder, add_one: bool| {
        let piece = Piece { source, first_row: 0, order, add_one, source_rows: shape[0] };
        list.push(Destination { name, shape: shape.to_vec(), piece });
    };
    add("tok_embeddings.weight".into(), &[vocab, hidden], embedding_name(naming).into(), RowOrder::Same, false);
    let (q_norm, k_norm) = match a.qk_norm {
        QkNorm::Projection => (q, kv),
        _ => (u64::from(a.head_dim), u64::from(a.head_dim)),
    };
    let has_norm = |bit: u32| a.norms & bit != 0;
    let has_qk = a.qk_norm != QkNorm::None;
    let same = RowOrder::Same;
    // Per layer, in the order of the directory: a norm [len], or a matrix [rows, cols] with the bit of its bias.
    enum Part {
        Norm(bool, u64),
        Linear(u32, u64, u64, RowOrder),
    }
    let parts = [
        ("attn_norm", Part::Norm(has_norm(norms::BEFORE_ATTENTION), hidden)),
        ("wq", Part::Linear(biases::WQ, q, hidden, order)),
        ("wk", Part::Linear(biases::WK, kv, hidden, order)),
        ("wv", Part::Linear(biases::WV, kv, hidden, same)),
        ("q_norm", Part::Norm(has_qk, q_norm)),
        ("k_norm", Part::Norm(has_qk, k_norm)),
        ("wo", Part::Linear(biases::WO, hidden, q, same)),
        ("attn_post_norm", Part::Norm(has_norm(norms::AFTER_ATTENTION), hidden)),
        ("ffn_norm", Part::Norm(has_norm(norms::BEFORE_FFN), hidden)),
        ("w1", Part::Linear(biases::W1, ffn, hidden, same)),
        ("w3", Part::Linear(biases::W3, ffn, hidden, same)),
        ("w2", Part::Linear(biases::W2, hidden, ffn, same)),
        ("ffn_post_norm", Part::Norm(has_norm(norms::AFTER_FFN), hidden)),
    ];
    for layer in 0..a.layer_count {
        for (role, part) in &parts {
            let (weight, bias) = (format!("{role}.weight"), format!("{role}.bias"));
            let source = |what: &str| layer_name(a, naming, layer, what);
            let dest = |what: &str| format!("layers.{layer}.{what}");
            match *part {
                Part::Norm(false, _) => {}
                Part::Norm(true, len) => add(dest(&weight), &[len], source(&weight), same, offset),
                Part::Linear(bit, rows, cols, order) => {
                    add(dest(&weight), &[rows, cols], source(&weight), order, false);
                    if a.biases & bit != 0 {
                        add(dest(&bias), &[rows], source(&bias), order, false);
                    }
                }
            }
        }
    }
    let norm = match naming {
        Naming::HuggingFace => "model.norm.weight",
        Naming::Gguf => "output_norm.weight",
        Naming::Container => "norm.weight",
    };
    add("norm.weight".into(), &[hidden], norm.into(), RowOrder::Same, offset);
    if !tied {
        add("output.weight".into(), &[vocab, hidden], head_name(naming).into(), RowOrder::Same, false);
    }
    if a.family == Family::Phi3 && naming != Naming::Container {
        fuse(&mut list, a, naming);
    }
    list
}

/// Source name of a tensor of a layer, given its name in the container.
fn layer_name(a: &Architecture, naming: Naming, layer: u32, what: &str) -> String {
    let (role, end) = what.split_once('.').unwrap_or((what, "weight"));
    let own_ffn_norm = a.norms & norms::AFTER_ATTENTION != 0;
    let (prefix, name) = match naming {
        Naming::Container => ("layers", role),
        Naming::HuggingFace => (
            "model.layers",
            match role {
                "attn_norm" => "input_layernorm",
                "wq" => "self_attn.q_proj",
                "wk" => "self_attn.k_proj",
                "wv" => "self_attn.v_proj",
                "wo" => "self_attn.o_proj",
                "q_norm" => "self_attn.q_norm",
                "k_norm" => "self_attn.k_norm",
                "attn_post_norm" => "post_attention_layernorm",
                // The same name means another place where a family also has a norm after attention.
                "ffn_norm" if own_ffn_norm => "pre_feedforward_layernorm",
                "ffn_norm" => "post_attention_layernorm",
                "ffn_post_norm" => "post_feedforward_layernorm",
                "w1" => "mlp.gate_proj",
                "w3" => "mlp.up_proj",
                _ => "mlp.down_proj",
            },
        ),
        Naming::Gguf => (
            "blk",
            match role {
                "attn_norm" => "attn_norm",
                "wq" => "attn_q",
                "wk" => "attn_k",
                "wv" => "attn_v",
                "wo" => "attn_output",
                "q_norm" => "attn_q_norm",
                "k_norm" => "attn_k_norm",
                "attn_post_norm" => "post_attention_norm",
                "ffn_norm" => "ffn_norm",
                "ffn_post_norm" => "post_ffw_norm",
                "w1" => "ffn_gate",
                "w3" => "ffn_up",
                _ => "ffn_down",
            },
        ),
    };
    format!("{prefix}.{layer}.{name}.{end}")
}

/// phi3 keeps q, k and v in one matrix, one below the other, and gate above up in another.
fn fuse(list: &mut [Destination], a: &Architecture, naming: Naming) {
    let (q, kv, ffn) = (a.q_rows(), a.kv_rows(), u64::from(a.ffn_size));
    let (qkv, gate_up) = match naming {
        Naming::Gguf => ("attn_qkv", "ffn_up"),
        _ => ("self_attn.qkv_proj", "mlp.gate_up_proj"),
    };
    let prefix = if naming == Naming::Gguf { "blk" } else { "model.layers" };
    for dest in list {
        let Some((layer, what)) = dest.name.strip_prefix("layers.").and_then(|rest| rest.split_once('.')) else {
            continue;
        };
        let (fused, first_row, source_rows) = match what {
            "wq.weight" => (qkv, 0, q + 2 * kv),
            "wk.weight" => (qkv, q, q + 2 * kv),
            "wv.weight" => (qkv, q + kv, q + 2 * kv),
            "w1.weight" => (gate_up, 0, 2 * ffn),
            "w3.weight" => (gate_up, ffn, 2 * ffn),
            _ => continue,
        };
        dest.piece.source = format!("{prefix}.{layer}.{fused}.weight");
        (dest.piece.first_row, dest.piece.source_rows) = (first_row, source_rows);
    }
}

/// Checks the bijection: every piece exists with exactly its shape, and every tensor of the source is consumed to the last
/// row, apart from `accounted` ones, which are explained elsewhere.
pub fn check(source: &Source, list: &[Destination], accounted: &[String]) -> Result<(), Failure> {
    let mut consumed = std::collections::BTreeMap::<&str, u64>::new();
    for dest in list {
        let Some(tensor) = source.tensors.get(&dest.piece.source) else {
            return Err(refuse(
                Refusal::MissingTensor,
                format!("the source has no tensor {:?}, which {} is made from", dest.piece.source, dest.name),
            ));
        };
        let mut want = dest.shape.clone();
        want[0] = dest.piece.source_rows;
        if tensor.shape != want {
            let transposed =
                tensor.shape.len() == 2 && tensor.shape[0] == want[want.len() - 1] && tensor.shape[1] == want[0];
            let hint = if transposed { " (transposed)" } else { "" };
            return Err(refuse(
                Refusal::TensorShape,
                format!("tensor {:?} has shape {:?}{hint}, the configuration says {want:?}", tensor.name, tensor.shape),
            ));
        }
        *consumed.entry(&dest.piece.source).or_default() += dest.rows();
    }
    for tensor in source.tensors.values() {
        match consumed.get(tensor.name.as_str()) {
            Some(rows) if *rows == tensor.rows() => {}
            Some(rows) => {
                return Err(refuse(
                    Refusal::ExtraTensor,
                    format!("{rows} of the {} rows of tensor {:?} are consumed", tensor.rows(), tensor.name),
                ));
            }
            None if accounted.contains(&tensor.name) => {}
            None => {
                return Err(refuse(
                    Refusal::ExtraTensor,
                    format!("tensor {:?} of the source has no place in this family", tensor.name),
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_become_halves() {
        let piece = Piece {
            source: String::new(),
            first_row: 0,
            order: RowOrder::PairsToHalves { head_dim: 6 },
            add_one: false,
            source_rows: 12,
        };
        let rows: Vec<u64> = (0..12).map(|row| piece.source_row(row)).collect();
        assert_eq!(rows, [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]);
    }
}
