//! `@rope`: the frequencies of the rotary positions, as the publisher's framework computes them.

use crate::bytes::Reader;
use crate::error::{Code, Error};

/// Most tables.
pub const MAX_TABLES: usize = 4;
/// Table index of a layer without rotation.
pub const NO_ROTATION: u8 = 255;
/// Greatest magnitude of a frequency. With at most 2^24 positions no angle exceeds 2^28, which the sine relies on.
pub const MAX_FREQUENCY: f32 = 16.0;

/// One set of frequencies.
#[derive(Clone, Copy, Debug)]
pub struct RopeTable<'a> {
    /// Dimensions at the start of each head that rotate; the rest passes through.
    pub rotary_dim: usize,
    /// Factor of cosine and sine.
    pub attention_factor: f32,
    /// `rotary_dim / 2` frequencies in radians per position.
    pub inv_freq: &'a [f32],
}

/// All tables, and which one each layer uses.
#[derive(Clone, Copy, Debug)]
pub struct Rope<'a> {
    tables: [Option<RopeTable<'a>>; MAX_TABLES],
    of_layer: &'a [u8],
}

impl<'a> Rope<'a> {
    /// A record that is still to be read.
    pub(super) const EMPTY: Self = Self { tables: [None; MAX_TABLES], of_layer: &[] };

    /// Reads the record, which stands at `base` in the file.
    ///
    /// # Errors
    /// The first rule that does not hold, with its offset.
    #[inline(never)]
    pub(super) fn read(
        &mut self,
        record: &'a [u8],
        base: u64,
        head_dim: usize,
        layer_count: usize,
    ) -> Result<(), Error> {
        let mut r = Reader::new(record, base, Code::RopeTooShort);
        let count = r.u32() as usize;
        r.require(count <= MAX_TABLES, Code::RopeTableCount, base);
        for table in self.tables.iter_mut().take(count) {
            let at = r.offset();
            let rotary_dim = r.u32() as usize;
            let fits = rotary_dim != 0 && rotary_dim.is_multiple_of(2) && rotary_dim <= head_dim;
            r.require(fits, Code::RotaryDim, at);
            let at = r.offset();
            let attention_factor = f32::from_bits(r.u32());
            r.require(attention_factor.is_finite(), Code::RopeFloat, at);
            let at = r.offset();
            let bytes = r.take((rotary_dim / 2).saturating_mul(4));
            let inv_freq: &[f32] = bytemuck::try_cast_slice(bytes).unwrap_or_else(|_| {
                r.fail(Code::ModelMisaligned, at);
                &[]
            });
            if let Some(bad) = inv_freq.iter().position(|f| !(-MAX_FREQUENCY..=MAX_FREQUENCY).contains(f)) {
                r.fail(Code::RopeFloat, at.saturating_add((bad as u64).saturating_mul(4)));
            }
            *table = Some(RopeTable { rotary_dim, attention_factor, inv_freq });
        }
        let at = r.offset();
        let of_layer = r.take(layer_count);
        let known = |index: u8| index == NO_ROTATION || usize::from(index) < count;
        if let Some(bad) = of_layer.iter().position(|&index| !known(index)) {
            r.fail(Code::RopeTableIndex, at.saturating_add(bad as u64));
        }
        r.require(r.rest().is_empty(), Code::RopeTrailing, r.offset());
        self.of_layer = of_layer;
        r.done()
    }

    /// Number of the table of `layer`; `None` where it does not rotate.
    pub fn table_index(&self, layer: usize) -> Option<usize> {
        let index = *self.of_layer.get(layer)?;
        if index == NO_ROTATION { None } else { Some(usize::from(index)) }
    }

    /// Table number `index`.
    pub fn table(&self, index: usize) -> Option<RopeTable<'a>> {
        *self.tables.get(index)?
    }

    /// All tables.
    pub fn tables(&self) -> impl Iterator<Item = RopeTable<'a>> + '_ {
        self.tables.iter().flatten().copied()
    }
}
