//! Unigram language model of one piece: the best path over all tokens, in O(n * longest token).

use super::section::{NONE, Section, field, flag, table};
use super::vocab::{Vocab, unit_len};
use super::{Ids, scratch_error};
use crate::error::{Code, Error};

/// Words of scratch per byte of a piece, and for its end.
pub const SCRATCH_PER_BYTE: usize = 4;

/// Appends the ids of `piece`.
pub fn encode(section: &Section<'_>, piece: &[u8], scratch: &mut [u32], ids: &mut Ids<'_>) -> Result<(), Error> {
    let (unk, unk_score) = (section.field(field::UNK), section.unk_score());
    let vocab = Vocab::new(section);
    let scores = section.words(table::SCORES);
    let nodes = piece.len().saturating_add(1);
    let memory = scratch.get_mut(..nodes.saturating_mul(SCRATCH_PER_BYTE)).ok_or(scratch_error())?;
    let nodes: &mut [[u32; 4]] = bytemuck::try_cast_slice_mut(memory).map_err(|_| scratch_error())?;
    // A node is the best path that ends there: id, start, and the score's halves. Start NONE: no path.
    nodes.fill([0, NONE, 0, 0]);
    let mut at = 0usize;
    while at < piece.len() {
        let here = nodes.get(at).map_or(0.0, score);
        let single = at.wrapping_add(unit_len(section, piece, at));
        let mut improve = |end: usize, id: u32, gain: f64| {
            let total = gain + here;
            if let Some(node) = nodes.get_mut(end)
                && (node[1] == NONE || total > score(node))
            {
                let bits = total.to_bits();
                *node = [id, at as u32, bits as u32, (bits >> 32) as u32];
                return true;
            }
            false
        };
        let mut known = false;
        vocab.each(section, &[], piece, at, &mut |end, id| {
            improve(end, id, scores.u64(id as usize).map_or(0.0, f64::from_bits));
            known |= end == single;
        });
        if !known && improve(single, unk, unk_score) && unk == NONE {
            return Err(Error::new(Code::MissingUnknownToken));
        }
        at = single;
    }
    // Backwards along the links, turning each into "where the next token ends".
    let mut end = piece.len();
    let mut after = NONE;
    while end > 0 {
        let Some(node) = nodes.get_mut(end) else { break };
        let start = node[1] as usize;
        // The score is spent; its place holds the link forward.
        node[2] = after;
        after = end as u32;
        if start >= end {
            break;
        }
        end = start;
    }
    let mut start = 0usize;
    while let Some(node) = nodes.get(after as usize) {
        let mut end = after as usize;
        after = node[2];
        let mut id = node[0];
        if id == unk {
            // Neighbouring unknown units are one token.
            while let Some(node) = nodes.get(after as usize).filter(|node| node[0] == unk) {
                end = after as usize;
                after = node[2];
            }
            let text = piece.get(start..end).unwrap_or(&[]);
            if let Some(whole) = vocab.id(text) {
                id = whole;
            } else if section.has(flag::BYTE_FALLBACK) {
                for byte in text {
                    ids.push(section.word(table::FALLBACK_IDS, usize::from(*byte)));
                }
                start = end;
                continue;
            }
        }
        ids.push(id);
        start = end;
    }
    Ok(())
}

fn score(node: &[u32; 4]) -> f64 {
    f64::from_bits(u64::from(node[3]) << 32 | u64::from(node[2]))
}
