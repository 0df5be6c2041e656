//! A model of one layer with the heads of SmolLM2-135M, for what only a session can reach.

use crate::Random;
use std::error::Error;
use std::fs;
use std::path::Path;
use tinyrustlm::ModelFile;
use tinyrustlm_cli::convert::blocks::Dtype;
use tinyrustlm_cli::convert::{Options, Quant, convert};

/// Elements of the residual stream.
pub const HIDDEN: usize = 576;
/// Query heads.
pub const HEADS: usize = 9;
/// Key heads.
pub const KV_HEADS: usize = 3;
/// Elements of a head.
pub const DIM: usize = 64;

/// The feed-forward half and the vocabulary are as small as may be: what is looked for is attention.
const FFN: usize = 32;
/// Three special tokens and a token for each byte.
const VOCAB: usize = 259;

/// The model, of noise, with room for `context` positions.
///
/// # Errors
/// What the system or the converter says.
pub fn one_layer(context: usize) -> Result<ModelFile, Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("tinyrustlm-benches-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let file = converted(&folder, context);
    // A mapped file needs no name any more. Where the system thinks otherwise it stays among the temporary ones.
    let _ = fs::remove_dir_all(&folder);
    file
}

/// The converter makes the model from a llama2.c checkpoint, the kind that takes least to write.
fn converted(folder: &Path, context: usize) -> Result<ModelFile, Box<dyn Error>> {
    let (source, output) = (folder.join("model.bin"), folder.join("model.slm"));
    fs::write(&source, checkpoint(context))?;
    fs::write(folder.join("tokenizer.bin"), tokenizer())?;
    let options = Options {
        source,
        output: output.clone(),
        quant: Quant::All(Dtype::Q8_0),
        context: None,
        overrides: vec![],
        receipt: None,
        drift: false,
        calibration: None,
        tensor_types: vec![],
        target_bytes: None,
        require_band: None,
    };
    convert(&options, &mut |_| {}).map_err(|failure| failure.message)?;
    Ok(ModelFile::open(output)?)
}

/// Version 1: a header of 256 bytes, then norms, embedding and matrices as f32.
fn checkpoint(context: usize) -> Vec<u8> {
    let sizes = [HIDDEN, FFN, 1, HEADS, KV_HEADS, VOCAB, context];
    // "ak42" and the version; behind the sizes a byte that says the embedding is the head.
    let mut bytes: Vec<u8> =
        [0x616b_3432, 1].into_iter().chain(sizes.map(|n| n as u32)).flat_map(u32::to_le_bytes).collect();
    bytes.push(1);
    bytes.resize(256, 0);
    let kv = KV_HEADS * DIM;
    let matrices = VOCAB * HIDDEN + HIDDEN * (2 * HIDDEN + 2 * kv + 3 * FFN);
    let norms = vec![1.0f32; 3 * HIDDEN];
    let mut random = Random(1);
    bytes.extend(
        norms.into_iter().chain(random.floats(matrices).into_iter().map(|x| x / 16.0)).flat_map(f32::to_le_bytes),
    );
    bytes
}

/// The length of the longest token, then a score, a length and the text of each.
fn tokenizer() -> Vec<u8> {
    let mut bytes = 6u32.to_le_bytes().to_vec();
    for id in 0..VOCAB {
        let text = match id {
            0 => "<unk>".to_owned(),
            1 => "\n<s>\n".to_owned(),
            2 => "\n</s>\n".to_owned(),
            _ => format!("<0x{:02X}>", id - 3),
        };
        bytes.extend((-(id as f32)).to_le_bytes());
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    bytes
}
