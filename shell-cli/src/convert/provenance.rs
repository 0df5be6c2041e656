//! `@provenance`: deterministic CBOR (RFC 8949, section 4.2.1) of where every byte of the file came from.

use crate::failure::{Failure, Kind};
use ciborium::Value as Cbor;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::io::{Read, Write};

/// Encodes JSON as deterministic CBOR: definite lengths, shortest numbers, keys in the order of their encoded bytes.
/// A string `"\u{0}hex:.."` becomes a byte string.
pub fn encode(value: &Value) -> Result<Vec<u8>, Failure> {
    let mut out = Vec::new();
    ciborium::into_writer(&canonical(value), &mut out).map_err(|e| Failure::new(Kind::Io, e))?;
    Ok(out)
}

/// Decodes what [`encode`] made.
pub fn decode(bytes: &[u8]) -> Result<Value, Failure> {
    let value: Cbor =
        ciborium::from_reader(bytes).map_err(|e| Failure::new(Kind::Malformed, format!("@provenance: {e}")))?;
    Ok(to_json(&value))
}

/// Marks bytes for [`encode`].
pub fn bytes(data: &[u8]) -> Value {
    Value::String(format!("\0hex:{}", hex(data)))
}

fn canonical(value: &Value) -> Cbor {
    match value {
        Value::Null => Cbor::Null,
        Value::Bool(b) => Cbor::Bool(*b),
        Value::Number(n) => match (n.as_u64(), n.as_i64()) {
            (Some(n), _) => Cbor::Integer(n.into()),
            (_, Some(n)) => Cbor::Integer(n.into()),
            _ => Cbor::Float(n.as_f64().unwrap_or(0.0)),
        },
        Value::String(s) => match s.strip_prefix("\0hex:") {
            Some(digits) => Cbor::Bytes(unhex(digits)),
            None => Cbor::Text(s.clone()),
        },
        Value::Array(list) => Cbor::Array(list.iter().map(canonical).collect()),
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            // The encoded key begins with its length, so shorter keys come first.
            entries.sort_by(|a, b| a.0.len().cmp(&b.0.len()).then(a.0.cmp(b.0)));
            Cbor::Map(entries.into_iter().map(|(k, v)| (Cbor::Text(k.clone()), canonical(v))).collect())
        }
    }
}

fn to_json(value: &Cbor) -> Value {
    match value {
        Cbor::Bool(b) => Value::Bool(*b),
        Cbor::Integer(i) => match u64::try_from(*i) {
            Ok(n) => Value::from(n),
            Err(_) => i64::try_from(*i).map_or(Value::Null, Value::from),
        },
        Cbor::Float(f) => Value::from(*f),
        Cbor::Text(s) => Value::String(s.clone()),
        Cbor::Bytes(b) => bytes(b),
        Cbor::Array(list) => Value::Array(list.iter().map(to_json).collect()),
        Cbor::Map(entries) => {
            Value::Object(entries.iter().filter_map(|(k, v)| Some((k.as_text()?.to_owned(), to_json(v)))).collect())
        }
        _ => Value::Null,
    }
}

/// A file of the source kept whole, deflated.
pub fn keep(data: &[u8]) -> Value {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    // Writing to memory does not fail.
    let packed = encoder.write_all(data).and_then(|()| encoder.finish()).unwrap_or_default();
    bytes(&packed)
}

/// A file kept by [`keep`].
pub fn kept(value: &Value) -> Option<Vec<u8>> {
    let digits = value.as_str()?.strip_prefix("\0hex:")?;
    let mut data = Vec::new();
    flate2::read::ZlibDecoder::new(unhex(digits).as_slice()).take(1 << 28).read_to_end(&mut data).ok()?;
    Some(data)
}

/// SHA-256 as hex.
pub fn sha256(data: &[u8]) -> String {
    hex(&Sha256::digest(data))
}

/// Lower-case hex digits.
pub fn hex(data: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    data.iter().flat_map(|b| [DIGITS[usize::from(b >> 4)] as char, DIGITS[usize::from(b & 15)] as char]).collect()
}

fn unhex(digits: &str) -> Vec<u8> {
    let nibble = |c: u8| (c as char).to_digit(16).unwrap_or(0) as u8;
    digits.as_bytes().chunks_exact(2).map(|pair| nibble(pair[0]) << 4 | nibble(pair[1])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_are_ordered_and_numbers_short() {
        let value = json!({ "b": 1, "aa": [true, null, -1], "a": 1.5, "c": bytes(&[1, 255]) });
        let encoded = encode(&value).unwrap();
        let want = [
            0xa4, 0x61, b'a', 0xf9, 0x3e, 0x00, 0x61, b'b', 0x01, 0x61, b'c', 0x42, 0x01, 0xff, 0x62, b'a', b'a', 0x83,
            0xf5, 0xf6, 0x20,
        ];
        assert_eq!(encoded, want);
        assert_eq!(decode(&encoded).unwrap(), value);
    }

    #[test]
    fn files_come_back_whole() {
        let text = b"{\"a\": 1}\n".repeat(50);
        assert_eq!(kept(&keep(&text)).unwrap(), text);
    }
}
