//! Why generation ends, and the detector of loops.

/// Why generation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum StopReason {
    /// A token of the model's stop set.
    EosToken = 1,
    /// A token the caller named.
    StopTokenId = 2,
    /// A stop string.
    StopString = 3,
    /// The limit of new tokens.
    MaxOutput = 4,
    /// Prompt and output fill the planned context.
    ContextFull = 5,
    /// The same tokens over and over.
    LoopDetected = 6,
    /// The caller's wish.
    Cancelled = 7,
    /// An error; its number is reported apart.
    Error = 8,
}

impl StopReason {
    /// The name in results and diagnostics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EosToken => "eos_token",
            Self::StopTokenId => "stop_token_id",
            Self::StopString => "stop_string",
            Self::MaxOutput => "max_output",
            Self::ContextFull => "context_full",
            Self::LoopDetected => "loop_detected",
            Self::Cancelled => "cancelled",
            Self::Error => "error",
        }
    }
}

/// Longest period of a loop that is looked for, in tokens.
pub const MAX_PERIOD: usize = 64;

/// A pattern of tokens that came again and again, up to the last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loop {
    /// Tokens of the pattern.
    pub period: u32,
    /// Times it stands at the end of the output, whole ones.
    pub repetitions: u32,
}

/// Finds loops in O([`MAX_PERIOD`]) per token.
///
/// For each period it counts how many of the last tokens equal the token that many places before. A pattern of period
/// p stands r times at the end exactly if that count is at least p * (r - 1).
#[derive(Clone, Debug)]
pub struct LoopDetector {
    recent: [u32; MAX_PERIOD],
    runs: [u32; MAX_PERIOD],
    len: u32,
}

impl Default for LoopDetector {
    fn default() -> Self {
        Self::new()
    }
}

impl LoopDetector {
    /// A detector that has seen nothing.
    pub const fn new() -> Self {
        Self { recent: [0; MAX_PERIOD], runs: [0; MAX_PERIOD], len: 0 }
    }

    /// Takes the next token and returns the loop of the shortest period, of up to `max_period` tokens, that stands at
    /// the end at least `repetitions` times.
    pub fn push(&mut self, id: u32, max_period: u32, repetitions: u32) -> Option<Loop> {
        let mut found = None;
        let mut newer = id;
        // recent[0] is the token before this one, so it has period 1. Each moves on once it is looked at.
        for at in 0..MAX_PERIOD {
            let (Some(run), Some(before)) = (self.runs.get_mut(at), self.recent.get_mut(at)) else { break };
            let period = at as u32 + 1;
            *run = if period <= self.len && *before == id { run.saturating_add(1) } else { 0 };
            core::mem::swap(before, &mut newer);
            let times = (*run / period).wrapping_add(1);
            if found.is_none() && period <= max_period && times >= repetitions.max(2) {
                found = Some(Loop { period, repetitions: times });
            }
        }
        self.len = self.len.saturating_add(1);
        found
    }

    /// The last `period` tokens, newest first.
    pub fn pattern(&self, period: u32) -> &[u32] {
        self.recent.get(..(period as usize).min(self.len as usize)).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first loop in `ids` and the place where it is found.
    fn first(ids: &[u32], max_period: u32, repetitions: u32) -> Option<(usize, Loop)> {
        let mut detector = LoopDetector::new();
        ids.iter().enumerate().find_map(|(i, &id)| detector.push(id, max_period, repetitions).map(|l| (i, l)))
    }

    #[test]
    fn loops_are_found_at_the_token_that_completes_them() {
        assert_eq!(first(&[7, 1, 2, 1, 2, 1, 2], 8, 3), Some((6, Loop { period: 2, repetitions: 3 })));
        assert_eq!(first(&[5, 5, 5], 8, 3), Some((2, Loop { period: 1, repetitions: 3 })));
        assert_eq!(first(&[1, 2, 3, 1, 2, 3, 1, 2, 4], 8, 3), None);
        assert_eq!(first(&[1, 2, 3, 1, 2, 3], 2, 2), None);
        let long: std::vec::Vec<u32> = (0..128).map(|i| i % 64).collect();
        assert_eq!(first(&long, 64, 2), Some((127, Loop { period: 64, repetitions: 2 })));
    }

    #[test]
    fn zeros_before_the_beginning_are_no_loop() {
        assert_eq!(first(&[0, 0], 8, 3), None);
        assert_eq!(first(&[0], 8, 2), None);
    }

    #[test]
    fn the_pattern_is_newest_first() {
        let mut detector = LoopDetector::new();
        for id in [9, 1, 2, 3] {
            detector.push(id, 8, 2);
        }
        assert_eq!(detector.pattern(3), [3, 2, 1]);
    }
}
