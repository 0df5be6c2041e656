//! The time a template sees: the host's.

use super::op::now;

/// A local time, as the host tells it. The core has no clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    /// Year, 1 to 9999.
    pub year: u16,
    /// Month, 1 to 12.
    pub month: u8,
    /// Day, 1 to 31.
    pub day: u8,
    /// Hour, 0 to 23.
    pub hour: u8,
    /// Minute, 0 to 59.
    pub minute: u8,
    /// Second, 0 to 59.
    pub second: u8,
}

impl Now {
    /// Day of the year, from 0, and day of the week, Sunday 0.
    fn days(self) -> (u32, u32) {
        let leap = self.year.is_multiple_of(4) && (!self.year.is_multiple_of(100) || self.year.is_multiple_of(400));
        let mut day = self.day.saturating_sub(1) as u32;
        for month in 1..self.month {
            day += match month {
                2 => 28 + leap as u32,
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
        }
        let years = self.year.saturating_sub(1) as u32;
        let total = years * 365 + years / 4 - years / 100 + years / 400 + day;
        (day, (total + 1) % 7)
    }

    /// One of [`super::op::now`].
    pub(super) fn field(self, which: u8) -> u32 {
        match which {
            now::YEAR => self.year as u32,
            now::MONTH => self.month as u32,
            now::DAY => self.day as u32,
            now::HOUR => self.hour as u32,
            now::MINUTE => self.minute as u32,
            now::SECOND => self.second as u32,
            now::WEEKDAY => self.days().1,
            _ => self.days().0.wrapping_add(1),
        }
    }
}
