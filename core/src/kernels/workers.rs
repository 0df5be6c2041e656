//! Spreading work: parts that write to rows of their own.

use super::float_mode::FloatMode;
use core::marker::PhantomData;
use core::num::NonZero;
use core::ops::Range;

/// Who runs the parts of a job. Results never depend on it.
///
/// # Safety
/// `run` must call `job` at most once for each index below `parts`, and every call must have returned when `run`
/// returns.
#[allow(unsafe_code)]
pub unsafe trait Workers: Sync {
    /// Parts that can run at the same time, at least 1.
    fn count(&self) -> usize;
    /// Calls `job(i)` once for each i below `parts`.
    fn run(&self, parts: usize, job: &(dyn Fn(usize) + Sync));
}

/// Parts of a job that can run at the same time: one on WebAssembly, where a module has one thread and the job becomes a
/// part of the loop it is called in.
pub(super) fn count(workers: &dyn Workers) -> usize {
    if cfg!(target_arch = "wasm32") { 1 } else { workers.count() }
}

/// Runs `job` for each index below `parts`, which [`count`] was asked for, with the float mode of the law in whatever thread.
#[inline(always)]
pub(super) fn run(workers: &dyn Workers, parts: usize, job: impl Fn(usize) + Sync) {
    if cfg!(target_arch = "wasm32") {
        return job(0);
    }
    workers.run(parts, &|part| {
        let _mode = FloatMode::standard();
        job(part);
    });
}

/// One part after the other, in the calling thread.
#[derive(Clone, Copy, Debug)]
pub struct Serial;

// SAFETY: the loop calls each index once and returns after the last.
#[allow(unsafe_code)]
unsafe impl Workers for Serial {
    fn count(&self) -> usize {
        1
    }

    fn run(&self, parts: usize, job: &(dyn Fn(usize) + Sync)) {
        for part in 0..parts {
            job(part);
        }
    }
}

/// The items of `part` when `count` items are dealt to `parts` in runs of nearly equal length.
pub fn share(count: usize, parts: usize, part: usize) -> Range<usize> {
    let parts = parts.max(1);
    let edge = |i: usize| (count as u64).saturating_mul(i as u64).checked_div(parts as u64).unwrap_or(0) as usize;
    edge(part)..edge(part.saturating_add(1))
}

/// A slice whose disjoint ranges are written by several parts at once.
pub(crate) struct Shared<'a, T> {
    start: *mut T,
    len: usize,
    life: PhantomData<&'a mut [T]>,
}

// SAFETY: all access goes through `range`, whose contract keeps the parts apart, so moving the pointer to other
// threads moves no more than disjoint `&mut [T]`.
#[allow(unsafe_code)]
unsafe impl<T: Send> Sync for Shared<'_, T> {}
// SAFETY: as above; the pointer stands for a `&mut [T]`, which is `Send` when `T` is.
#[allow(unsafe_code)]
unsafe impl<T: Send> Send for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len(), life: PhantomData }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// `slice[start..start + len]`, or an empty slice where that is no range of it.
    ///
    /// # Safety
    /// No two live results may overlap.
    #[inline(always)]
    #[allow(unsafe_code, clippy::mut_from_ref)]
    pub(crate) unsafe fn range(&self, start: usize, len: usize) -> &mut [T] {
        if start.checked_add(len).is_none_or(|end| end > self.len) {
            return &mut [];
        }
        // SAFETY: the range lies inside the slice this was made from, which is borrowed for 'a; the caller sees to
        // it that nothing else refers to these elements.
        unsafe { core::slice::from_raw_parts_mut(self.start.add(start), len) }
    }
}

/// Calls `job(i, row i of a, row i of b)` for each i below `count`, spread over `workers`.
///
/// Slices come with the length of their rows, of which the last ones may be shorter.
#[allow(unsafe_code)]
pub fn for_each_row<A: Send, B: Send>(
    workers: &dyn Workers,
    count: usize,
    (a, a_len): (&mut [A], usize),
    (b, b_len): (&mut [B], usize),
    job: impl Fn(usize, &mut [A], &mut [B]) + Sync,
) {
    let (a, b) = (Shared::new(a), Shared::new(b));
    let parts = self::count(workers).clamp(1, count.max(1));
    run(workers, parts, |part| {
        for i in share(count, parts, part) {
            let (a_start, b_start) = (i.wrapping_mul(a_len), i.wrapping_mul(b_len));
            let a_len = a_len.min(a.len().wrapping_sub(a_start));
            let b_len = b_len.min(b.len().wrapping_sub(b_start));
            // SAFETY: row i is taken by the one part whose share holds i, and `Workers` runs each part once.
            let (a, b) = unsafe { (a.range(a_start, a_len), b.range(b_start, b_len)) };
            job(i, a, b);
        }
    });
}

/// Rows seen as a table, visited column after column.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// Divides `rows`.
    count: NonZero<usize>,
    rows: usize,
}

impl Columns {
    /// `rows` rows in `count` columns; one after the other where that does not come out even.
    pub fn new(count: usize, rows: usize) -> Self {
        let even = NonZero::new(count).filter(|count| rows % *count == 0);
        Self { count: even.unwrap_or(NonZero::<usize>::MIN), rows }
    }

    /// The row visited as number `n`. One to one below `rows`: n = column * height + place goes to place * count + column,
    /// and count * height is the number of rows.
    fn row(self, n: usize) -> usize {
        let height = (self.rows / self.count).max(1);
        (n % height).wrapping_mul(self.count.get()).wrapping_add(n / height)
    }
}

/// Calls `job(i, the next one of the same space, row i of rows, space)` for each row, where at most `parts` calls run at a time and each has one of the
/// `parts` equal spaces of `spaces` to itself.
#[allow(unsafe_code)]
pub fn for_each_row_in_space<A: Send, S: Send>(
    workers: &dyn Workers,
    columns: Columns,
    rows: &mut [A],
    parts: usize,
    spaces: &mut [S],
    job: impl Fn(usize, Option<usize>, &mut [A], &mut [S]) + Sync,
) {
    let count = columns.rows;
    let row_len = rows.len().checked_div(count).unwrap_or(0);
    let space_len = spaces.len().checked_div(parts).unwrap_or(0);
    let (rows, spaces) = (Shared::new(rows), Shared::new(spaces));
    let parts = self::count(workers).min(count).clamp(1, parts.max(1));
    run(workers, parts, |part| {
        // SAFETY: space `part` is taken by this part alone; `Workers` runs each part once.
        let space = unsafe { spaces.range(part.wrapping_mul(space_len), space_len) };
        // Dealt in turn: neighbours cost about the same.
        let mut next = part;
        while next < count {
            let i = columns.row(next);
            next = next.saturating_add(parts);
            // SAFETY: each row has one number (`Columns::row`), which is taken by the one part it leaves modulo `parts`.
            let row = unsafe { rows.range(i.wrapping_mul(row_len), row_len) };
            job(i, (next < count).then(|| columns.row(next)), row, space);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn columns_visit_each_row_once() {
        for (count, of) in [(1, 7), (3, 9), (3, 3), (4, 64), (1, 1), (3, 7), (5, 3), (0, 2)] {
            let columns = Columns::new(count, of);
            let mut rows: Vec<usize> = (0..of).map(|n| columns.row(n)).collect();
            let count = columns.count.get();
            assert!(rows.chunks(of / count).all(|column| column.iter().all(|row| row % count == column[0] % count)));
            rows.sort_unstable();
            assert_eq!(rows, (0..of).collect::<Vec<_>>());
        }
    }

    #[test]
    fn shares_cover_each_item_once() {
        for count in 0..40 {
            for parts in 1..9 {
                let mut next = 0;
                for part in 0..parts {
                    let range = share(count, parts, part);
                    assert_eq!(range.start, next);
                    next = range.end;
                }
                assert_eq!(next, count);
            }
        }
    }
}
