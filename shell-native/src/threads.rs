//! A small pool for one session at a time.
//!
//! A job's parts are dealt one by one to whoever is free, so a thread that loses its core delays the others by one
//! part at most. Waiting is a bounded spin, then a parked thread: a pool that is not used costs nothing.
#![allow(unsafe_code)]

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle, Thread};
use tinyrustlm_core::kernels::Workers;

/// Turns of a spin before a thread parks: some tens of microseconds, the length of a product of small matrices.
const SPINS: u32 = 4000;

/// Most parts of a job; one with more runs in the calling thread.
const PARTS: usize = 0xffff;

type Job = dyn Fn(usize) + Sync;

/// What the threads share.
struct Shared {
    /// One job at a time.
    busy: Mutex<()>,
    /// The job's number, its parts and the next part: 32, 16 and 16 bits, so that one claim checks all three.
    turn: AtomicU64,
    /// The job; valid while parts of it are unfinished.
    job: Mutex<Option<JobPointer>>,
    unfinished: AtomicUsize,
    stop: AtomicBool,
    caller: Mutex<Option<Thread>>,
    caller_parked: AtomicBool,
    parked: Vec<AtomicBool>,
}

#[derive(Clone, Copy)]
struct JobPointer(*const Job);

// SAFETY: the pointer is used only between the publication of a job and the end of its last part, while `run` keeps the
// job borrowed; the job itself is `Sync`.
unsafe impl Send for JobPointer {}

/// Threads that run the parts of the core's jobs, the caller being one of them.
pub struct Threads {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Threads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Threads").field("count", &self.count()).finish()
    }
}

impl Threads {
    /// A pool of `count` threads, the caller included; 0 counts as 1.
    ///
    /// # Errors
    /// What the system says when it starts no more threads.
    pub fn new(count: usize) -> std::io::Result<Self> {
        let others = count.saturating_sub(1);
        let shared = Arc::new(Shared {
            busy: Mutex::new(()),
            turn: AtomicU64::new(0),
            job: Mutex::new(None),
            unfinished: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            caller: Mutex::new(None),
            caller_parked: AtomicBool::new(false),
            parked: (0..others).map(|_| AtomicBool::new(false)).collect(),
        });
        let mut pool = Self { shared: shared.clone(), handles: Vec::with_capacity(others) };
        for index in 0..others {
            let shared = shared.clone();
            let thread = thread::Builder::new().name(format!("tinyrustlm {}", index + 1));
            pool.handles.push(thread.spawn(move || shared.serve(index))?);
        }
        Ok(pool)
    }

    /// As many threads as the machine has cores.
    pub fn default_count() -> usize {
        thread::available_parallelism().map_or(1, |n| n.get())
    }

    fn wake(&self) {
        for (parked, handle) in self.shared.parked.iter().zip(&self.handles) {
            if parked.swap(false, Ordering::SeqCst) {
                handle.thread().unpark();
            }
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.wake();
        for handle in self.handles.drain(..) {
            handle.thread().unpark();
            let _ = handle.join();
        }
    }
}

// SAFETY: a part's index is claimed by one compare-and-exchange, so each is run at most once, and `run` waits until
// the count of unfinished parts is zero.
unsafe impl Workers for Threads {
    fn count(&self) -> usize {
        self.handles.len() + 1
    }

    fn run(&self, parts: usize, job: &(dyn Fn(usize) + Sync)) {
        if parts <= 1 || parts > PARTS || self.handles.is_empty() {
            for part in 0..parts {
                job(part);
            }
            return;
        }
        let shared = &*self.shared;
        let _busy = lock(&shared.busy);
        *lock(&shared.caller) = Some(thread::current());
        // SAFETY: only the lifetime changes; the pointer is dead when this function returns.
        let job = JobPointer(unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), *const Job>(job) });
        *lock(&shared.job) = Some(job);
        shared.unfinished.store(parts, Ordering::Relaxed);
        let number = (shared.turn.load(Ordering::Relaxed) >> 32).wrapping_add(1);
        shared.turn.store(number << 32 | (parts as u64) << 16, Ordering::SeqCst);
        self.wake();
        shared.work(number as u32, job);

        let mut spins = 0;
        while shared.unfinished.load(Ordering::Acquire) != 0 {
            if spins < SPINS {
                spins += 1;
                spin_loop();
                continue;
            }
            shared.caller_parked.store(true, Ordering::SeqCst);
            if shared.unfinished.load(Ordering::SeqCst) != 0 {
                thread::park();
            }
            shared.caller_parked.store(false, Ordering::SeqCst);
        }
        *lock(&shared.job) = None;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Nothing that holds these locks can panic in between with half a change made.
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Shared {
    /// Runs parts of job `number` while there are any.
    fn work(&self, number: u32, job: JobPointer) {
        let mut turn = self.turn.load(Ordering::Acquire);
        loop {
            let (parts, next) = ((turn >> 16) as usize & PARTS, turn as usize & PARTS);
            if (turn >> 32) as u32 != number || next >= parts {
                return;
            }
            match self.turn.compare_exchange_weak(turn, turn + 1, Ordering::AcqRel, Ordering::Acquire) {
                Err(now) => turn = now,
                Ok(_) => {
                    let _done = Done(self);
                    // SAFETY: this part of job `number` was just claimed, so the job is unfinished and `run` still
                    // borrows what the pointer names; the pointer was read after the job's number, so it is this job's.
                    unsafe { (*job.0)(next) };
                    turn = self.turn.load(Ordering::Acquire);
                }
            }
        }
    }

    fn serve(&self, index: usize) {
        let mut seen = 0;
        let mut spins = 0;
        loop {
            let number = (self.turn.load(Ordering::SeqCst) >> 32) as u32;
            if number != seen {
                seen = number;
                spins = 0;
                // None: the job is done already.
                let job = *lock(&self.job);
                if let Some(job) = job {
                    self.work(number, job);
                }
                continue;
            }
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            if spins < SPINS {
                spins += 1;
                spin_loop();
                continue;
            }
            let Some(parked) = self.parked.get(index) else { return };
            parked.store(true, Ordering::SeqCst);
            let same = (self.turn.load(Ordering::SeqCst) >> 32) as u32 == seen;
            if same && !self.stop.load(Ordering::SeqCst) {
                thread::park();
            }
            parked.store(false, Ordering::SeqCst);
            spins = 0;
        }
    }
}

/// Counts a part as finished, also when it unwinds.
struct Done<'a>(&'a Shared);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        let shared = self.0;
        let last = shared.unfinished.fetch_sub(1, Ordering::SeqCst) == 1;
        if last
            && shared.caller_parked.load(Ordering::SeqCst)
            && let Some(caller) = &*lock(&shared.caller)
        {
            caller.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_runs_once_in_every_job() {
        for count in [1, 2, 3, 7] {
            let pool = Threads::new(count).unwrap();
            assert_eq!(pool.count(), count);
            for round in 0..300 {
                let parts = round % 23;
                let ran: Vec<AtomicUsize> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
                pool.run(parts, &|part| {
                    ran[part].fetch_add(1, Ordering::Relaxed);
                });
                assert!(ran.iter().all(|n| n.load(Ordering::Relaxed) == 1), "{count} threads, {parts} parts");
                if round % 100 == 99 {
                    // Long enough for all to park.
                    thread::sleep(std::time::Duration::from_millis(2));
                }
            }
        }
    }
}
