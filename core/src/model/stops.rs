//! `@stops`: the ids and strings that end generation.

use crate::bytes::Reader;
use crate::error::{Code, Error};
use crate::utf8::text_len;

/// Most bytes of a stop string.
pub const MAX_STOP: u32 = 256;

/// The checked record.
#[derive(Clone, Copy, Debug)]
pub struct Stops<'a> {
    ids: &'a [u32],
    string_count: u32,
    /// Length-prefixed strings.
    strings: &'a [u8],
}

impl<'a> Stops<'a> {
    /// A record that is still to be read.
    pub(super) const EMPTY: Self = Self { ids: &[], string_count: 0, strings: &[] };

    /// Reads the record, which stands at `base` in the file.
    ///
    /// # Errors
    /// The first rule that does not hold, with its offset.
    #[inline(never)]
    pub(super) fn read(&mut self, record: &'a [u8], base: u64, vocab_size: usize) -> Result<(), Error> {
        let mut r = Reader::new(record, base, Code::StopsTooShort);
        let id_count = r.u32() as usize;
        let at = r.offset();
        let ids: &[u32] = bytemuck::try_cast_slice(r.take(id_count.saturating_mul(4))).unwrap_or_else(|_| {
            r.fail(Code::ModelMisaligned, at);
            &[]
        });
        let mut least = Some(0);
        for (&id, at) in ids.iter().zip((at..).step_by(4)) {
            r.require((id as usize) < vocab_size, Code::StopIdRange, at);
            r.require(least.is_some_and(|least| id >= least), Code::StopIdOrder, at);
            least = id.checked_add(1);
        }
        let string_count = r.u32();
        let strings = r.rest();
        for _ in 0..string_count {
            let at = r.offset();
            let len = r.u32();
            r.require(len != 0 && len <= MAX_STOP, Code::StopStringLength, at);
            let at = r.offset();
            let string = r.take(len as usize);
            let good = text_len(string);
            r.require(good == string.len(), Code::StopStringUtf8, at.saturating_add(good as u64));
            if r.failed() {
                break;
            }
        }
        r.require(r.rest().is_empty(), Code::StopsTrailing, r.offset());
        *self = Self { ids, string_count, strings };
        r.done()
    }

    /// The ids, ascending.
    pub fn ids(&self) -> &'a [u32] {
        self.ids
    }

    /// True when `id` ends generation.
    pub fn contains(&self, id: u32) -> bool {
        self.ids.binary_search(&id).is_ok()
    }

    /// Number of strings.
    pub fn string_count(&self) -> usize {
        self.string_count as usize
    }

    /// The strings, UTF-8.
    pub fn strings(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut r = Reader::new(self.strings, 0, Code::StopsTooShort);
        (0..self.string_count).map(move |_| r.string())
    }
}
