//! Word-piece and word-level models of one piece.

use super::Ids;
use super::section::{MAX_ID, NONE, Section, field, flag};
use super::text::char_len;
use super::vocab::{Hash, Vocab};
use crate::error::{Code, Error};

fn unknown(section: &Section<'_>, ids: &mut Ids<'_>) -> Result<(), Error> {
    match section.field(field::UNK) {
        NONE => Err(Error::new(Code::MissingUnknownToken)),
        id => {
            ids.push(id);
            Ok(())
        }
    }
}

/// Word level: the whole piece or the unknown token.
pub fn encode_level(section: &Section<'_>, piece: &[u8], ids: &mut Ids<'_>) -> Result<(), Error> {
    let Some(id) = Vocab::new(section).id(piece) else { return unknown(section, ids) };
    ids.push(id);
    Ok(())
}

/// Word piece: the longest token that begins the rest, again and again; the unknown token where there is none.
pub fn encode_piece(section: &Section<'_>, piece: &[u8], ids: &mut Ids<'_>) -> Result<(), Error> {
    let vocab = Vocab::new(section);
    let (inner, _) = section.affixes();
    let byte_units = section.has(flag::BYTE_UNITS);
    let unit_len = |at: usize| if byte_units { 1 } else { char_len(piece.get(at).copied().unwrap_or(0)) };
    let chars = if byte_units { piece.len() } else { piece.iter().filter(|b| **b & 0xC0 != 0x80).count() };
    if chars > section.field(field::MAX_WORD_CHARS) as usize {
        return unknown(section, ids);
    }
    let begin = ids.len();
    let mut start = 0usize;
    while start < piece.len() {
        let prefix: &[u8] = if start == 0 { &[] } else { inner };
        let mut hash = Hash::EMPTY.with(prefix);
        let mut best = None;
        let mut end = start;
        let limit = piece.len().min(start.saturating_add(section.field(field::MAX_TOKEN) as usize));
        while end < limit {
            let next = end.wrapping_add(unit_len(end)).min(piece.len());
            hash = hash.with(piece.get(end..next).unwrap_or(&[]));
            end = next;
            if let Some(slot) = vocab.find(hash, [prefix, piece.get(start..end).unwrap_or(&[]), &[]]) {
                best = Some((slot & MAX_ID, end));
            }
        }
        let Some((id, end)) = best else {
            ids.truncate(begin);
            return unknown(section, ids);
        };
        ids.push(id);
        start = end;
    }
    Ok(())
}
