//! Times a session against what this machine's memory can deliver, in one process and interleaved, since machines drift.

use crate::detect;
use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Instant;
use tinyrustlm_core::Error;
use tinyrustlm_core::kernels::{LANES, Lanes, Task, Workers, share};
use tinyrustlm_core::session::Session;

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// Time on the wall.
    Wall,
    /// Time the calling thread had a core: for one thread on a machine shared with others. Linux only; wall time
    /// elsewhere.
    Thread,
}

impl Clock {
    /// Seconds since some start.
    fn now(self) -> f64 {
        static START: OnceLock<Instant> = OnceLock::new();
        if self == Self::Thread {
            let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
            let nanoseconds = stat.and_then(|stat| stat.split(' ').next()?.parse::<f64>().ok());
            if let Some(nanoseconds) = nanoseconds {
                return nanoseconds / 1e9;
            }
        }
        START.get_or_init(Instant::now).elapsed().as_secs_f64()
    }
}

/// The middle of the figures; 0 for none.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    match figures.len() {
        0 => 0.0,
        n => (figures[(n - 1) / 2] + figures[n / 2]) / 2.0,
    }
}

/// Seconds to read `bytes` once, split over `workers` as a product of matrices is.
pub fn read_seconds(clock: Clock, bytes: &[u8], workers: &dyn Workers) -> f64 {
    let (lines, _) = bytemuck::cast_slice::<u8, f32>(&bytes[..bytes.len() / 4 * 4]).as_chunks::<LINE>();
    let parts = workers.count().max(1) * 4;
    let start = clock.now();
    workers.run(parts, &|part| {
        black_box(detect().run(Read(&lines[share(lines.len(), parts, part)])));
    });
    clock.now() - start
}

/// Floats that are read before the loop turns.
const LINE: usize = 4 * LANES;

/// Reads floats through the vectors of the kernels and keeps the largest of each lane: one instruction for each load, none
/// slower for some bits, and nothing that is left to the compiler to vectorise.
struct Read<'a>(&'a [[f32; LINE]]);

impl Task for Read<'_> {
    /// Every lane, or the compiler leaves out what does not count.
    type Out = [f32; LANES];

    #[inline(always)]
    fn run<V: Lanes>(self) -> [f32; LANES] {
        let mut most = [V::zero(); 4];
        for line in self.0 {
            for run in line.chunks_exact(4 * V::WIDTH) {
                for (most, floats) in most.iter_mut().zip(run.chunks_exact(V::WIDTH)) {
                    *most = most.max(V::load(floats));
                }
            }
        }
        let [a, b, c, d] = most;
        a.max(b).max(c.max(d)).to_array()
    }
}

/// Seconds a token takes when the sequence has `depth` positions; `tokens` of them after the prompt, one by one.
/// The sequence ends where it began.
///
/// # Errors
/// Those of the session.
pub fn decode_seconds(
    clock: Clock,
    session: &mut Session<'_>,
    workers: &dyn Workers,
    depth: usize,
    tokens: usize,
) -> Result<Vec<f64>, Error> {
    extend(session, workers, depth)?;
    let mut seconds = Vec::with_capacity(tokens);
    for i in 0..tokens {
        let start = clock.now();
        session.step(id(session, depth + i), workers)?;
        seconds.push(clock.now() - start);
    }
    session.truncate(depth)?;
    Ok(seconds)
}

/// Seconds to prefill `tokens` on an empty sequence.
///
/// # Errors
/// Those of the session.
pub fn prefill_seconds(
    clock: Clock,
    session: &mut Session<'_>,
    workers: &dyn Workers,
    tokens: usize,
) -> Result<f64, Error> {
    let ids: Vec<u32> = (0..tokens).map(|i| id(session, i)).collect();
    session.reset();
    let start = clock.now();
    session.prefill(&ids, workers)?;
    Ok(clock.now() - start)
}

/// Makes the sequence `depth` positions long.
fn extend(session: &mut Session<'_>, workers: &dyn Workers, depth: usize) -> Result<(), Error> {
    if session.kv_len() > depth {
        session.truncate(depth)?;
    }
    let ids: Vec<u32> = (session.kv_len()..depth).map(|i| id(session, i)).collect();
    if !ids.is_empty() {
        session.prefill(&ids, workers)?;
    }
    Ok(())
}

/// Some id for a position: the work does not depend on which.
fn id(session: &Session<'_>, position: usize) -> u32 {
    (position as u32).wrapping_mul(2_654_435_761) % session.model().config.vocab_size as u32
}
