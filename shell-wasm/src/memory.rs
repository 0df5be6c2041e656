//! Blocks of linear memory: for the host to write into, and for the runtime itself.

use crate::fault;
use bytemuck::Pod;
use core::alloc::{GlobalAlloc, Layout};
use core::mem::size_of;
use core::ptr::NonNull;
use tinyrustlm_core::bytes::copy;
use tinyrustlm_core::error::{Code, Error};

#[cfg(target_arch = "wasm32")]
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// dlmalloc without its way to grow a block where it stands: strings from the host are all that ever grows.
#[cfg(target_arch = "wasm32")]
struct Allocator;

// SAFETY: every call is dlmalloc's own; what is not written here is the trait's.
#[cfg(target_arch = "wasm32")]
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout is as this trait demands.
        unsafe { dlmalloc::GlobalDlmalloc.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the block is one of `alloc`, with its layout.
        unsafe { dlmalloc::GlobalDlmalloc.dealloc(ptr, layout) }
    }
}
#[cfg(not(target_arch = "wasm32"))]
static ALLOCATOR: std::alloc::System = std::alloc::System;

/// Every block begins at a multiple of this, so that weights and caches can be used where they lie.
const ALIGN: usize = 64;

/// Takes `len` bytes at a multiple of 64. Null, with the error recorded, when `len` is 0, above the ceiling of one
/// transfer, or more than the host can give.
#[unsafe(no_mangle)]
pub extern "C" fn alloc(len: usize) -> *mut u8 {
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
/// # Safety
/// `ptr` and `len` are those of one call of `alloc`, and the block was neither given back nor loaded as a model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dealloc(ptr: *mut u8, len: usize) {
    if let Some(ptr) = NonNull::new(ptr) {
        drop(Block { ptr, len });
    }
}

/// Owned bytes at a multiple of 64. An empty one owns nothing.
///
/// Blocks come from the allocator itself, not through Rust's allocation functions: linear memory always holds some
/// bytes, and pages that nobody writes to, such as those of a cache that never fills, stay untouched.
pub struct Block {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: a block is the only owner of its memory.
unsafe impl Send for Block {}

impl Block {
    /// Owns nothing.
    pub const EMPTY: Self = Self { ptr: NonNull::dangling(), len: 0 };

    /// Takes `len` bytes; what they hold is not said.
    ///
    /// # Errors
    /// `InvalidLength` for none or more than an address space holds, `OutOfMemory` when the host gives no more.
    pub fn take(len: usize) -> Result<Self, Error> {
        let layout = Layout::from_size_align(len, ALIGN).ok().filter(|layout| layout.size() > 0);
        let layout = layout.ok_or(Code::InvalidLength)?;
        // SAFETY: the layout's size is not zero.
        #[cfg(target_arch = "wasm32")]
        let ptr = unsafe { ALLOCATOR.alloc(layout) };
        // SAFETY: as above. Elsewhere fresh memory has to be written first.
        #[cfg(not(target_arch = "wasm32"))]
        let ptr = unsafe { ALLOCATOR.alloc_zeroed(layout) };
        let ptr = NonNull::new(ptr).ok_or(Code::OutOfMemory)?;
        Ok(Self { ptr, len })
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
    /// As for [`dealloc`]; the block belongs to the result from now on.
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
        // SAFETY: the block owns `len` initialised bytes (or none, at a dangling pointer).
        unsafe { core::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }

    /// Its whole elements.
    pub fn slice_mut<T: Pod>(&mut self) -> &mut [T] {
        let whole = self.len / size_of::<T>() * size_of::<T>();
        // SAFETY: as in `bytes`; the borrow is unique.
        let bytes = unsafe { core::slice::from_raw_parts_mut(self.ptr.as_ptr(), whole) };
        bytemuck::try_cast_slice_mut(bytes).unwrap_or(&mut [])
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
        if let (Ok(layout), true) = (Layout::from_size_align(self.len, ALIGN), self.len > 0) {
            // SAFETY: `take` made the block with this layout, or the caller of `dealloc` vouches for it.
            unsafe { ALLOCATOR.dealloc(self.ptr.as_ptr(), layout) }
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
