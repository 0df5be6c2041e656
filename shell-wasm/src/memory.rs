//! Blocks of linear memory: for the host to write into, and for the runtime itself.

use crate::{fault, heap};
use bytemuck::Pod;
use core::mem::size_of;
use core::ptr::NonNull;
use tinyrustlm_core::Block64;
use tinyrustlm_core::bytes::copy;
use tinyrustlm_core::error::{Code, Error};
use wasm_bindgen::prelude::wasm_bindgen;

/// Every block begins at a multiple of this, so that weights and caches can be used where they lie.
const ALIGN: usize = 64;

/// Takes `len` bytes at a multiple of 64. Null, with the error recorded, when `len` is 0, above the ceiling of one
/// transfer, or more than the host can give.
#[wasm_bindgen]
pub fn alloc(len: usize) -> *mut u8 {
    let block = match len as u64 > fault::ceiling() {
        true => Err(Error::new(Code::TransferCeilingExceeded)),
        false => Block::take(len),
    };
    match block {
        Ok(block) => block.leak(),
        Err(error) => {
            fault::record(error);
            core::ptr::null_mut()
        }
    }
}

/// Gives back a block of [`alloc`] with the length it was taken with. Null is ignored.
///
/// The host vouches that `ptr` and `len` are those of one call of `alloc`, and that the block was neither given back nor
/// loaded as a model.
#[wasm_bindgen]
pub fn dealloc(ptr: *mut u8, len: usize) {
    if let Some(ptr) = NonNull::new(ptr) {
        drop(Block { ptr, len });
    }
}

/// Owned bytes at a multiple of 64. An empty one owns nothing.
///
/// Nothing is written to it: linear memory always holds some bytes, and pages that nobody writes to, such as those of a
/// cache that never fills, stay untouched. It is aligned here, so that of what the heap has for that nothing is linked.
pub struct Block {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: a block is the only owner of its memory.
unsafe impl Send for Block {}

impl Block {
    /// Owns nothing.
    pub const EMPTY: Self = Self { ptr: NonNull::<Block64>::dangling().cast(), len: 0 };

    /// Takes `len` bytes; what they hold is not said.
    ///
    /// # Errors
    /// `InvalidLength` for none or more than an address space holds, `OutOfMemory` when the host gives no more.
    pub fn take(len: usize) -> Result<Self, Error> {
        let room = len.checked_add(ALIGN).filter(|room| len > 0 && *room <= isize::MAX as usize);
        let start = NonNull::new(heap::take(room.ok_or(Code::InvalidLength)?)).ok_or(Code::OutOfMemory)?;
        // SAFETY: `start` is a multiple of two words, so at least those and at most `ALIGN` bytes lie before the block,
        // and there is room for both. The word before the block keeps the start.
        unsafe {
            let ptr = start.add(ALIGN - start.addr().get() % ALIGN);
            ptr.cast::<NonNull<u8>>().sub(1).write(start);
            Ok(Self { ptr, len })
        }
    }

    /// Takes memory for at least `count` elements.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn of<T: Pod>(count: usize) -> Result<Self, Error> {
        let bytes = count.checked_mul(size_of::<T>()).ok_or(Code::OutOfMemory)?;
        Self::take(bytes.max(1))
    }

    /// The block of an earlier `alloc`.
    ///
    /// # Safety
    /// What the host vouches for in [`dealloc`]; the block belongs to the result from now on.
    pub unsafe fn adopt(ptr: *mut u8, len: usize) -> Result<Self, Error> {
        match NonNull::new(ptr) {
            Some(ptr) if ptr.as_ptr().align_offset(ALIGN) == 0 && len > 0 => Ok(Self { ptr, len }),
            Some(_) => Err(Error::new(Code::ForeignBlock)),
            None => Err(Error::new(Code::NullPointer)),
        }
    }

    /// Its first byte.
    pub fn ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        self.slice()
    }

    /// Its whole elements.
    pub fn slice<T: Pod>(&self) -> &[T] {
        const { assert!(align_of::<T>() <= ALIGN) };
        // SAFETY: the block owns `len` initialised bytes at an address that is aligned for `T` (or none, at a dangling
        // pointer), and any bytes are a `T`.
        unsafe { core::slice::from_raw_parts(self.ptr.cast().as_ptr(), self.len / size_of::<T>()) }
    }

    /// The same, to write to.
    pub fn slice_mut<T: Pod>(&mut self) -> &mut [T] {
        const { assert!(align_of::<T>() <= ALIGN) };
        // SAFETY: as above; the borrow is unique.
        unsafe { core::slice::from_raw_parts_mut(self.ptr.cast().as_ptr(), self.len / size_of::<T>()) }
    }

    /// Gives the block to whoever knows its address.
    pub fn leak(self) -> *mut u8 {
        let ptr = self.ptr.as_ptr();
        core::mem::forget(self);
        ptr
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: `take` made the block and wrote its start before it, or the host vouches for that.
            unsafe { heap::give(self.ptr.cast::<NonNull<u8>>().sub(1).read().as_ptr()) }
        }
    }
}

/// Bytes for the host to read, in a block that grows where needed and is used again.
pub struct Buffer {
    block: Block,
    len: usize,
}

impl Buffer {
    /// Nothing.
    pub const EMPTY: Self = Self { block: Block::EMPTY, len: 0 };

    /// Room for at least `room` bytes, whose content is lost.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn room(&mut self, room: usize) -> Result<&mut [u8], Error> {
        self.len = 0;
        if self.block.len() < room {
            self.block = Block::EMPTY;
            self.block = Block::of::<u8>(room)?;
        }
        Ok(self.block.slice_mut())
    }

    /// How many bytes of the room count.
    pub fn set_len(&mut self, len: usize) {
        self.len = len.min(self.block.len());
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn set(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.room(bytes.len())?;
        self.append(bytes)
    }

    /// Copies bytes in behind those it has.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let end = self.len.saturating_add(bytes.len());
        if end > self.block.len() {
            let mut grown = Block::of::<u8>(end.saturating_mul(2))?;
            copy(grown.slice_mut(), self.bytes());
            self.block = grown;
        }
        copy(self.block.slice_mut().get_mut(self.len..).unwrap_or(&mut []), bytes);
        self.len = end;
        Ok(())
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        self.block.bytes().get(..self.len).unwrap_or(&[])
    }
}
