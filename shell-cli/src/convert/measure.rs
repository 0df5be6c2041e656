//! The study of a conversion: prompts, the source's own forward pass, and the file's.

use super::drift::{self, Drift};
use super::encode::{self, Encoding};
use super::forward::{Moments, Runner, Weight};
use super::input::Input;
use super::mapping::Destination;
use super::output::Output;
use super::progress::Progress;
use super::provenance;
use super::source::{Source, io};
use super::write::{self, Map};
use crate::failure::{Failure, Kind};
use std::path::Path;
use tinyrustlm_core::container::DType;

/// What is the same for the source's pass and the file's.
pub struct Study<'a> {
    input: &'a Input,
    tied: bool,
    prompts: Vec<Vec<u32>>,
    threads: tinyrustlm::Threads,
    calibration: Option<String>,
}

/// Final states `[positions, hidden]` of the source.
pub struct Reference(Vec<f32>);

impl<'a> Study<'a> {
    /// `None` when the tokenizer gives no ids for any prompt.
    pub fn new(input: &'a Input, tied: bool, calibration: Option<&Path>) -> Result<Option<Self>, Failure> {
        let text = match calibration {
            Some(path) => Some(std::fs::read_to_string(path).map_err(|e| io(path, &e))?),
            None => None,
        };
        let prompts = drift::prompts(&input.tokenizer.section, text.as_deref(), input.architecture.max_context)?;
        if prompts.is_empty() {
            return match calibration {
                Some(path) => Err(Failure::new(Kind::Usage, format!("{}: no prompts", path.display()))),
                None => Ok(None),
            };
        }
        let threads = tinyrustlm::Threads::new(tinyrustlm::Threads::default_count())?;
        let calibration = text.map(|text| format!("sha256 {}", provenance::sha256(text.as_bytes())));
        Ok(Some(Self { input, tied, prompts, threads, calibration }))
    }

    /// Identity of the text measured on, when it is not the built-in one.
    pub fn calibration(&self) -> Option<&str> {
        self.calibration.as_deref()
    }

    fn runner(&self) -> Runner<'_> {
        Runner {
            architecture: &self.input.architecture,
            tied: self.tied,
            prompts: &self.prompts,
            isa: tinyrustlm::detect(),
            workers: &self.threads,
        }
    }

    /// Figures of nothing, in a record as long as the real ones will be.
    pub fn empty(&self) -> Drift {
        Drift { prompts: self.prompts.len(), positions: self.runner().positions(), ..Drift::default() }
    }

    /// The source's pass in f32.
    pub fn reference(
        &self,
        tensors: &[(Destination, Encoding)],
        source: &Source,
    ) -> Result<(Reference, Moments), Failure> {
        let progress = Progress::new("measuring", elements(tensors));
        let mut moments = Moments::new();
        let mut provide = |name: &str| {
            let weight = widened(find(tensors, name)?.1, source)?;
            progress.add(weight.words.len() as u64);
            Ok(weight)
        };
        let states = self.runner().states(&mut provide, Some(&mut moments))?;
        Ok((Reference(states), moments))
    }

    /// The file's pass, and how far it is from the source's.
    pub fn drift(
        &self,
        reference: &Reference,
        tensors: &[(Destination, Encoding)],
        source: &Source,
        map: &Map,
        output: &Output,
    ) -> Result<Drift, Failure> {
        let progress = Progress::new("measuring", elements(tensors));
        let runner = self.runner();
        let mut provide = |name: &str| {
            let (index, dest) = find(tensors, name)?;
            progress.add(dest.rows() * dest.cols());
            stored(dest, tensors[index].1, map.tensor(index), output)
        };
        let states = runner.states(&mut provide, None)?;
        let head = widened(find(tensors, runner.head_name())?.1, source)?;
        let stored_head = provide(runner.head_name())?;
        drift::compare(&runner, (&reference.0, &head), (&states, &stored_head))
    }
}

fn elements(tensors: &[(Destination, Encoding)]) -> u64 {
    tensors.iter().map(|(dest, _)| dest.rows() * dest.cols()).sum()
}

fn find<'t>(tensors: &'t [(Destination, Encoding)], name: &str) -> Result<(usize, &'t Destination), Failure> {
    let index = tensors.iter().position(|(dest, _)| dest.name == name);
    let index = index.ok_or_else(|| Failure::new(Kind::Malformed, format!("{name} is not there")))?;
    Ok((index, &tensors[index].0))
}

fn shape(dest: &Destination) -> (usize, usize) {
    (dest.rows() as usize, if dest.is_matrix() { dest.cols() as usize } else { 1 })
}

fn widened(dest: &Destination, source: &Source) -> Result<Weight, Failure> {
    let mut words = Vec::with_capacity((dest.rows() * dest.cols()) as usize);
    encode::strips(source, dest, |_, values| {
        words.extend(values.iter().map(|v| v.to_bits()));
        Ok(())
    })?;
    let (rows, cols) = shape(dest);
    Ok(Weight { dtype: DType::F32, rows, cols, words })
}

fn stored(dest: &Destination, encoding: Encoding, place: (u64, u64), output: &Output) -> Result<Weight, Failure> {
    let mut words = vec![0u32; place.1.div_ceil(4) as usize];
    let bytes = &mut bytemuck::cast_slice_mut(&mut words)[..place.1 as usize];
    write::read_back(output, place.0, bytes)?;
    let (rows, cols) = shape(dest);
    Ok(Weight { dtype: encoding.dtype.core(), rows, cols, words })
}

/// Weights of the columns from the mean squares of the inputs: each lifted by a hundredth of the median, so that no column
/// is forgotten. The embedding, where it is the head, also serves as a table of rows, which adds a constant.
pub fn importance(moments: Moments, tied: bool) -> Moments {
    let mut out = Moments::new();
    for (name, h) in moments {
        let mut sorted = h.clone();
        sorted.sort_by(f32::total_cmp);
        let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0.0);
        let weights: Vec<f32> = if name == "output.weight" {
            h.iter().map(|h| if median > 0.0 { h / median + 0.3 } else { 1.0 }).collect()
        } else {
            h.iter().map(|h| h + 0.01 * median).collect()
        };
        let name = if tied && name == "output.weight" { "tok_embeddings.weight".to_owned() } else { name };
        out.insert(name, weights);
    }
    out
}
