//! SPEC.md says what the code does: the table of error numbers and the worked example.

use std::path::{Path, PathBuf};
use tinyrustlm_core::{Code, Error};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn every_error_number_stands_in_its_table() {
    let spec = std::fs::read_to_string(root().join("SPEC.md")).unwrap();
    let rows: Vec<&str> = spec.lines().skip_while(|l| !l.starts_with("## 11.")).collect();
    let rows = rows.iter().take_while(|l| !l.starts_with("## 12."));
    let rows: Vec<&str> = rows.copied().filter(|l| l.starts_with("| ") && !l.starts_with("| number")).collect();
    assert_eq!(rows.len(), Code::ALL.len());
    for (row, code) in rows.iter().zip(Code::ALL) {
        let begin = format!("| {} | {} | {:?} | ", *code as u16, code.name(), Error::new(*code).class());
        assert!(row.starts_with(&begin), "{row} should begin with {begin}");
    }
}

#[test]
fn the_worked_example_is_the_file() {
    let spec = std::fs::read_to_string(root().join("SPEC.md")).unwrap();
    let file = std::fs::read(root().join("fixtures/models/tiny-tied-f32.slm")).unwrap();
    let mut lines = 0;
    for line in spec.lines().skip_while(|l| !l.starts_with("## 12.")).take_while(|l| !l.starts_with("## 13.")) {
        let Some((offset, bytes)) = line.strip_prefix("    ").and_then(|l| l.split_once("  ")) else { continue };
        let offset = usize::from_str_radix(offset, 16).unwrap();
        let bytes: Vec<u8> = bytes.split(' ').map(|b| u8::from_str_radix(b, 16).unwrap()).collect();
        assert_eq!(file.get(offset..offset + bytes.len()), Some(&bytes[..]), "{line}");
        lines += 1;
    }
    assert!(lines >= 16, "{lines} lines of bytes");
}
