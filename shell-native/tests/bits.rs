//! The same bits with every instruction set, number of threads, batch and backing; and nothing allocated on the way.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use tinyrustlm::core::kernels::{Isa, Serial, Workers};
use tinyrustlm::core::kv_cache::KvType;
use tinyrustlm::core::model::Model;
use tinyrustlm::core::plan::Plan;
use tinyrustlm::core::session::Session;
use tinyrustlm::{Backing, Memory, ModelFile, Threads, available, detect};

/// Counts what the current thread allocates.
struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator; the count is a plain cell of the thread.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The committed models.
fn models() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/models");
    let mut all: Vec<PathBuf> = std::fs::read_dir(&folder)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    all.retain(|path| path.extension().is_some_and(|extension| extension == "slm"));
    all.sort();
    assert!(!all.is_empty(), "no model in {}", folder.display());
    all
}

fn ids(model: &Model<'_>, n: usize) -> Vec<u32> {
    (0..n as u32).map(|i| i.wrapping_mul(2_654_435_761) % model.config.vocab_size as u32).collect()
}

fn logits(model: &Model<'_>, kv_type: KvType, ids: &[u32], isa: Isa, batch: usize, workers: &dyn Workers) -> Vec<u32> {
    let plan = Plan::new(model, ids.len(), batch).unwrap().for_cache(model, kv_type).unwrap();
    let plan = plan.for_workers(workers.count()).unwrap();
    let mut memory = Memory::new(&plan).unwrap();
    let mut session = Session::new(model, plan, memory.blocks(), isa).unwrap();
    session.prefill(ids, workers).unwrap().iter().map(|v| v.to_bits()).collect()
}

#[test]
fn nothing_changes_a_bit() {
    for (path, kv_type) in models().into_iter().flat_map(|path| KvType::ALL.map(|kv_type| (path.clone(), kv_type))) {
        let file = ModelFile::open(&path).unwrap();
        let model = Model::parse(file.bytes()).unwrap();
        let ids = ids(&model, 40.min(model.config.max_context));
        let expected = logits(&model, kv_type, &ids, Isa::Scalar, 1, &Serial);
        for isa in available() {
            for batch in [1, 64] {
                let got = logits(&model, kv_type, &ids, isa, batch, &Serial);
                assert_eq!(got, expected, "{}: {}, batch {batch}", path.display(), isa.name());
            }
        }
        for threads in [1, 2, 3, 7] {
            let pool = Threads::new(threads).unwrap();
            for batch in [1, 2, 3, 8, 17, 64] {
                let got = logits(&model, kv_type, &ids, detect(), batch, &pool);
                assert_eq!(got, expected, "{}: {kv_type:?}, {threads} threads, batch {batch}", path.display());
            }
        }
        let copy = ModelFile::open_as(&path, Backing::HugePages).unwrap();
        assert_eq!(copy.bytes(), file.bytes());
        let model = Model::parse(copy.bytes()).unwrap();
        assert_eq!(logits(&model, kv_type, &ids, detect(), 64, &Serial), expected);
    }
}

#[test]
fn nothing_is_allocated_from_the_first_byte_to_the_last_logit() {
    for path in models() {
        let file = ModelFile::open(&path).unwrap();
        // The caller's memory is taken before the count begins.
        let first = Model::parse(file.bytes()).unwrap();
        let plan = Plan::new(&first, 24.min(first.config.max_context), 8).unwrap();
        let mut memory = Memory::new(&plan).unwrap();
        let ids = ids(&first, 10);
        let isa = detect();
        let before = COUNT.with(Cell::get);
        let model = Model::parse(file.bytes()).unwrap();
        let plan = Plan::new(&model, plan.context, 8).unwrap();
        let mut session = Session::new(&model, plan, memory.blocks(), isa).unwrap();
        session.prefill(&ids, &Serial).unwrap();
        for &id in &ids {
            session.step(id, &Serial).unwrap();
        }
        session.truncate(3).unwrap();
        session.prefill(&ids[..4], &Serial).unwrap();
        let after = COUNT.with(Cell::get);
        assert_eq!(after - before, 0, "{}", path.display());
    }
}

/// A host may flush subnormals and round otherwise, and its threads inherit that.
#[cfg(target_arch = "x86_64")]
#[test]
fn the_hosts_float_mode_changes_no_bit_and_stays_as_it_was() {
    #[allow(unsafe_code)]
    fn mode() -> u32 {
        let mut mode = 0u32;
        // SAFETY: stores MXCSR to the four bytes named.
        unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &mut mode) };
        mode & !0x3f
    }
    #[allow(unsafe_code)]
    fn set_mode(mode: u32) {
        // SAFETY: no reserved bit is set and every exception stays masked.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &mode) };
    }
    // Flush to zero, subnormals are zeros, round down.
    let foreign = 0x1f80 | 0x8000 | 0x0040 | 0x2000;
    for path in models() {
        let file = ModelFile::open(&path).unwrap();
        let model = Model::parse(file.bytes()).unwrap();
        let ids = ids(&model, 40.min(model.config.max_context));
        for kv_type in KvType::ALL {
            for isa in [Isa::Scalar, detect()] {
                let expected = logits(&model, kv_type, &ids, isa, 8, &Serial);
                let (got, after) = std::thread::scope(|scope| {
                    let host = scope.spawn(|| {
                        set_mode(foreign);
                        let pool = Threads::new(2).unwrap();
                        (logits(&model, kv_type, &ids, isa, 8, &pool), mode())
                    });
                    host.join().unwrap()
                });
                assert_eq!(got, expected, "{}: {}", path.display(), isa.name());
                assert_eq!(after, foreign);
            }
        }
    }
}
