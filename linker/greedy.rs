//! What the images without an operating system share: model files, and the tokens that follow a prompt greedily, as a line that
//! `compare.py` reads.

use core::fmt::{self, Write};
use sha2::{Digest, Sha256};
use tinyrustlm_core::Error;
use tinyrustlm_core::kernels::Serial;
use tinyrustlm_core::session::Session;

/// Files are read in place, at a multiple of 64.
#[repr(C, align(64))]
pub struct Aligned<T: ?Sized>(pub T);

/// Name and bytes of a model of `fixtures/models`, from a file two folders below this one.
macro_rules! model {
    ($name:literal) => {{
        use crate::greedy::Aligned;
        static FILE: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!("../../../fixtures/models/", $name, ".slm")));
        ($name, &FILE.0)
    }};
}
pub(crate) use model;

/// Byte tokens of `<bos>Hello`.
pub const PROMPT: [u32; 6] = [256, 72, 101, 108, 108, 111];
/// Prompt and generated tokens.
pub const IDS: usize = 22;

/// Prompt and generated tokens, and the digest of the logits after the last of them.
pub struct Answer {
    pub ids: [u32; IDS],
    pub digest: [u8; 32],
}

/// Runs the prompt and generates the likeliest token each time.
pub fn generate(session: &mut Session<'_>) -> Result<Answer, Error> {
    let mut ids = [0; IDS];
    ids[..PROMPT.len()].copy_from_slice(&PROMPT);
    let mut logits = session.prefill(&PROMPT, &Serial)?;
    for slot in &mut ids[PROMPT.len()..] {
        *slot = best(logits);
        logits = session.step(*slot, &Serial)?;
    }
    Ok(Answer { ids, digest: digest(logits) })
}

/// SHA-256 of logits as little-endian f32.
pub fn digest(logits: &[f32]) -> [u8; 32] {
    Sha256::digest(bytemuck::cast_slice(logits)).into()
}

/// `NAME ids 1,2,3 sha256 HEX`.
pub fn report(out: &mut impl Write, name: &str, answer: &Answer) -> fmt::Result {
    write!(out, "{name} ids ")?;
    for (i, id) in answer.ids.iter().enumerate() {
        write!(out, "{}{id}", if i == 0 { "" } else { "," })?;
    }
    write!(out, " sha256 ")?;
    for byte in answer.digest {
        write!(out, "{byte:02x}")?;
    }
    writeln!(out)
}

/// The highest logit; the lower id of equals.
fn best(logits: &[f32]) -> u32 {
    let mut best = (0, f32::NEG_INFINITY);
    for (id, &logit) in (0u32..).zip(logits) {
        if logit > best.1 {
            best = (id, logit);
        }
    }
    best.0
}
