//! `@stops`: the ids and strings that end generation.

use crate::bytes::Reader;
use crate::error::{Code, Error};

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
    /// Reads the record, which stands at `base` in the file.
    ///
    /// # Errors
    /// The first rule that does not hold, with its offset.
    pub fn parse(record: &'a [u8], base: u64, vocab_size: usize) -> Result<Self, Error> {
        let mut r = Reader::new(record, base, Code::StopsTooShort);
        let id_count = r.u32()? as usize;
        let at = r.offset();
        let ids = r.take(id_count.saturating_mul(4))?;
        let ids: &[u32] = bytemuck::try_cast_slice(ids).map_err(|_| Error::new(Code::ModelMisaligned).at(at))?;
        let mut least = Some(0);
        for (i, &id) in ids.iter().enumerate() {
            let at = at.saturating_add((i as u64).saturating_mul(4));
            if id as usize >= vocab_size {
                return Err(Error::new(Code::StopIdRange).at(at));
            }
            if least.is_none_or(|least| id < least) {
                return Err(Error::new(Code::StopIdOrder).at(at));
            }
            least = id.checked_add(1);
        }
        let string_count = r.u32()?;
        let strings = r.rest();
        for _ in 0..string_count {
            let at = r.offset();
            let len = r.u32()?;
            if len == 0 || len > MAX_STOP {
                return Err(Error::new(Code::StopStringLength).at(at));
            }
            let at = r.offset();
            if let Err(e) = core::str::from_utf8(r.take(len as usize)?) {
                return Err(Error::new(Code::StopStringUtf8).at(at.saturating_add(e.valid_up_to() as u64)));
            }
        }
        if !r.rest().is_empty() {
            return Err(Error::new(Code::StopsTrailing).at(r.offset()));
        }
        Ok(Self { ids, string_count, strings })
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
        (0..self.string_count).map_while(move |_| {
            let len = r.u32().ok()?;
            r.take(len as usize).ok()
        })
    }
}
