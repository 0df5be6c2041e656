//! Word-piece model of one piece.

use super::Ids;
use super::section::{NONE, Section, field, flag, head};
use super::vocab::Vocab;
use crate::error::{Code, Error};

/// Appends the ids of `piece`: the longest token that begins the rest, again and again; the unknown token where there
/// is none.
pub fn encode(section: &Section<'_>, piece: &[u8], ids: &mut Ids<'_>) -> Result<(), Error> {
    let vocab = Vocab::new(section);
    let chars = piece.iter().filter(|b| section.has(flag::BYTE_UNITS) || **b & 0xC0 != 0x80).count();
    let begin = ids.len;
    let mut start = 0usize;
    if chars <= section.field(field::MAX_WORD_CHARS) as usize {
        while start < piece.len() {
            let prefix = if start == 0 { &[] } else { section.head(head::PREFIX) };
            let (mut best, mut best_end) = (NONE, start);
            vocab.each(section, prefix, piece, start, &mut |end, id| (best, best_end) = (id, end));
            if best == NONE {
                break;
            }
            ids.push(best);
            start = best_end;
        }
    }
    if start < piece.len() {
        ids.len = begin;
        let unk = section.field(field::UNK);
        if unk == NONE {
            return Err(Error::new(Code::MissingUnknownToken));
        }
        ids.push(unk);
    }
    Ok(())
}
