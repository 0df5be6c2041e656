//! A measurement: as text, as JSON, and against an earlier one.

use super::wasm;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;

/// Sizes of one file.
#[derive(Serialize, Deserialize)]
pub struct Report {
    /// Bytes as they lie on disk.
    pub raw: u64,
    /// Bytes after gzip at its best level.
    pub gzip: u64,
    /// Bytes after Brotli at its best level.
    pub brotli: u64,
    /// Bytes by section; empty for what is no WebAssembly module.
    #[serde(default)]
    pub sections: BTreeMap<String, u64>,
    /// Bytes by function name; bodies of one name are added up.
    #[serde(default)]
    pub functions: BTreeMap<String, u64>,
}

impl Report {
    /// Measures a file; `named` is the same module with its names.
    pub fn of(bytes: &[u8], named: Option<&[u8]>) -> Result<Self, String> {
        let mut report = Self {
            raw: bytes.len() as u64,
            gzip: gzip(bytes)?,
            brotli: brotli(bytes)?,
            sections: BTreeMap::new(),
            functions: BTreeMap::new(),
        };
        if wasm::is_module(bytes) {
            let module = wasm::read(bytes)?;
            let with_names = named.map(wasm::read).transpose()?;
            let names = with_names.as_ref().unwrap_or(&module);
            if names.bodies.len() != module.bodies.len() {
                let (has, other) = (module.bodies.len(), names.bodies.len());
                return Err(format!("{has} functions, but the file of --names has {other}: not the same module"));
            }
            for (index, size) in module.bodies.iter().enumerate() {
                let index = module.imported + index as u32;
                let name = names.names.get(&index).map_or_else(|| format!("function {index}"), |name| demangled(name));
                *report.functions.entry(name).or_default() += size;
            }
            report.sections = module.sections;
        }
        Ok(report)
    }

    /// The measurement as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The measurement for people: sizes, sections, the largest functions.
    pub fn to_text(&self, top: usize, budget: Option<u64>) -> String {
        let mut text = format!("{:>9} bytes", self.raw);
        if let Some(budget) = budget {
            let left = budget.abs_diff(self.raw);
            let side = if self.raw > budget { "over" } else { "under" };
            let _ = write!(text, ", {left} {side} the budget of {budget}");
        }
        let _ = writeln!(text, "\n{:>9} gzip\n{:>9} brotli", self.gzip, self.brotli);
        if !self.sections.is_empty() {
            text.push_str("\nsections\n");
            for (name, size) in by_size(&self.sections) {
                let _ = writeln!(text, "{size:>9}  {name}");
            }
        }
        if !self.functions.is_empty() {
            let _ = writeln!(text, "\nlargest of {} functions", self.functions.len());
            for (name, size) in by_size(&self.functions).into_iter().take(top) {
                let _ = writeln!(text, "{size:>9}  {name}");
            }
        }
        text
    }

    /// What is larger, smaller, new or gone since an earlier measurement, largest change first.
    pub fn changes_since(&self, old: &Self, top: usize) -> String {
        let mut text = String::from("\nagainst the baseline\n");
        for (name, new, old) in
            [("bytes", self.raw, old.raw), ("gzip", self.gzip, old.gzip), ("brotli", self.brotli, old.brotli)]
        {
            let percent = if old == 0 { 0.0 } else { (new as f64 / old as f64 - 1.0) * 100.0 };
            let _ = writeln!(text, "{:>+9} {name} ({percent:+.1} %)", delta(new, old));
        }
        let names =
            self.functions.keys().chain(old.functions.keys().filter(|name| !self.functions.contains_key(*name)));
        let mut changes: Vec<(i64, &String, &str)> = names
            .map(|name| match (self.functions.get(name), old.functions.get(name)) {
                (Some(new), Some(old)) => (delta(*new, *old), name, ""),
                (Some(new), None) => (*new as i64, name, " (new)"),
                (None, old) => (-(*old.unwrap_or(&0) as i64), name, " (gone)"),
            })
            .filter(|(change, _, _)| *change != 0)
            .collect();
        changes.sort_by_key(|(change, name, _)| (std::cmp::Reverse(change.unsigned_abs()), *name));
        for (change, name, what) in changes.iter().take(top) {
            let _ = writeln!(text, "{change:>+9}  {name}{what}");
        }
        if changes.len() > top {
            let _ = writeln!(text, "          and {} smaller changes", changes.len() - top);
        }
        text
    }
}

fn delta(new: u64, old: u64) -> i64 {
    new as i64 - old as i64
}

fn by_size(sizes: &BTreeMap<String, u64>) -> Vec<(&String, u64)> {
    let mut rows: Vec<_> = sizes.iter().map(|(name, size)| (name, *size)).collect();
    rows.sort_by_key(|(name, size)| (std::cmp::Reverse(*size), *name));
    rows
}

/// The path of a Rust function without its hash, so that two builds can be compared.
fn demangled(name: &str) -> String {
    let name = format!("{:#}", rustc_demangle::demangle(name));
    // Names that a tool has already demangled still carry the hash.
    match name.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => path.to_string(),
        _ => name,
    }
}

fn gzip(bytes: &[u8]) -> Result<u64, String> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).map_err(|e| e.to_string())?;
    Ok(encoder.finish().map_err(|e| e.to_string())?.len() as u64)
}

fn brotli(bytes: &[u8]) -> Result<u64, String> {
    let params = brotli::enc::BrotliEncoderParams { quality: 11, lgwin: 22, ..Default::default() };
    let mut out = Vec::new();
    brotli::BrotliCompress(&mut &bytes[..], &mut out, &params).map_err(|e| e.to_string())?;
    Ok(out.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(raw: u64, functions: &[(&str, u64)]) -> Report {
        let functions = functions.iter().map(|(name, size)| (name.to_string(), *size)).collect();
        Report { raw, gzip: raw / 2, brotli: raw / 3, sections: BTreeMap::new(), functions }
    }

    #[test]
    fn changes_come_largest_first() {
        let old = report(100, &[("same", 10), ("grown", 20), ("gone", 30)]);
        let new = report(150, &[("same", 10), ("grown", 25), ("added", 40)]);
        let text = new.changes_since(&old, 2);
        let lines: Vec<_> = text.lines().skip(2).map(str::trim).collect();
        assert_eq!(lines[0], "+50 bytes (+50.0 %)");
        assert_eq!(&lines[3..], ["+40  added (new)", "-30  gone (gone)", "and 1 smaller changes"]);
    }

    #[test]
    fn a_baseline_survives_its_file() {
        let saved = report(7, &[("f", 7)]).to_json();
        let read: Report = serde_json::from_str(&saved).unwrap();
        assert_eq!((read.raw, read.functions["f"]), (7, 7));
    }

    #[test]
    fn what_is_no_module_has_its_size_only() {
        let text = b"text text text text text text text text text text";
        let report = Report::of(text, None).unwrap();
        assert_eq!(report.raw, 49);
        assert!(report.gzip < 49 && report.brotli < 49 && report.functions.is_empty());
    }
}
