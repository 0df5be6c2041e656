//! The model a file holds: configuration, records and weights, checked against each other. A view that is copied
//! freely; the weights stay where they lie.

pub mod config;
pub mod matrix;
pub mod rope;
pub mod sampling;
pub mod stops;
pub mod tensors;
mod weights;

pub use config::{Activation, Config, QkNorm};
pub use matrix::{Linear, Matrix};
pub use rope::{Rope, RopeTable};
pub use sampling::SamplingDefaults;
pub use stops::Stops;
pub use weights::Layer;

use crate::container::{Container, Fnv, RESERVED, directory, header};
use crate::error::{Code, Error};
use crate::event::event;
use crate::tokenizer::Tokenizer;
use tensors::{Role, TensorSpec, for_each_tensor};

// Directory indices of the records.
const CONFIG: usize = 1;
const ROPE: usize = 2;
const TEMPLATE: usize = 3;
const STOPS: usize = 4;
const SAMPLING: usize = 5;
const PROVENANCE: usize = 6;

/// A checked model.
#[derive(Clone, Copy, Debug)]
pub struct Model<'a> {
    container: Container<'a>,
    /// Sizes and switches.
    pub config: Config,
    /// Rotary frequencies.
    pub rope: Rope<'a>,
    /// What ends generation.
    pub stops: Stops<'a>,
    windows: &'a [u8],
    /// Index in a layer's run of directory entries, per role; [`Model::ABSENT`] for what the model lacks.
    slots: [u8; Role::ALL.len()],
    layer_entries: usize,
}

impl<'a> Model<'a> {
    const ABSENT: u8 = u8::MAX;

    /// Checks `bytes`, a whole file whose first byte stands at a multiple of 4. Reads every byte; takes no memory.
    ///
    /// # Errors
    /// The number of the first condition that does not hold, with offset and directory index.
    #[inline(never)]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut model = Self {
            container: Container::empty(),
            config: Config::EMPTY,
            rope: Rope::EMPTY,
            stops: Stops::EMPTY,
            windows: &[],
            slots: [Self::ABSENT; Role::ALL.len()],
            layer_entries: 0,
        };
        model.read(bytes)?;
        Ok(model)
    }

    /// [`Model::parse`], in place: the stages fail with a word each, and nothing is moved.
    fn read(&mut self, bytes: &'a [u8]) -> Result<(), Error> {
        if bytes.as_ptr().align_offset(4) != 0 {
            return Err(Error::new(Code::ModelMisaligned).at(0));
        }
        self.container.read(bytes)?;
        for (index, name) in RESERVED.iter().enumerate().skip(1) {
            let hash = Fnv::of(name.as_bytes());
            if !self.container.is_record(index, hash) {
                return Err(wrong_entry(&self.container, index, hash));
            }
            let (record, base) = (self.container.payload(index), self.container.payload_offset(index));
            let config = &self.config;
            let read = match index {
                CONFIG => {
                    self.windows = record.get(config::FIXED_LENGTH..).unwrap_or(&[]);
                    self.config.read(self.container.header(), record, base)
                }
                ROPE => self.rope.read(record, base, config.head_dim, config.layer_count),
                STOPS => self.stops.read(record, base, config.vocab_size),
                SAMPLING => sampling::check(record, base),
                _ => Ok(()),
            };
            read.map_err(|error| error.entry(index as u32))?;
        }
        for (slot, role) in self.slots.iter_mut().zip(Role::ALL) {
            if role.shape(&self.config).is_some() {
                *slot = self.layer_entries as u8;
                self.layer_entries = self.layer_entries.saturating_add(1);
            }
        }
        self.check_tensors()?;
        event!("model: {=u32} bytes, {=u32} layers", bytes.len() as u32, self.config.layer_count as u32);
        Ok(())
    }

    #[inline(never)]
    fn check_tensors(&self) -> Result<(), Error> {
        let mut index = RESERVED.len();
        for_each_tensor(&self.config, &mut |spec| {
            self.check_tensor(index, spec).map_err(|error| error.entry(index as u32))?;
            index = index.saturating_add(1);
            Ok(())
        })?;
        if index != self.container.header().tensor_count as usize {
            let at = self.container.entry_offset(index as u32);
            return Err(Error::new(Code::UnexpectedTensor).at(at).entry(index as u32));
        }
        Ok(())
    }

    /// Checks the tensor of entry `index`. An error still lacks the index.
    fn check_tensor(&self, index: usize, spec: &TensorSpec) -> Result<(), Error> {
        let entry = self.container.entry_offset(index as u32);
        let fail = |code, field: usize| Err(Error::new(code).at(entry.saturating_add(field as u64)));
        let hash = spec.name_hash();
        if self.container.name_hash(index) != hash {
            return Err(wrong_entry(&self.container, index, hash));
        }
        let Some(dtype) = self.container.dtype(index).filter(|dtype| spec.admits(*dtype)) else {
            return fail(Code::TensorDType, directory::DTYPE);
        };
        // A vector has no columns and a matrix has some, so that this settles the rank.
        if self.container.shape(index) != [spec.rows, spec.cols] {
            return fail(Code::TensorShape, directory::DIMS);
        }
        weights::check_values(dtype, self.container.payload(index), self.container.payload_offset(index))
    }

    /// The file's structure.
    pub fn container(&self) -> &Container<'a> {
        &self.container
    }

    /// Bytes of the tokenizer section.
    pub fn tokenizer_bytes(&self) -> &'a [u8] {
        self.container.tokenizer()
    }

    /// The file's tokenizer.
    ///
    /// # Errors
    /// What `Tokenizer::parse` says of the section, with offsets from its begin; `TokenizerDrift` where it does not belong
    /// to this model, with the offset of the header's field. Cost: one pass over the section.
    pub fn tokenizer(&self) -> Result<Tokenizer<'a>, Error> {
        let tokenizer = Tokenizer::parse(self.tokenizer_bytes())?;
        let found = self.container.header();
        let drift = |field: usize| Error::new(Code::TokenizerDrift).at(field as u64);
        if tokenizer.vocab_size() > found.vocab_size {
            return Err(drift(header::VOCAB_SIZE));
        }
        if tokenizer.special_count() != found.special_token_count {
            return Err(drift(header::SPECIAL_TOKEN_COUNT));
        }
        Ok(tokenizer)
    }

    /// The publisher's generation defaults.
    pub fn sampling(&self) -> SamplingDefaults {
        SamplingDefaults::of(self.container.payload(SAMPLING))
    }

    /// Bytes of the template record; empty for a model without template.
    pub fn template_bytes(&self) -> &'a [u8] {
        self.container.payload(TEMPLATE)
    }

    /// Bytes of the provenance record, CBOR.
    pub fn provenance(&self) -> &'a [u8] {
        self.container.payload(PROVENANCE)
    }

    /// Keys a query of `layer` sees, its own included; 0: all.
    pub fn window(&self, layer: usize) -> usize {
        let words = self.windows.as_chunks::<4>().0;
        words.get(layer).map_or(0, |word| u32::from_le_bytes(*word) as usize)
    }
}

/// What to say of entry `index`, which is not the one that must stand there.
fn wrong_entry(container: &Container<'_>, index: usize, expected: u64) -> Error {
    let code = match container.find_hash(expected) {
        Some(_) => Code::UnexpectedTensor,
        None => Code::MissingTensor,
    };
    Error::new(code).at(container.entry_offset(index as u32)).entry(index as u32)
}
