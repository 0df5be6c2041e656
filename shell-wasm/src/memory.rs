//! Blocks of linear memory: for the host to write into, and for the runtime itself.

use crate::fault;
use core::alloc::Layout;
use core::ptr::NonNull;
use tinyrustlm_core::error::{Code, Error};

/// Every block begins at a multiple of this, so that weights and caches can be used where they lie.
const ALIGN: usize = 64;

/// Takes `len` zeroed bytes at a multiple of 64. Null, with the error recorded, when `len` is 0, above the ceiling of
/// one transfer, or more than the host can give.
#[unsafe(no_mangle)]
pub extern "C" fn alloc(len: usize) -> *mut u8 {
    if len as u64 > fault::ceiling() {
        fault::record(Error::new(Code::TransferCeilingExceeded));
        return core::ptr::null_mut();
    }
    match Block::take(len) {
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

/// Owned bytes at a multiple of 64.
pub struct Block {
    ptr: NonNull<u8>,
    len: usize,
}

impl Block {
    /// Takes `len` zeroed bytes.
    ///
    /// # Errors
    /// `InvalidLength` for none or more than an address space holds, `OutOfMemory` when the host gives no more.
    pub fn take(len: usize) -> Result<Self, Error> {
        let layout = Layout::from_size_align(len, ALIGN).ok().filter(|layout| layout.size() > 0);
        let layout = layout.ok_or(Error::new(Code::InvalidLength))?;
        // SAFETY: the layout's size is not zero.
        let ptr = NonNull::new(unsafe { alloc::alloc::alloc_zeroed(layout) }).ok_or(Error::new(Code::OutOfMemory))?;
        Ok(Self { ptr, len })
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

    /// Its length.
    pub fn len(&self) -> usize {
        self.len
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
        if let Ok(layout) = Layout::from_size_align(self.len, ALIGN) {
            // SAFETY: `take` made the block with this layout, or the caller of `dealloc` vouches for it.
            unsafe { alloc::alloc::dealloc(self.ptr.as_ptr(), layout) }
        }
    }
}
