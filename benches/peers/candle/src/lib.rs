//! A GGUF model in candle: prompts and steps, greedily. On wasm32 the same through three exports, without imports.

use anyhow::Result;
use candle_core::quantized::gguf_file::Content;
use candle_core::{Device, Tensor};
use candle_transformers::models::quantized_llama::ModelWeights;
use std::io::{Read, Seek};

/// A model, and the position its cache has come to.
pub struct Peer {
    weights: ModelWeights,
    position: usize,
}

impl Peer {
    /// Reads a GGUF file.
    pub fn new(mut gguf: impl Read + Seek) -> Result<Self> {
        let content = Content::read(&mut gguf)?;
        Ok(Self { weights: ModelWeights::from_gguf(content, &mut gguf, &Device::Cpu)?, position: 0 })
    }

    /// Forgets what was read: candle's cache begins anew at position 0.
    pub fn reset(&mut self) {
        self.position = 0;
    }

    /// The likeliest token after these.
    pub fn next(&mut self, ids: &[u32]) -> Result<u32> {
        let input = Tensor::new(ids, &Device::Cpu)?.unsqueeze(0)?;
        let logits = self.weights.forward(&input, self.position)?.squeeze(0)?;
        self.position += ids.len();
        Ok(logits.argmax(0)?.to_scalar::<u32>()?)
    }
}

#[cfg(target_arch = "wasm32")]
mod exports {
    use super::Peer;
    use std::cell::RefCell;
    use std::io::Cursor;

    thread_local! { static PEER: RefCell<Option<Peer>> = const { RefCell::new(None) }; }

    /// Room for `len` bytes, 4-aligned, for the host to fill; never given back.
    #[unsafe(no_mangle)]
    pub extern "C" fn room(len: usize) -> *mut u32 {
        vec![0u32; len.div_ceil(4)].leak().as_mut_ptr()
    }

    /// Loads the file in `room`. Gives 1 when candle cannot.
    #[unsafe(no_mangle)]
    pub extern "C" fn load(at: *const u8, len: usize) -> u32 {
        // SAFETY: the host passes what `room` gave, of at least this length.
        let file = unsafe { std::slice::from_raw_parts(at, len) };
        let peer = Peer::new(Cursor::new(file)).ok();
        let failed = peer.is_none() as u32;
        PEER.set(peer);
        failed
    }

    /// The likeliest token after `count` ids; from position 0 when `fresh`. `u32::MAX` when candle cannot.
    #[unsafe(no_mangle)]
    pub extern "C" fn next(ids: *const u32, count: usize, fresh: u32) -> u32 {
        // SAFETY: the host passes what `room` gave, of at least this many ids.
        let ids = unsafe { std::slice::from_raw_parts(ids, count) };
        PEER.with_borrow_mut(|peer| {
            let Some(peer) = peer else { return u32::MAX };
            if fresh != 0 {
                peer.reset();
            }
            peer.next(ids).unwrap_or(u32::MAX)
        })
    }

    /// What candle asks for random numbers, which greedy decoding never does: there are none here.
    #[unsafe(no_mangle)]
    unsafe extern "Rust" fn __getrandom_v03_custom(_: *mut u8, _: usize) -> Result<(), getrandom::Error> {
        Err(getrandom::Error::UNSUPPORTED)
    }
}
