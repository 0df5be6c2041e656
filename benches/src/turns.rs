//! Rounds in which all take a turn.

use std::time::Instant;
use tinyrustlm::measure::median;

/// The figures of several contestants, one for each round.
#[derive(Clone, Debug)]
pub struct Turns(Vec<Vec<f64>>);

impl Turns {
    /// No figures yet.
    pub fn new(contestants: usize) -> Self {
        Self(vec![vec![]; contestants])
    }

    /// `turn(contestant)` of each in each round.
    pub fn of(rounds: usize, contestants: usize, mut turn: impl FnMut(usize) -> f64) -> Self {
        let mut turns = Self::new(contestants);
        for _ in 0..rounds {
            for contestant in 0..contestants {
                turns.put(contestant, turn(contestant));
            }
        }
        turns
    }

    /// Adds a contestant's figure of this round.
    pub fn put(&mut self, contestant: usize, figure: f64) {
        self.0[contestant].push(figure);
    }

    /// The middle of a contestant's figures.
    pub fn median(&self, contestant: usize) -> f64 {
        median(self.0[contestant].clone())
    }

    /// The least of them: what it takes when nobody disturbs it.
    pub fn least(&self, contestant: usize) -> f64 {
        self.0[contestant].iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// How many times the figure of `b` that of `a` is: the middle of the rounds.
    pub fn ratio(&self, a: usize, b: usize) -> f64 {
        median(self.0[a].iter().zip(&self.0[b]).map(|(a, b)| a / b).collect())
    }
}

/// Seconds of a call, and what it gave.
pub fn timed<T>(call: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let out = call();
    (start.elapsed().as_secs_f64(), out)
}

/// Seconds of one of `calls` calls.
pub fn seconds_each(calls: usize, mut call: impl FnMut()) -> f64 {
    timed(|| (0..calls).for_each(|_| call())).0 / calls.max(1) as f64
}

/// How many calls take about `seconds`. The calls made to find out warm up what is called.
pub fn calls(seconds: f64, mut call: impl FnMut()) -> usize {
    let mut calls = 1;
    loop {
        let each = seconds_each(calls, &mut call);
        if each * calls as f64 > seconds / 8.0 || calls > 1 << 30 {
            return ((seconds / each) as usize).max(1);
        }
        calls *= 2;
    }
}
