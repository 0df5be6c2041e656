//! TinyRustLM for programs with std: maps model files, detects the CPU, takes the memory a plan asks for.
//!
//! ```no_run
//! use tinyrustlm::core::{kernels::Serial, model::Model, plan::Plan, session::Session};
//! use tinyrustlm::{Memory, ModelFile, detect};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let file = ModelFile::open("model.slm")?;
//! let model = Model::parse(file.bytes())?;
//! let plan = Plan::new(&model, 512, 64)?;
//! let mut memory = Memory::new(&plan)?;
//! let mut session = Session::new(&model, plan, memory.blocks(), detect())?;
//! let logits = session.prefill(&[1, 2, 3], &Serial)?;
//! # let _ = logits;
//! # Ok(())
//! # }
//! ```

mod describe;
mod isa;
pub mod measure;
mod memory;
mod model_file;
mod threads;

pub use describe::describe;
pub use isa::{available, detect};
pub use memory::Memory;
pub use model_file::{Backing, ModelFile};
pub use threads::Threads;
pub use tinyrustlm_core as core;
