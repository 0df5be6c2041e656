//! `strftime_now`: the reference's date formats in the C locale, of a time the host gives.

use super::Fail;
use super::value::Value;
use super::vm::Vm;
use crate::error::Code;

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

const MONTHS: &[u8] =
    b"January  February March    April    May      June     July     August   SeptemberOctober  November December ";
const DAYS: &[u8] = b"Sunday   Monday   Tuesday  WednesdayThursday Friday   Saturday ";

fn name(table: &'static [u8], index: usize, short: bool) -> &'static [u8] {
    let full = table.chunks_exact(9).nth(index).unwrap_or(&[]);
    if short { full.get(..3).unwrap_or(&[]) } else { full.trim_ascii_end() }
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
}

impl Vm<'_> {
    /// Appends a number of at least so many places, filled up with `fill` (0: not at all).
    fn padded(&mut self, number: u32, places: u32, fill: u8) -> Result<(), Fail> {
        let mut below = 1;
        for _ in 1..places {
            below *= 10;
        }
        while fill != 0 && below > 1 && number < below {
            self.text.push(fill, false)?;
            below /= 10;
        }
        self.write_int(number as i64, false)
    }

    /// Formats the host's time.
    pub(super) fn strftime(&mut self, format: Value) -> Result<Value, Fail> {
        let now = self.now;
        let (day_of_year, weekday) = now.days();
        let hour12 = (now.hour as u32 + 11) % 12 + 1;
        let mark = self.text.used();
        // What a composite directive stands for is read before the rest of the format.
        let mut at = 0;
        let mut nested: &[u8] = b"";
        loop {
            self.charge(1)?;
            let from_nested = !nested.is_empty();
            let mut byte = || -> Option<u8> {
                if let Some((&first, rest)) = nested.split_first() {
                    nested = rest;
                    return Some(first);
                }
                if from_nested {
                    return None;
                }
                let byte = self.text.of(format).get(at).copied();
                at += 1;
                byte
            };
            let Some(first) = byte() else {
                if from_nested {
                    continue;
                }
                break;
            };
            if first != b'%' {
                if from_nested {
                    self.text.push(first, false)?;
                } else {
                    self.text.push_from(format.at().wrapping_add(at.wrapping_sub(1)), 1)?;
                }
                continue;
            }
            let mut directive = byte().unwrap_or(b'%');
            let mut fill = None;
            while matches!(directive, b'-' | b'_' | b'0') {
                fill = Some(match directive {
                    b'-' => 0,
                    b'_' => b' ',
                    _ => b'0',
                });
                directive = byte().unwrap_or(b'%');
            }
            let zero = fill.unwrap_or(b'0');
            let blank = fill.unwrap_or(b' ');
            match directive {
                b'a' => self.text.push_all(name(DAYS, weekday as usize, true), false)?,
                b'A' => self.text.push_all(name(DAYS, weekday as usize, false), false)?,
                b'b' | b'h' => self.text.push_all(name(MONTHS, now.month.wrapping_sub(1) as usize, true), false)?,
                b'B' => self.text.push_all(name(MONTHS, now.month.wrapping_sub(1) as usize, false), false)?,
                b'd' => self.padded(now.day as u32, 2, zero)?,
                b'e' => self.padded(now.day as u32, 2, blank)?,
                b'f' => self.text.push_all(b"000000", false)?,
                b'H' => self.padded(now.hour as u32, 2, zero)?,
                b'I' => self.padded(hour12, 2, zero)?,
                b'j' => self.padded(day_of_year + 1, 3, zero)?,
                b'm' => self.padded(now.month as u32, 2, zero)?,
                b'M' => self.padded(now.minute as u32, 2, zero)?,
                b'n' => self.text.push(b'\n', false)?,
                b'p' => self.text.push_all(if now.hour < 12 { b"AM" } else { b"PM" }, false)?,
                b'S' => self.padded(now.second as u32, 2, zero)?,
                b't' => self.text.push(b'\t', false)?,
                b'y' => self.padded(now.year as u32 % 100, 2, zero)?,
                b'Y' => self.write_int(now.year as i64, false)?,
                b'z' | b'Z' => {}
                b'%' => self.text.push(b'%', false)?,
                // Composites stand for others; none of them holds a composite.
                b'D' | b'x' => nested = b"%m/%d/%y",
                b'F' => nested = b"%Y-%m-%d",
                b'T' | b'X' => nested = b"%H:%M:%S",
                b'R' => nested = b"%H:%M",
                b'r' => nested = b"%I:%M:%S %p",
                b'c' => nested = b"%a %b %e %H:%M:%S %Y",
                _ => return self.fail(Code::TemplateUnsupported),
            }
        }
        Ok(self.text.since(mark))
    }
}
