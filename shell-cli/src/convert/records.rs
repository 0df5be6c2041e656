//! The bytes of the `@` records (`SPEC.md` section 3).

use super::config::Architecture;

/// `@names` of the whole directory.
pub fn names<'a>(names: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let mut out = Vec::new();
    for name in names {
        out.extend((name.len() as u16).to_le_bytes());
        out.extend(name.as_bytes());
    }
    out
}

/// `@config`.
pub fn config(a: &Architecture) -> Vec<u8> {
    let words = [
        1,
        a.family as u32,
        a.activation as u32,
        a.qk_norm as u32,
        a.norms,
        a.biases,
        a.embedding_scale.to_bits(),
        a.attention_scale.to_bits(),
        a.residual_scale.to_bits(),
        a.attention_softcap.to_bits(),
        a.logit_softcap.to_bits(),
        a.logit_divisor.to_bits(),
        a.source_context,
        0,
        0,
        0,
    ];
    words.iter().chain(&a.window).flat_map(|word| word.to_le_bytes()).collect()
}

/// `@rope`.
pub fn rope(a: &Architecture) -> Vec<u8> {
    let mut out = (a.rope_tables.len() as u32).to_le_bytes().to_vec();
    for table in &a.rope_tables {
        out.extend(table.rotary_dim.to_le_bytes());
        out.extend(table.attention_factor.to_le_bytes());
        out.extend(table.inv_freq.iter().flat_map(|f| f.to_le_bytes()));
    }
    out.extend(&a.rope_of_layer);
    out
}

/// `@stops`; `ids` ascending and unique.
pub fn stops(ids: &[u32], strings: &[String]) -> Vec<u8> {
    let mut out = (ids.len() as u32).to_le_bytes().to_vec();
    out.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
    out.extend((strings.len() as u32).to_le_bytes());
    for string in strings {
        out.extend((string.len() as u32).to_le_bytes());
        out.extend(string.as_bytes());
    }
    out
}

/// The publisher's generation defaults.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sampling {
    pub do_sample: Option<bool>,
    pub top_k: Option<u32>,
    /// temperature, top_p, min_p, typical_p, repetition, frequency and presence penalty.
    pub numbers: [Option<f64>; 7],
    pub max_new_tokens: Option<u32>,
}

/// `@sampling`; empty when the publisher says nothing.
pub fn sampling(s: &Sampling) -> Vec<u8> {
    if *s == Sampling::default() {
        return Vec::new();
    }
    let mut present = u32::from(s.do_sample.is_some()) | u32::from(s.top_k.is_some()) << 1;
    for (bit, number) in s.numbers.iter().enumerate() {
        present |= u32::from(number.is_some()) << (bit + 2);
    }
    present |= u32::from(s.max_new_tokens.is_some()) << 9;
    let mut out = Vec::with_capacity(80);
    for word in [1, present, u32::from(s.do_sample == Some(true)), s.top_k.unwrap_or(0)] {
        out.extend(word.to_le_bytes());
    }
    out.extend(s.numbers.iter().flat_map(|number| number.unwrap_or(0.0).to_le_bytes()));
    out.extend(s.max_new_tokens.unwrap_or(0).to_le_bytes());
    out.extend(0u32.to_le_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampling_has_80_bytes_or_none() {
        assert!(sampling(&Sampling::default()).is_empty());
        let mut s = Sampling { do_sample: Some(true), max_new_tokens: Some(7), ..Sampling::default() };
        s.numbers[0] = Some(0.6);
        let bytes = sampling(&s);
        assert_eq!(bytes.len(), 80);
        assert_eq!(bytes[4..8], (1u32 | 1 << 2 | 1 << 9).to_le_bytes());
        assert_eq!(bytes[16..24], 0.6f64.to_le_bytes());
        assert_eq!(bytes[72..76], 7u32.to_le_bytes());
    }
}
