//! The time a template sees: the host's.

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
    /// One of [`super::op::now`].
    pub(super) fn field(self, which: u8) -> u16 {
        if which == super::op::now::YEAR {
            return self.year;
        }
        let fields = [self.month, self.day, self.hour, self.minute, self.second];
        fields.get(which.wrapping_sub(1) as usize).copied().unwrap_or(0).into()
    }
}
