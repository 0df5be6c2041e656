//! The sections and functions of a WebAssembly module, as far as their sizes go.

use std::collections::BTreeMap;

/// Sizes inside a module.
pub struct Module {
    /// Bytes of each section, by its name.
    pub sections: BTreeMap<String, u64>,
    /// Bytes of each function body, in code order.
    pub bodies: Vec<u64>,
    /// Names by function index, imports first.
    pub names: BTreeMap<u32, String>,
    /// Imported functions: the first indices belong to them.
    pub imported: u32,
}

const MAGIC: &[u8] = b"\0asm\x01\0\0\0";
const SECTIONS: [&str; 14] = [
    "custom",
    "type",
    "import",
    "function",
    "table",
    "memory",
    "global",
    "export",
    "start",
    "element",
    "code",
    "data",
    "data count",
    "tag",
];

/// Whether the bytes begin as a module.
pub fn is_module(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Reads a module's sizes; what is wrong otherwise.
pub fn read(bytes: &[u8]) -> Result<Module, String> {
    let mut module = Module { sections: BTreeMap::new(), bodies: Vec::new(), names: BTreeMap::new(), imported: 0 };
    let mut input = Input { rest: bytes.strip_prefix(MAGIC).ok_or("no WebAssembly module")? };
    while !input.rest.is_empty() {
        let before = input.rest.len();
        let id = input.byte()?;
        let size = input.u32()? as usize;
        let mut payload = Input { rest: input.take(size)? };
        let name = match id {
            0 => format!("custom {}", payload.name()?),
            id => SECTIONS.get(usize::from(id)).ok_or(format!("section {id} is unknown"))?.to_string(),
        };
        *module.sections.entry(name.clone()).or_default() += (before - input.rest.len()) as u64;
        match name.as_str() {
            "import" => module.imported = imported_functions(&mut payload)?,
            "code" => {
                for _ in 0..payload.u32()? {
                    let start = payload.rest.len();
                    let size = payload.u32()? as usize;
                    payload.take(size)?;
                    module.bodies.push((start - payload.rest.len()) as u64);
                }
            }
            "custom name" => module.names = function_names(&mut payload)?,
            _ => {}
        }
    }
    Ok(module)
}

fn imported_functions(input: &mut Input<'_>) -> Result<u32, String> {
    let mut functions = 0;
    for _ in 0..input.u32()? {
        input.name()?;
        input.name()?;
        match input.byte()? {
            0 => {
                input.u32()?;
                functions += 1;
            }
            kind @ 1..=3 => {
                if kind != 2 {
                    input.byte()?;
                }
                if kind != 3 {
                    let flags = input.byte()?;
                    input.u32()?;
                    if flags & 1 != 0 {
                        input.u32()?;
                    }
                } else {
                    // A global: type read above, then its mutability.
                    input.byte()?;
                }
            }
            kind => return Err(format!("import kind {kind} is unknown")),
        }
    }
    Ok(functions)
}

/// Subsection 1 of the name section.
fn function_names(input: &mut Input<'_>) -> Result<BTreeMap<u32, String>, String> {
    let mut names = BTreeMap::new();
    while !input.rest.is_empty() {
        let id = input.byte()?;
        let size = input.u32()? as usize;
        let mut part = Input { rest: input.take(size)? };
        if id == 1 {
            for _ in 0..part.u32()? {
                let index = part.u32()?;
                names.insert(index, part.name()?);
            }
        }
    }
    Ok(names)
}

struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    fn byte(&mut self) -> Result<u8, String> {
        Ok(self.take(1)?[0])
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], String> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or("the module ends early")?;
        self.rest = rest;
        Ok(head)
    }

    /// LEB128, at most 32 bits.
    fn u32(&mut self) -> Result<u32, String> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(value).map_err(|_| "a number over 32 bits".to_string());
            }
        }
        Err("a number over 32 bits".to_string())
    }

    fn name(&mut self) -> Result<String, String> {
        let len = self.u32()? as usize;
        Ok(String::from_utf8_lossy(self.take(len)?).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One import, two functions of 3 and 4 bytes, and names for all three.
    pub fn sample() -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let mut section = |id: u8, payload: &[u8]| {
            bytes.push(id);
            bytes.push(payload.len() as u8);
            bytes.extend(payload);
        };
        section(1, &[1, 0x60, 0, 0]); // type: () -> ()
        section(2, &[1, 1, b'h', 1, b'f', 0, 0]); // import h.f
        section(3, &[2, 0, 0]); // two functions
        section(10, &[2, 2, 0, 0x0b, 3, 0, 0x01, 0x0b]); // bodies: end; nop end
        section(0, b"\x04name\x01\x0e\x03\x00\x01f\x01\x03one\x02\x03two"); // names
        bytes
    }

    #[test]
    fn sections_bodies_and_names() {
        let module = read(&sample()).unwrap();
        assert_eq!(module.bodies, [3, 4]);
        assert_eq!(module.imported, 1);
        assert_eq!(module.names[&2], "two");
        assert_eq!(module.sections["code"], 10);
        let total: u64 = module.sections.values().sum();
        assert_eq!(total as usize + MAGIC.len(), sample().len());
    }

    #[test]
    fn every_cut_is_an_error_or_a_shorter_module() {
        let bytes = sample();
        for len in 0..bytes.len() {
            if let Ok(module) = read(&bytes[..len]) {
                assert!(module.sections.len() < 5, "cut at {len}");
            }
        }
    }
}
