//! What `slm inspect` prints.

use super::Model;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Everything, for machines. `tensors` and `ledger` are long lists and come only when asked for.
pub fn json(model: &Model, tensors: bool, ledger: bool) -> Value {
    let mut provenance = model.records.provenance.clone();
    if let Some(map) = provenance.as_object_mut() {
        let kept: Vec<String> =
            map.get("kept").and_then(Value::as_object).map(|m| m.keys().cloned().collect()).unwrap_or_default();
        map.insert("kept".into(), json!(kept));
        if !ledger {
            map.shift_remove("ledger");
        }
    }
    let mut out = Map::new();
    out.insert("bytes".into(), json!(model.bytes));
    out.insert("sha256".into(), json!(model.sha256));
    out.insert("checksum".into(), json!(format!("{:016x}", model.header.checksum)));
    let mut header = json!(model.header);
    header["checksum"] = json!(format!("{:016x}", model.header.checksum));
    out.insert("header".into(), header);
    out.insert("config".into(), model.records.config.clone());
    out.insert("rope".into(), model.records.rope.clone());
    out.insert("stops".into(), model.records.stops.clone());
    out.insert("sampling".into(), model.records.sampling.clone());
    out.insert("tokenizer_bytes".into(), json!(model.tokenizer.len()));
    out.insert("template_bytes".into(), json!(model.template.len()));
    out.insert(
        "dtypes".into(),
        json!(
            dtypes(model).into_iter().map(|(k, (n, b))| (k, json!({"tensors": n, "bytes": b}))).collect::<Map<_, _>>()
        ),
    );
    out.insert("parameters".into(), json!(parameters(model)));
    if tensors {
        out.insert("tensors".into(), json!(model.tensors));
    }
    out.insert("provenance".into(), provenance);
    Value::Object(out)
}

fn dtypes(model: &Model) -> BTreeMap<String, (u64, u64)> {
    let mut map = BTreeMap::new();
    for tensor in model.tensors.iter().filter(|tensor| tensor.dtype != "bytes") {
        let (count, bytes): &mut (u64, u64) = map.entry(tensor.dtype.to_owned()).or_default();
        *count += 1;
        *bytes += tensor.byte_length;
    }
    map
}

fn parameters(model: &Model) -> u64 {
    let weights = model.tensors.iter().filter(|tensor| tensor.dtype != "bytes");
    weights.map(|tensor| tensor.shape.iter().map(|dim| u64::from(*dim)).product::<u64>()).sum()
}

/// For people.
pub fn text(model: &Model, tensors: bool, ledger: bool) -> String {
    let (h, r) = (&model.header, &model.records);
    let mut out = String::new();
    let mut line = |label: &str, value: String| {
        let _ = writeln!(out, "{label:<11} {value}");
    };
    line("file", format!("{} bytes, SLM1 version {}, checksum {:016x} (correct)", model.bytes, h.version, h.checksum));
    line("sha256", model.sha256.clone());
    let head = if h.flags & 1 == 1 { "tied to the embedding" } else { "own matrix" };
    line(
        "model",
        format!(
            "{}, {} parameters, {} layers, hidden {}, ffn {}",
            r.family(),
            parameters(model),
            h.layer_count,
            h.hidden_size,
            h.ffn_size
        ),
    );
    line(
        "attention",
        format!("{} heads of {}, {} kv heads, context {}", h.head_count, h.head_dim, h.kv_head_count, h.max_context),
    );
    line("vocabulary", format!("{} ({} special), head {head}", h.vocab_size, h.special_token_count));
    let tables = r.rope["tables"].as_array().map_or(0, Vec::len);
    line("rotation", format!("theta {}, {tables} table(s), epsilon {:e}", h.rope_theta, h.rms_norm_epsilon));
    line("stops", format!("ids {} strings {}", r.stops["ids"], r.stops["strings"]));
    line("sampling", if r.sampling.is_null() { "the publisher says nothing".into() } else { r.sampling.to_string() });
    line("sections", format!("tokenizer {} bytes, template {} bytes", model.tokenizer.len(), model.template.len()));
    for (dtype, (count, bytes)) in dtypes(model) {
        line(&dtype, format!("{count} tensors, {bytes} bytes"));
    }
    let p = &r.provenance;
    if let Some(tool) = p["tool"].as_str() {
        line("made by", format!("{tool} from {}", p["source"]["kind"].as_str().unwrap_or("?")));
        line("licence", p["source"]["licence"].as_str().unwrap_or("none stated in the source").into());
        if p["overrides"].as_object().is_some_and(|map| !map.is_empty()) {
            line("overrides", p["overrides"].to_string());
        }
        if !p["drift"].is_null() {
            line("drift", p["drift"].to_string());
        }
        for note in p["notes"].as_array().into_iter().flatten() {
            line("note", note.as_str().unwrap_or_default().into());
        }
    }
    if tensors {
        let _ = writeln!(out, "\n{:<36} {:<6} {:>16} {:>12} {:>12}", "tensor", "dtype", "shape", "offset", "bytes");
        for t in &model.tensors {
            let shape: Vec<String> = t.shape.iter().map(u32::to_string).collect();
            let _ = writeln!(
                out,
                "{:<36} {:<6} {:>16} {:>12} {:>12}",
                t.name,
                t.dtype,
                shape.join("x"),
                t.byte_offset,
                t.byte_length
            );
        }
    }
    if ledger {
        let _ = writeln!(out);
        for entry in p["ledger"].as_array().into_iter().flatten() {
            let source = &entry["source"];
            let transforms: Vec<&str> =
                entry["transforms"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let _ = writeln!(
                out,
                "{} {} {} <- {} {} {} {} [{}] {}; {} sha256 {}",
                entry["name"].as_str().unwrap_or("?"),
                entry["dtype"].as_str().unwrap_or("?"),
                entry["shape"],
                source["name"].as_str().unwrap_or("?"),
                source["dtype"].as_str().unwrap_or("?"),
                source["shape"],
                source["file"].as_str().unwrap_or("?"),
                source["range"]
                    .as_array()
                    .map(|r| r.iter().map(Value::to_string).collect::<Vec<_>>().join(".."))
                    .unwrap_or_default(),
                if transforms.is_empty() { "as is".to_owned() } else { transforms.join(", ") },
                entry["method"].as_str().unwrap_or("?"),
                entry["sha256"].as_str().unwrap_or("?").trim_start_matches("\0hex:"),
            );
        }
        for entry in p["unread"].as_array().into_iter().flatten() {
            let _ = writeln!(
                out,
                "not read: {} ({})",
                entry["name"].as_str().unwrap_or("?"),
                entry["reason"].as_str().unwrap_or("?")
            );
        }
    }
    out
}
