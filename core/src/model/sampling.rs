//! `@sampling`: the publisher's generation defaults.

use crate::bytes::{u32_at, u64_at};
use crate::error::{Code, Error};

/// Bytes of the record where it is not empty.
pub const LENGTH: usize = 80;
/// The only version.
pub const SAMPLING_VERSION: u32 = 1;
/// Position of `present`.
pub const PRESENT: usize = 4;
/// Position of `do_sample`.
pub const DO_SAMPLE: usize = 8;
/// Position of `top_k`.
pub const TOP_K: usize = 12;
/// Position of `temperature`, the first of seven f64.
pub const TEMPERATURE: usize = 16;
/// Position of `max_new_tokens`.
pub const MAX_NEW_TOKENS: usize = 72;
/// Position of the reserved word.
pub const RESERVED: usize = 76;

/// The defaults; `None` where the publisher states nothing.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
#[allow(missing_docs)]
pub struct SamplingDefaults {
    pub do_sample: Option<bool>,
    /// 0: off.
    pub top_k: Option<u32>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub min_p: Option<f64>,
    pub typical_p: Option<f64>,
    pub repetition_penalty: Option<f64>,
    pub frequency_penalty: Option<f64>,
    pub presence_penalty: Option<f64>,
    pub max_new_tokens: Option<u32>,
}

impl SamplingDefaults {
    /// Reads the record, which stands at `base` in the file. An empty record states nothing.
    ///
    /// # Errors
    /// The first rule that does not hold, with its offset.
    pub fn parse(record: &[u8], base: u64) -> Result<Self, Error> {
        if record.is_empty() {
            return Ok(Self::default());
        }
        let fail = |code, field: usize| Error::new(code).at(base.saturating_add(field as u64));
        let record: &[u8; LENGTH] = record.try_into().map_err(|_| fail(Code::SamplingLength, record.len()))?;
        let word = |field| u32_at(record, field);
        if word(0) != SAMPLING_VERSION {
            return Err(fail(Code::SamplingVersion, 0));
        }
        let present = word(PRESENT);
        if present >> 10 != 0 {
            return Err(fail(Code::SamplingPresent, PRESENT));
        }
        let has = |bit: u32| present >> bit & 1 != 0;
        let (do_sample, top_k, max_new_tokens) = (word(DO_SAMPLE), word(TOP_K), word(MAX_NEW_TOKENS));
        for (value, bit, field) in [(do_sample, 0, DO_SAMPLE), (top_k, 1, TOP_K), (max_new_tokens, 9, MAX_NEW_TOKENS)] {
            if value != 0 && !has(bit) {
                return Err(fail(Code::SamplingValue, field));
            }
        }
        if do_sample > 1 {
            return Err(fail(Code::SamplingValue, DO_SAMPLE));
        }
        let mut floats = [None; 7];
        for ((float, bit), at) in floats.iter_mut().zip(2u32..).zip(0usize..) {
            let field = at.wrapping_mul(8).wrapping_add(TEMPERATURE);
            let value = f64::from_bits(u64_at(record, field));
            if !value.is_finite() || (value.to_bits() != 0 && !has(bit)) {
                return Err(fail(Code::SamplingValue, field));
            }
            *float = has(bit).then_some(value);
        }
        if word(RESERVED) != 0 {
            return Err(fail(Code::SamplingReserved, RESERVED));
        }
        let [temperature, top_p, min_p, typical_p, repetition_penalty, frequency_penalty, presence_penalty] = floats;
        Ok(Self {
            do_sample: has(0).then_some(do_sample == 1),
            top_k: has(1).then_some(top_k),
            temperature,
            top_p,
            min_p,
            typical_p,
            repetition_penalty,
            frequency_penalty,
            presence_penalty,
            max_new_tokens: has(9).then_some(max_new_tokens),
        })
    }

    /// The bytes of the record.
    pub fn emit(&self) -> [u8; LENGTH] {
        let mut out = [0; LENGTH];
        let floats = [
            self.temperature,
            self.top_p,
            self.min_p,
            self.typical_p,
            self.repetition_penalty,
            self.frequency_penalty,
            self.presence_penalty,
        ];
        let has = [self.do_sample.is_some(), self.top_k.is_some()]
            .into_iter()
            .chain(floats.iter().map(Option::is_some))
            .chain([self.max_new_tokens.is_some()]);
        let present = has.zip(0u32..).fold(0u32, |bits, (has, bit)| bits | u32::from(has) << bit);
        let mut put = |at: usize, bytes: &[u8]| {
            for (to, from) in out.iter_mut().skip(at).zip(bytes) {
                *to = *from;
            }
        };
        put(0, &SAMPLING_VERSION.to_le_bytes());
        put(PRESENT, &present.to_le_bytes());
        put(DO_SAMPLE, &u32::from(self.do_sample.unwrap_or(false)).to_le_bytes());
        put(TOP_K, &self.top_k.unwrap_or(0).to_le_bytes());
        for (at, float) in (TEMPERATURE..).step_by(8).zip(floats) {
            put(at, &float.unwrap_or(0.0).to_le_bytes());
        }
        put(MAX_NEW_TOKENS, &self.max_new_tokens.unwrap_or(0).to_le_bytes());
        out
    }
}
