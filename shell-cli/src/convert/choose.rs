//! Which dtype each tensor gets, and how its codes are found.

use super::Quant;
use super::blocks::{BLOCK, Dtype};
use super::encode::{self, Encoding, Method};
use super::forward::Moments;
use super::input::Input;
use super::mapping::Destination;
use super::progress::Progress;
use super::quantize::round_block;
use crate::failure::{Failure, Kind};

/// `--tensor-type PATTERN=DTYPE`, the first match wins.
#[derive(Debug)]
pub struct TensorTypes(Vec<(String, Dtype)>);

impl TensorTypes {
    /// Reads the arguments.
    pub fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let one = |argument: &String| {
            let parsed = argument.split_once('=').and_then(|(pattern, dtype)| {
                Some((pattern.to_owned(), Dtype::from_name(dtype)?)).filter(|(pattern, _)| !pattern.is_empty())
            });
            parsed.ok_or_else(|| {
                let names = Dtype::ALL.map(Dtype::name).join("|");
                Failure::new(Kind::Usage, format!("--tensor-type {argument:?} is not PATTERN={names}"))
            })
        };
        arguments.iter().map(one).collect::<Result<_, _>>().map(Self)
    }

    fn of(&self, name: &str) -> Option<Dtype> {
        self.0.iter().find(|(pattern, _)| matches(pattern, name)).map(|(_, dtype)| *dtype)
    }

    /// A pattern without a matrix is a mistake.
    pub fn check_all_used(&self, tensors: &[(Destination, Encoding)]) -> Result<(), Failure> {
        let used = |pattern: &str| tensors.iter().any(|(dest, _)| dest.is_matrix() && matches(pattern, &dest.name));
        match self.0.iter().find(|(pattern, _)| !used(pattern)) {
            Some((pattern, _)) => {
                Err(Failure::new(Kind::Usage, format!("--tensor-type {pattern}: no matrix has such a name")))
            }
            None => Ok(()),
        }
    }
}

/// `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Chooses dtype and method per tensor.
pub fn choose(
    input: &Input,
    list: Vec<Destination>,
    quant: Quant,
    types: &TensorTypes,
) -> Result<Vec<(Destination, Encoding)>, Failure> {
    let total = list.iter().map(|dest| dest.rows() * dest.cols()).sum();
    let progress = Progress::new("looking", total);
    let mut tensors = Vec::with_capacity(list.len());
    for dest in list {
        let own = encode::import_dtype(input.source.tensor(&dest.piece.source)?.dtype);
        let wanted = match (quant, types.of(&dest.name)) {
            _ if !dest.is_matrix() => Some(Dtype::F32),
            (_, Some(dtype)) => Some(dtype),
            (Quant::Auto, _) => own,
            (Quant::Exact, _) if own.is_some() => own,
            (Quant::Exact, _) => Some(exact(input, &dest)?),
            (Quant::All(Dtype::Q4_0 | Dtype::Q4_1), _) if dest.is_vocabulary() => Some(Dtype::Q8_0),
            (Quant::All(dtype), _) => Some(dtype),
        };
        let encoding = match wanted {
            Some(dtype) if dtype.is_float() => Encoding { dtype, method: Method::Keep },
            Some(dtype) if own == Some(dtype) => Encoding { dtype, method: Method::Import },
            Some(dtype) => Encoding { dtype, method: Method::Round },
            None => match encode::grid(&input.source, &dest)? {
                Some(dtype) => Encoding { dtype, method: Method::Grid },
                None => Encoding { dtype: Dtype::Q8_0, method: Method::Round },
            },
        };
        progress.add(dest.rows() * dest.cols());
        tensors.push((dest, encoding));
    }
    Ok(tensors)
}

/// The dtype that keeps every value of `dest` as it is.
fn exact(input: &Input, dest: &Destination) -> Result<Dtype, Failure> {
    Ok(if encode::is_bf16(&input.source, dest)? { Dtype::Bf16 } else { Dtype::F32 })
}

/// Rounded matrices whose inputs are known get searched scales.
pub fn search(tensors: &mut [(Destination, Encoding)], importance: &Moments) {
    for (dest, encoding) in tensors {
        if encoding.method == Method::Round && importance.contains_key(&dest.name) {
            encoding.method = Method::Search;
        }
    }
}

/// Bytes of all tensors with their alignment.
pub fn tensor_bytes(tensors: &[(Destination, Encoding)]) -> u64 {
    let one = |(dest, encoding): &(Destination, Encoding)| {
        encoding.dtype.tensor_bytes(dest.rows(), dest.cols()).next_multiple_of(64)
    };
    tensors.iter().map(one).sum()
}

/// A matrix with what each dtype would cost.
struct Candidate {
    index: usize,
    /// Dtype, bytes, share of the output's energy that rounding loses; by falling loss.
    choices: Vec<(Dtype, u64, f64)>,
    at: usize,
}

/// Chooses dtypes so that the file, `overhead` bytes of which are no tensors, fits `target` bytes: every matrix that is not on a grid starts with the smallest, and
/// the upgrade that takes away most error per byte is made until none fits.
///
/// The error of a matrix under a dtype is the mean square of what rounding changes in its outputs, relative to the mean
/// square of the outputs, both under the mean squares of its inputs.
pub fn fit(
    input: &Input,
    tensors: &mut [(Destination, Encoding)],
    importance: &Moments,
    target: u64,
    overhead: u64,
) -> Result<(), Failure> {
    let size = |dest: &Destination, dtype: Dtype| dtype.tensor_bytes(dest.rows(), dest.cols()).next_multiple_of(64);
    let mut total: u64 = 0;
    let mut options = Vec::new();
    for (index, (dest, encoding)) in tensors.iter().enumerate() {
        let free = dest.is_matrix() && matches!(encoding.method, Method::Round | Method::Keep | Method::Search);
        if !free {
            total += size(dest, encoding.dtype);
            continue;
        }
        let ones = vec![1.0; dest.cols() as usize];
        let h = importance.get(&dest.name).unwrap_or(&ones);
        let exact = exact(input, dest)?;
        let mut choices = vec![(exact, size(dest, exact), 0.0)];
        for dtype in Dtype::QUANTISED {
            choices.push((dtype, size(dest, dtype), loss(input, dest, dtype, h)?));
        }
        // Smallest first; what is no better than something smaller is left out.
        choices.sort_by_key(|(_, bytes, _)| *bytes);
        let mut kept: Vec<(Dtype, u64, f64)> = Vec::new();
        for choice in choices {
            if kept.last().is_none_or(|last| choice.2 < last.2) {
                kept.push(choice);
            }
        }
        total += kept[0].1;
        options.push(Candidate { index, choices: kept, at: 0 });
    }
    let room = target.saturating_sub(overhead);
    loop {
        let best = options
            .iter()
            .enumerate()
            .filter_map(|(i, option)| {
                let (_, bytes, error) = option.choices[option.at];
                let (_, more, less) = *option.choices.get(option.at + 1)?;
                (total + more - bytes <= room).then(|| (i, (error - less) / (more - bytes) as f64, more - bytes))
            })
            .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
        let Some((i, _, bytes)) = best else { break };
        options[i].at += 1;
        total += bytes;
    }
    for option in options {
        let dtype = option.choices[option.at].0;
        let method = if dtype.is_float() { Method::Keep } else { Method::Round };
        tensors[option.index].1 = Encoding { dtype, method };
    }
    Ok(())
}

fn loss(input: &Input, dest: &Destination, dtype: Dtype, h: &[f32]) -> Result<f64, Failure> {
    let (mut error, mut energy) = (0.0f64, 0.0f64);
    encode::strips(&input.source, dest, |_, values| {
        for row in values.chunks_exact(dest.cols() as usize) {
            for (block, h) in row.chunks(BLOCK).zip(h.chunks(BLOCK)) {
                let Ok(rounded) = round_block(dtype, block) else { continue };
                for ((x, v), h) in block.iter().zip(rounded.decode(dtype)).zip(h) {
                    error += f64::from(*h) * f64::from(x - v).powi(2);
                    energy += f64::from(*h) * f64::from(*x).powi(2);
                }
            }
        }
        Ok(())
    })?;
    Ok(if energy > 0.0 { error / energy } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_characters() {
        for (pattern, name, want) in [
            ("layers.*.w2.weight", "layers.10.w2.weight", true),
            ("layers.*.w2.weight", "layers.10.w1.weight", false),
            ("*", "output.weight", true),
            ("output.weight", "output.weight", true),
            ("output", "output.weight", false),
            ("*w*", "layers.0.wq.weight", true),
            ("layers.1.*", "layers.10.wq.weight", false),
        ] {
            assert_eq!(matches(pattern, name), want, "{pattern} {name}");
        }
    }
}
