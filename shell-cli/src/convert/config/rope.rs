//! Rotary frequencies as the reference framework computes them, in f32 and step by step, any scaling already applied.

use super::fields::Fields;
use crate::convert::overrides::Overrides;
use crate::convert::refusal::{Refusal, refuse};
use crate::failure::Failure;
use std::f64::consts::PI;

/// One table of `@rope`.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// Dimensions of a head that are rotated; even.
    pub rotary_dim: u32,
    /// Factor of sine and cosine.
    pub attention_factor: f32,
    /// `rotary_dim / 2` frequencies.
    pub inv_freq: Vec<f32>,
}

/// Scaling of the frequencies.
#[derive(Clone, PartialEq, Debug)]
pub enum Scaling {
    Default,
    Linear {
        factor: f64,
    },
    Llama3 {
        factor: f64,
        low: f64,
        high: f64,
        original: f64,
    },
    Yarn {
        factor: f64,
        original: f64,
        beta_fast: f64,
        beta_slow: f64,
        attention_factor: f64,
        truncate: bool,
    },
    /// The set for sequences of at most `original` positions.
    Longrope {
        short: Vec<f64>,
        attention_factor: f64,
    },
}

/// What a configuration says about one table.
#[derive(Clone, PartialEq, Debug)]
pub struct Rope {
    pub theta: f64,
    /// Share of a head that is rotated.
    pub partial: f64,
    pub scaling: Scaling,
    /// Positions up to which the table holds, where the reference changes it beyond.
    pub limit: Option<u32>,
}

/// What the scaling needs to know of the rest of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    pub max_position: u32,
    /// `original_max_position_embeddings` beside the scaling, which then wins over the value inside.
    pub outer_original: Option<u32>,
    /// The family reads `su` and `yarn` as `longrope` (phi3).
    pub phi3: bool,
}

impl Rope {
    /// The plain table of a theta.
    pub fn plain(theta: f64) -> Self {
        Self { theta, partial: 1.0, scaling: Scaling::Default, limit: None }
    }

    /// Reads the dictionary of either dialect. `theta` counts when the dictionary has none; `partial` likewise.
    pub fn read(
        fields: &Fields,
        theta: f64,
        partial: Option<f64>,
        context: Context,
        overrides: &Overrides,
    ) -> Result<(Self, Vec<(String, String)>), Failure> {
        let theta = fields.f64("rope_theta")?.unwrap_or(theta);
        let partial = fields.f64("partial_rotary_factor")?.or(partial).unwrap_or(1.0);
        let old_key = fields.str("type")?;
        let kind = fields.str("rope_type")?.or(old_key).unwrap_or("default");
        let kind = if context.phi3 && matches!(kind, "su" | "yarn") { "longrope" } else { kind };
        let original = match context.outer_original {
            Some(outer) => {
                fields.value("original_max_position_embeddings");
                f64::from(outer)
            }
            None => fields.f64("original_max_position_embeddings")?.unwrap_or(f64::from(context.max_position)),
        };
        let mut limit = None;
        let scaling = match kind {
            "default" => Scaling::Default,
            "linear" => Scaling::Linear { factor: positive(fields, "factor")? },
            "llama3" => {
                let (low, high) = (positive(fields, "low_freq_factor")?, positive(fields, "high_freq_factor")?);
                if low >= high {
                    return Err(refuse(
                        Refusal::BadDimensions,
                        format!("{}: low_freq_factor {low} is not below high_freq_factor {high}", fields.place),
                    ));
                }
                Scaling::Llama3 { factor: positive(fields, "factor")?, low, high, original }
            }
            "yarn" => Self::yarn(fields, original)?,
            "dynamic" => {
                // Beyond max_position_embeddings the frequencies follow the length of the sequence.
                positive(fields, "factor")?;
                limit = Some(context.max_position);
                Scaling::Default
            }
            "longrope" => {
                limit = Some(original as u32);
                Self::longrope(fields, original, context)?
            }
            other => {
                return Err(refuse(
                    Refusal::UnsupportedRope,
                    format!(
                        "{}: rope_type {other:?} is unknown; default, linear, llama3, yarn, dynamic and longrope are read",
                        fields.place
                    ),
                ));
            }
        };
        let ignored = fields.finish(&[("finetuned", "not read by the reference")], overrides)?;
        Ok((Self { theta, partial, scaling, limit }, ignored))
    }

    fn yarn(fields: &Fields, original: f64) -> Result<Scaling, Failure> {
        let factor = positive(fields, "factor")?;
        let mscale = |scale: f64, m: f64| if scale <= 1.0 { 1.0 } else { 0.1 * m * scale.ln() + 1.0 };
        let (m, m_all) = (fields.f64("mscale")?, fields.f64("mscale_all_dim")?);
        let attention_factor = match (fields.f64("attention_factor")?, m, m_all) {
            (Some(given), ..) => given,
            (None, Some(m), Some(all)) if m != 0.0 && all != 0.0 => mscale(factor, m) / mscale(factor, all),
            _ => mscale(factor, 1.0),
        };
        let or = |value: Option<f64>, default| value.filter(|v| *v != 0.0).unwrap_or(default);
        Ok(Scaling::Yarn {
            factor,
            original,
            beta_fast: or(fields.f64("beta_fast")?, 32.0),
            beta_slow: or(fields.f64("beta_slow")?, 1.0),
            attention_factor,
            truncate: fields.bool("truncate")?.unwrap_or(true),
        })
    }

    fn longrope(fields: &Fields, original: f64, context: Context) -> Result<Scaling, Failure> {
        let numbers = |key: &str| -> Result<Vec<f64>, Failure> {
            let list = fields
                .list(key)?
                .ok_or_else(|| refuse(Refusal::MissingField, format!("{}: {key} is missing", fields.place)))?;
            let read =
                list.iter().map(|v| v.as_f64().filter(|f| f.is_finite() && *f > 0.0)).collect::<Option<Vec<_>>>();
            read.ok_or_else(|| {
                refuse(Refusal::BadJson, format!("{}: {key} is no list of positive numbers", fields.place))
            })
        };
        let short = numbers("short_factor")?;
        let long = numbers("long_factor")?;
        if short.len() != long.len() {
            return Err(refuse(
                Refusal::BadDimensions,
                format!("{}: short_factor has {} values, long_factor {}", fields.place, short.len(), long.len()),
            ));
        }
        let factor = fields.f64("factor")?.unwrap_or(f64::from(context.max_position) / original);
        let attention_factor = match fields.f64("attention_factor")? {
            Some(given) => given,
            None if factor <= 1.0 => 1.0,
            None => (1.0 + factor.ln() / original.ln()).sqrt(),
        };
        for key in ["short_mscale", "long_mscale"] {
            fields.value(key); // not read by the reference
        }
        Ok(Scaling::Longrope { short, attention_factor })
    }

    /// Computes the table for heads of `head_dim`.
    pub fn table(&self, head_dim: u32) -> Result<Table, Failure> {
        let rotary_dim = (f64::from(head_dim) * self.partial) as u32;
        if !(self.partial > 0.0 && self.partial <= 1.0) || rotary_dim < 2 || !rotary_dim.is_multiple_of(2) {
            return Err(refuse(
                Refusal::UnsupportedRope,
                format!(
                    "partial_rotary_factor {} of head_dim {head_dim} rotates {rotary_dim} dimensions",
                    self.partial
                ),
            ));
        }
        if self.theta.is_nan() || self.theta <= 0.0 {
            return Err(refuse(Refusal::BadDimensions, format!("rope_theta {} is not positive", self.theta)));
        }
        let powers: Vec<f32> = (0..rotary_dim / 2).map(|i| power(self.theta, i, rotary_dim)).collect();
        let plain = || powers.iter().map(|p| 1.0 / p).collect::<Vec<f32>>();
        let (inv_freq, attention_factor) = match &self.scaling {
            Scaling::Default => (plain(), 1.0),
            Scaling::Linear { factor } => (plain().iter().map(|inv| inv / *factor as f32).collect(), 1.0),
            Scaling::Llama3 { factor, low, high, original } => {
                (plain().iter().map(|inv| llama3(*inv, *factor, *low, *high, *original)).collect(), 1.0)
            }
            Scaling::Yarn { factor, original, beta_fast, beta_slow, attention_factor, truncate } => {
                let range = correction_range(rotary_dim, self.theta, *original, *beta_fast, *beta_slow, *truncate);
                (yarn(&powers, *factor, range), *attention_factor)
            }
            Scaling::Longrope { short, attention_factor } => {
                if short.len() != powers.len() {
                    return Err(refuse(
                        Refusal::BadDimensions,
                        format!("short_factor has {} values for {} frequencies", short.len(), powers.len()),
                    ));
                }
                (powers.iter().zip(short).map(|(p, s)| 1.0 / (*s as f32 * p)).collect(), *attention_factor)
            }
        };
        Ok(Table { rotary_dim, attention_factor: attention_factor as f32, inv_freq })
    }
}

fn positive(fields: &Fields, key: &str) -> Result<f64, Failure> {
    let value = fields.need_f64(key)?;
    if value > 0.0 {
        Ok(value)
    } else {
        Err(refuse(Refusal::BadDimensions, format!("{}: {key} is {value}, which is not positive", fields.place)))
    }
}

/// theta ^ (2i / d): the exponent and the power are each rounded to f32 once. `libm` gives the same on every platform.
fn power(theta: f64, i: u32, d: u32) -> f32 {
    let exponent = (2 * i) as f32 / d as f32;
    libm::pow(f64::from(theta as f32), f64::from(exponent)) as f32
}

/// The reference divides a number by a tensor as reciprocal times number: two roundings each for 2 pi / inv and
/// original / wavelength.
fn llama3(inv: f32, factor: f64, low: f64, high: f64, original: f64) -> f32 {
    let (long, short) = ((original / low) as f32, (original / high) as f32);
    let wavelength = (1.0 / inv) * (2.0 * PI) as f32;
    let scaled = inv / factor as f32;
    if wavelength > long {
        scaled
    } else if wavelength < short {
        inv
    } else {
        let smooth = ((1.0 / wavelength) * original as f32 - low as f32) / (high - low) as f32;
        (1.0 - smooth) * inv / factor as f32 + smooth * inv
    }
}

fn correction_range(dim: u32, theta: f64, original: f64, fast: f64, slow: f64, truncate: bool) -> (f64, f64) {
    let dim = f64::from(dim);
    let turns = |n: f64| dim * (original / (n * 2.0 * PI)).ln() / (2.0 * theta.ln());
    let (mut low, mut high) = (turns(fast), turns(slow));
    if truncate {
        (low, high) = (low.floor(), high.ceil());
    }
    (low.max(0.0), high.min(dim - 1.0))
}

fn yarn(powers: &[f32], factor: f64, (low, mut high): (f64, f64)) -> Vec<f32> {
    if low == high {
        high += 0.001;
    }
    let ramp = |i: usize| ((i as f32 - low as f32) / (high - low) as f32).clamp(0.0, 1.0);
    let one = |(i, p): (usize, &f32)| {
        let (plain, scaled) = (1.0 / p, 1.0 / (factor as f32 * p));
        let keep = 1.0 - ramp(i);
        scaled * (1.0 - keep) + plain * keep
    };
    powers.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llama3_gives_the_published_example() {
        let scaling = Scaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 64.0 };
        let table = Rope { theta: 10000.0, partial: 1.0, scaling, limit: None }.table(32).unwrap();
        let want =
            [1.0f32, 0.56234133, 0.24438459, 0.06430987, 0.013042256, 0.007029266, 0.0039528473, 0.0022228493, 0.00125];
        assert_eq!(table.inv_freq[..9], want);
        assert_eq!((table.rotary_dim, table.inv_freq.len(), table.attention_factor), (32, 16, 1.0));
    }

    #[test]
    fn linear_divides_and_partial_shortens() {
        let plain = Rope::plain(10000.0).table(64).unwrap();
        let linear = Rope { scaling: Scaling::Linear { factor: 4.0 }, ..Rope::plain(10000.0) }.table(64).unwrap();
        assert!(plain.inv_freq.iter().zip(&linear.inv_freq).all(|(a, b)| a / 4.0 == *b));
        let half = Rope { partial: 0.5, ..Rope::plain(10000.0) }.table(64).unwrap();
        assert_eq!((half.rotary_dim, half.inv_freq.len()), (32, 16));
        assert_eq!(half.inv_freq, Rope::plain(10000.0).table(32).unwrap().inv_freq);
        assert!(Rope { partial: 0.01, ..Rope::plain(1e4) }.table(64).is_err());
    }
}
