//! Conversions that must succeed, held against the reference's own figures and against the bytes of the source.

mod support;

use serde_json::Value;
use std::fs;
use std::path::Path;
use support::{Folder, GgufFile, Random, families, options, run, shared_packs};
use tinyrustlm::core::kernels::Serial;
use tinyrustlm::core::model::Model;
use tinyrustlm::core::plan::Plan;
use tinyrustlm::core::session::Session;
use tinyrustlm::{Memory, ModelFile, detect};
use tinyrustlm_cli::convert::Quant;
use tinyrustlm_cli::convert::blocks::{Block, Dtype, unpack};
use tinyrustlm_cli::inspect;

/// Logits of the last position of each prompt.
fn logits(file: &Path, prompts: &[Vec<u32>]) -> Vec<Vec<f32>> {
    let file = ModelFile::open(file).unwrap();
    let model = Model::parse(file.bytes()).unwrap();
    let longest = prompts.iter().map(Vec::len).max().unwrap();
    let plan = Plan::new(&model, longest, 32).unwrap();
    let mut memory = Memory::new(&plan).unwrap();
    let mut session = Session::new(&model, plan, memory.blocks(), detect()).unwrap();
    prompts
        .iter()
        .map(|ids| {
            session.reset();
            session.prefill(ids, &Serial).unwrap().to_vec()
        })
        .collect()
}

struct Golden {
    prompts: Vec<Vec<u32>>,
    argmax: Vec<usize>,
    rows: Vec<Vec<f32>>,
}

fn golden(folder: &Path) -> Golden {
    let json: Value = serde_json::from_slice(&fs::read(folder.join("golden.json")).unwrap()).unwrap();
    let mut prompts: Vec<&Value> = json["prompts"].as_array().unwrap().iter().collect();
    prompts.sort_by_key(|prompt| prompt["row"].as_u64());
    let columns = json["logits"]["columns"].as_u64().unwrap() as usize;
    let bytes = fs::read(folder.join("logits.f32")).unwrap();
    let floats: Vec<f32> = bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    let ids =
        |prompt: &&Value| prompt["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
    Golden {
        prompts: prompts.iter().map(ids).collect(),
        argmax: prompts.iter().map(|prompt| prompt["argmax"].as_u64().unwrap() as usize).collect(),
        rows: floats.chunks_exact(columns).map(<[f32]>::to_vec).collect(),
    }
}

fn argmax(row: &[f32]) -> usize {
    (0..row.len()).fold(0, |best, at| if row[at] > row[best] { at } else { best })
}

fn bits(file: &Path, prompts: &[Vec<u32>]) -> Vec<u32> {
    logits(file, prompts).iter().flatten().map(|v| v.to_bits()).collect()
}

fn check_folder(folder: &Path, out: &Path) {
    let name = folder.file_name().unwrap().to_string_lossy();
    let golden = golden(folder);
    let file = out.join("m.slm");
    run(&options(folder, &file, Quant::All(Dtype::F32))).unwrap_or_else(|f| panic!("{name}: {}", f.message));
    for (row, (got, want)) in logits(&file, &golden.prompts).iter().zip(&golden.rows).enumerate() {
        let worst = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst <= 1.4e-4, "{name}, prompt {row}: off by {worst}");
        assert_eq!(argmax(got), golden.argmax[row], "{name}, prompt {row}");
    }
    check_bf16(folder, out, &file, &golden.prompts);
    let exact = out.join("exact.slm");
    run(&options(folder, &exact, Quant::Exact)).unwrap_or_else(|f| panic!("{name}: {}", f.message));
    assert!(bits(&exact, &golden.prompts) == bits(&file, &golden.prompts), "{name}");
    // Every dtype runs, rows and columns padded, and the nearer dtype is nearer.
    let mut errors = Vec::new();
    for dtype in Dtype::QUANTISED {
        run(&options(folder, &file, Quant::All(dtype))).unwrap_or_else(|f| panic!("{name} {dtype:?}: {}", f.message));
        let got = logits(&file, &golden.prompts);
        let error = |(a, b): (&Vec<f32>, &Vec<f32>)| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f32>();
        errors.push(got.iter().zip(&golden.rows).map(error).sum::<f32>());
    }
    assert!(errors[0] < errors[1] && errors[0] < errors[2], "{name}: squared errors {errors:?}");
}

/// bf16 gives the bits of `same`, the file in f32, and is refused where the publisher did not store it.
fn check_bf16(folder: &Path, out: &Path, same: &Path, prompts: &[Vec<u32>]) {
    let config: Value = serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap();
    let published = config["dtype"].as_str().or(config["torch_dtype"].as_str()).unwrap();
    let file = out.join("bf16.slm");
    let mut options = options(folder, &file, Quant::All(Dtype::Bf16));
    let result = run(&options);
    if published != "bfloat16" {
        assert!(result.unwrap_err().message.contains("NotBf16"), "{published}");
        assert!(!file.exists());
        // One matrix in bf16 is refused like all of them, the others do not matter.
        options.quant = Quant::All(Dtype::F32);
        options.tensor_types = vec!["layers.0.wq.weight=bf16".into()];
        assert!(run(&options).unwrap_err().message.contains("q_proj"), "the tensor is named");
        return;
    }
    result.unwrap();
    assert!(bits(&file, prompts) == bits(same, prompts), "{}", folder.display());
    let matrices: u64 =
        inspect::read(&file).unwrap().tensors.iter().map(|t| u64::from(t.dtype == "bf16") * t.byte_length).sum();
    let floats: u64 =
        inspect::read(same).unwrap().tensors.iter().map(|t| u64::from(t.shape.len() == 2) * t.byte_length).sum();
    assert_eq!(2 * matrices, floats);
    fs::remove_file(file).unwrap();
}

#[test]
fn committed_folders_of_all_families_equal_the_reference() {
    let out = tempfile::tempdir().unwrap();
    let folders = families();
    assert_eq!(folders.len(), 12);
    folders.iter().for_each(|folder| check_folder(folder, out.path()));
}

#[test]
fn shared_packs_equal_the_reference() {
    let out = tempfile::tempdir().unwrap();
    shared_packs().iter().for_each(|folder| check_folder(folder, out.path()));
}

#[test]
fn conversion_can_be_repeated_to_the_byte_and_inspect_reads_it() {
    let folder = Folder::of("gemma3_caps");
    let (a, b) = (folder.path().join("a.slm"), folder.path().join("b.slm"));
    let mut first = options(folder.path(), &a, Quant::Auto);
    first.drift = true;
    let summary = run(&first).unwrap();
    run(&support::options(folder.path(), &b, Quant::Auto)).unwrap();
    let plain = fs::read(&b).unwrap();
    first.output = b.clone();
    run(&first).unwrap();
    assert_eq!(fs::read(&a).unwrap(), fs::read(&b).unwrap());
    assert_ne!(fs::read(&a).unwrap(), plain, "the measurement stands in the file");

    let model = inspect::read(&a).unwrap();
    assert_eq!((model.sha256.clone(), model.bytes), (summary.sha256, summary.bytes));
    let ledger = model.records.provenance["ledger"].as_array().unwrap();
    let names: Vec<&str> = ledger.iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    let stored: Vec<&str> = model.tensors[7..].iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, stored, "nothing without lineage");
    for (name, ..) in &folder.tensors().0 {
        assert!(ledger.iter().any(|entry| entry["source"]["name"] == name.as_str()), "{name} is accounted for");
    }
    let drift = &model.records.provenance["drift"];
    assert!(drift["kl"].as_str().unwrap().trim().parse::<f64>().unwrap() > 0.0);
    assert!(drift["prompts"].as_u64().unwrap() >= 60);
    let bytes = fs::read(&a).unwrap();
    for (entry, tensor) in ledger.iter().zip(&model.tensors[7..]) {
        let payload = &bytes[tensor.byte_offset as usize..][..tensor.byte_length as usize];
        let hash = sha2_hex(payload);
        assert_eq!(entry["sha256"].as_str().unwrap().trim_start_matches("\0hex:"), hash, "{}", tensor.name);
    }
}

fn sha2_hex(data: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(data).iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn inspect_and_core_agree_on_damage() {
    let folder = Folder::of("qwen3_bias");
    let file = folder.path().join("m.slm");
    run(&options(folder.path(), &file, Quant::All(Dtype::Q8_0))).unwrap();
    let good = fs::read(&file).unwrap();
    let mut random = Random(5);
    for _ in 0..300 {
        let mut bad = good.clone();
        let at = random.word() as usize % if random.word().is_multiple_of(2) { 2048 } else { bad.len() };
        bad[at] ^= 1 << (random.word() % 8);
        fs::write(&file, &bad).unwrap();
        assert!(inspect::read(&file).is_err(), "bit flipped at {at}");
    }
    for len in (0..good.len()).step_by(997) {
        fs::write(&file, &good[..len]).unwrap();
        assert!(inspect::read(&file).is_err(), "cut at {len}");
    }
    // Resealed edits.
    for _ in 0..300 {
        let mut bad = good.clone();
        let at = random.word() as usize % 4096;
        bad[at] ^= 1 << (random.word() % 8);
        bad[100..108].fill(0);
        let seal = tinyrustlm::core::container::checksum(&bad);
        bad[100..108].copy_from_slice(&seal.to_le_bytes());
        fs::write(&file, &bad).unwrap();
        let core = ModelFile::open(&file).ok().map(|file| Model::parse(file.bytes()).err());
        let second = inspect::read(&file);
        // The core also looks into the tokenizer and at every weight; what it accepts, the second reader accepts.
        if core.is_some_and(|error| error.is_none()) {
            assert!(second.is_ok(), "byte {at}: {:?}", second.err());
        }
    }
}

#[test]
fn options_of_a_conversion() {
    let folder = Folder::of("llama_dynamic");
    let file = folder.path().join("m.slm");
    let mut o = options(folder.path(), &file, Quant::All(Dtype::Q8_0));
    o.tensor_types = vec!["layers.*.w2.weight=f32".into(), "*=q4_1".into()];
    o.context = Some(16);
    run(&o).unwrap();
    let model = inspect::read(&file).unwrap();
    assert_eq!(model.header.max_context, 16);
    for tensor in model.tensors[7..].iter().filter(|tensor| tensor.shape.len() == 2) {
        assert_eq!(tensor.dtype, if tensor.name.ends_with(".w2.weight") { "f32" } else { "q4_1" });
    }
    o.tensor_types = vec!["nothing=f32".into()];
    assert!(run(&o).unwrap_err().message.contains("nothing"));
    o.tensor_types.clear();
    o.context = Some(1 << 20);
    assert!(run(&o).is_err());

    o.context = None;
    o.drift = true;
    let mut sizes = Vec::new();
    for target in [200_000, 260_000, 1_000_000] {
        o.target_bytes = Some(target);
        let summary = run(&o).unwrap();
        assert!(summary.bytes <= target);
        sizes.push(summary.bytes);
    }
    assert!(sizes.is_sorted() && sizes[0] < sizes[2], "{sizes:?}");
    // Where there is room, a checkpoint in bf16 keeps its values and takes no more.
    let published = Folder::of("qwen3_bias");
    let mut roomy = options(published.path(), &file, Quant::Auto);
    (roomy.drift, roomy.target_bytes) = (true, Some(1 << 30));
    run(&roomy).unwrap();
    let model = inspect::read(&file).unwrap();
    assert!(model.tensors[7..].iter().all(|tensor| tensor.shape.len() == 1 || tensor.dtype == "bf16"));
    o.target_bytes = Some(1000);
    assert!(run(&o).unwrap_err().message.contains("TargetTooSmall"));
    o.target_bytes = None;
    o.quant = Quant::All(Dtype::Q4_0);
    o.require_band = Some("q8".into());
    fs::remove_file(&file).unwrap();
    assert!(run(&o).unwrap_err().message.contains("BandMissed"));
    assert!(!file.exists());
    o.quant = Quant::All(Dtype::F32);
    run(&o).unwrap();
}

#[test]
fn shards_and_one_file_give_the_same_tensors() {
    let folder = Folder::of("mistral_window");
    let file = folder.path().join("m.slm");
    run(&options(folder.path(), &file, Quant::Auto)).unwrap();
    let whole: Vec<String> = payload_hashes(&file);
    let tensors = folder.tensors();
    let (a, b) = tensors.0.split_at(tensors.0.len() / 2);
    let mut map = serde_json::Map::new();
    for (shard, part) in [("a.safetensors", a), ("b.safetensors", b)] {
        folder.write(shard, &support::Tensors(part.to_vec()).bytes());
        map.extend(part.iter().map(|tensor| (tensor.0.clone(), Value::from(shard))));
    }
    fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    folder.write("model.safetensors.index.json", serde_json::json!({ "weight_map": map }).to_string().as_bytes());
    run(&options(folder.path(), &file, Quant::Auto)).unwrap();
    assert_eq!(payload_hashes(&file), whole);
}

fn payload_hashes(file: &Path) -> Vec<String> {
    let bytes = fs::read(file).unwrap();
    let model = inspect::read(file).unwrap();
    let tensors = model.tensors[7..].iter();
    tensors.map(|t| sha2_hex(&bytes[t.byte_offset as usize..][..t.byte_length as usize])).collect()
}

/// What bf16 holds is stored in it, matrix by matrix; one bit more in one weight asks for f32.
#[test]
fn exact_takes_the_fewest_bytes_that_keep_every_value() {
    let folder = Folder::of("llama_dynamic");
    let mut tensors = folder.tensors();
    let file = folder.path().join("m.slm");
    let floats_of = |tensors: &support::Tensors| -> Vec<String> {
        folder.put(tensors);
        run(&options(folder.path(), &file, Quant::Exact)).unwrap();
        let model = inspect::read(&file).unwrap();
        let matrices = model.tensors[7..].iter().filter(|tensor| tensor.shape.len() == 2);
        matrices.filter(|tensor| tensor.dtype != "bf16").map(|tensor| tensor.name.clone()).collect()
    };
    for (_, dtype, shape, bytes) in &mut tensors.0 {
        assert_eq!(*dtype, "F16");
        if shape.len() == 2 {
            // bf16 has three bits fewer behind the point.
            bytes.as_chunks_mut::<2>().0.iter_mut().for_each(|half| half[0] &= 0xf8);
        }
    }
    assert!(floats_of(&tensors).is_empty());
    // The number after 1.
    *tensors.get("model.layers.1.mlp.up_proj.weight").3.last_chunk_mut().unwrap() = [1, 0x3c];
    assert_eq!(floats_of(&tensors), ["layers.1.w3.weight"]);
}

/// A tied head that differs from the embedding is used as it is; one that equals it is left out.
#[test]
fn a_head_despite_the_tie() {
    let folder = Folder::of("llama_dynamic");
    let mut tensors = folder.tensors();
    let Some(embedding) = tensors.0.iter().find(|tensor| tensor.0 == "model.embed_tokens.weight").cloned() else {
        panic!()
    };
    tensors.remove("lm_head.weight");
    tensors.add("lm_head.weight", &embedding.1, &embedding.2, embedding.3.clone());
    folder.set("config.json", "tie_word_embeddings", Value::Bool(true)).put(&tensors);
    let file = folder.path().join("m.slm");
    run(&options(folder.path(), &file, Quant::Auto)).unwrap();
    assert_eq!(inspect::read(&file).unwrap().header.flags, 1);
    tensors.get("lm_head.weight").3[0] ^= 1;
    folder.put(&tensors);
    run(&options(folder.path(), &file, Quant::Auto)).unwrap();
    let model = inspect::read(&file).unwrap();
    assert_eq!((model.header.flags, model.tensors.last().unwrap().name.as_str()), (0, "output.weight"));
}

/// Codes of ggml's blocks, as random as they come.
fn ggml(kind: u32, rows: u64, cols: u64, random: &mut Random) -> Vec<u8> {
    let (scales, codes) = [(2, 16), (4, 16), (2, 32)][match kind {
        2 => 0,
        3 => 1,
        _ => 2,
    }];
    let mut out = Vec::new();
    for _ in 0..rows * cols / 32 {
        for _ in 0..scales / 2 {
            // Finite halves of either sign, none too large.
            out.extend(((random.word() as u16 & 0x83ff) | 0x1800).to_le_bytes());
        }
        out.extend((0..codes).map(|_| random.word() as u8));
    }
    out
}

#[test]
fn gguf_codes_come_over_exactly() {
    let mut random = Random(77);
    let (hidden, ffn, heads, vocab) = (64u64, 96u64, 4u64, 264u64);
    let mut gguf = GgufFile::default();
    gguf.text("general.architecture", "llama").text("general.license", "mit");
    for (key, value) in
        [("block_count", 1), ("context_length", 64), ("embedding_length", 64), ("feed_forward_length", 96)]
    {
        gguf.u32(&format!("llama.{key}"), value);
    }
    gguf.u32("llama.attention.head_count", 4).u32("llama.attention.head_count_kv", 2);
    gguf.f32("llama.attention.layer_norm_rms_epsilon", 1e-5).f32("llama.rope.freq_base", 10000.0);
    let alphabet: Vec<char> =
        ('!'..='~').chain('\u{a1}'..='\u{ac}').chain('\u{ae}'..='\u{ff}').chain('\u{100}'..='\u{143}').collect();
    let mut tokens: Vec<String> = (0..8).map(|i| format!("<|{i}|>")).collect();
    tokens.extend(alphabet.iter().map(char::to_string));
    assert_eq!(tokens.len() as u64, vocab);
    let types: Vec<i32> = (0..vocab).map(|id| if id < 8 { 3 } else { 1 }).collect();
    gguf.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2");
    gguf.texts("tokenizer.ggml.tokens", &tokens).i32s("tokenizer.ggml.token_type", &types);
    gguf.texts("tokenizer.ggml.merges", &[]).u32("tokenizer.ggml.eos_token_id", 2);
    let matrices = [
        ("token_embd", "tok_embeddings", vocab, hidden, 8),
        ("blk.0.attn_q", "layers.0.wq", hidden, hidden, 3),
        ("blk.0.attn_k", "layers.0.wk", hidden / 2, hidden, 2),
        ("blk.0.attn_v", "layers.0.wv", hidden / 2, hidden, 8),
        ("blk.0.attn_output", "layers.0.wo", hidden, hidden, 2),
        ("blk.0.ffn_gate", "layers.0.w1", ffn, hidden, 3),
        ("blk.0.ffn_up", "layers.0.w3", ffn, hidden, 2),
        ("blk.0.ffn_down", "layers.0.w2", hidden, ffn, 3),
    ];
    let mut sources = Vec::new();
    for (from, _, rows, cols, kind) in matrices {
        let bytes = ggml(kind, rows, cols, &mut random);
        gguf.tensor(&format!("{from}.weight"), &[cols, rows], kind, &bytes);
        sources.push(bytes);
    }
    let ones: Vec<u8> = (0..hidden).flat_map(|_| 1f32.to_le_bytes()).collect();
    for norm in ["blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"] {
        gguf.tensor(&format!("{norm}.weight"), &[hidden], 0, &ones);
    }
    let dir = tempfile::tempdir().unwrap();
    let (path, file) = (dir.path().join("m.gguf"), dir.path().join("m.slm"));
    fs::write(&path, gguf.bytes()).unwrap();
    run(&options(&path, &file, Quant::Auto)).unwrap_or_else(|f| panic!("{}", f.message));

    let bytes = fs::read(&file).unwrap();
    let model = inspect::read(&file).unwrap();
    // The source's codes are its values, exactly.
    let exact = dir.path().join("exact.slm");
    run(&options(&path, &exact, Quant::Exact)).unwrap_or_else(|f| panic!("{}", f.message));
    assert_eq!(payload_hashes(&exact), payload_hashes(&file));
    for ((_, to, rows, cols, kind), source) in matrices.into_iter().zip(&sources) {
        let tensor = model.tensors.iter().find(|tensor| tensor.name == format!("{to}.weight")).unwrap();
        let dtype = Dtype::from_name(tensor.dtype).unwrap();
        let group_bytes = dtype.group_bytes();
        let blocks = (cols / 32) as usize;
        let payload = &bytes[tensor.byte_offset as usize..][..tensor.byte_length as usize];
        let block_bytes = source.len() / (rows as usize * blocks);
        for row in 0..rows as usize {
            // Queries and keys: pairs of a head become halves.
            let dim = (hidden / heads) as usize;
            let from = match to {
                "layers.0.wq" | "layers.0.wk" => {
                    let (head, at) = (row / dim * dim, row % dim);
                    head + if at < dim / 2 { 2 * at } else { 2 * (at - dim / 2) + 1 }
                }
                _ => row,
            };
            for b in 0..blocks {
                let group = &payload[(row / 8 * blocks + b) * group_bytes..][..group_bytes];
                let stored: Block = unpack(dtype, group)[row % 8];
                let raw = &source[(from * blocks + b) * block_bytes..][..block_bytes];
                assert_eq!(stored.d.to_le_bytes(), raw[..2], "{to} row {row}");
                let nibble = |i: usize| {
                    let codes = &raw[block_bytes - 16..];
                    if i < 16 { codes[i] & 15 } else { codes[i - 16] >> 4 }
                };
                let want: Vec<u8> = (0..32).map(|i| if kind == 8 { raw[2 + i] } else { nibble(i) }).collect();
                assert_eq!(stored.q.to_vec(), want, "{to} row {row} block {b}");
                if kind == 3 {
                    assert_eq!(stored.m.to_le_bytes(), raw[2..4]);
                }
            }
        }
    }
    assert!(logits(&file, &[vec![9, 10, 11]])[0].iter().all(|v| v.is_finite()));
}

#[test]
fn llama2c_checkpoints_convert_and_their_pairs_become_halves() {
    let (dim, ffn, heads, vocab, context) = (16usize, 24usize, 2usize, 264usize, 32usize);
    let mut random = Random(3);
    let mut floats = |n: usize| -> Vec<f32> { (0..n).map(|_| random.word() as f32 / 4e9 - 0.5).collect() };
    let parts = [
        ("embedding", vocab * dim),
        ("attn_norm", dim),
        ("wq", dim * dim),
        ("wk", dim * dim),
        ("wv", dim * dim),
        ("wo", dim * dim),
        ("ffn_norm", dim),
        ("w1", ffn * dim),
        ("w2", dim * ffn),
        ("w3", ffn * dim),
        ("norm", dim),
        ("tables", context * dim / heads),
    ];
    let values: Vec<(&str, Vec<f32>)> = parts.iter().map(|(name, n)| (*name, floats(*n))).collect();
    let header = [dim, ffn, 1, heads, heads, vocab, context];
    let mut bytes: Vec<u8> = header.iter().flat_map(|n| (*n as i32).to_le_bytes()).collect();
    bytes.extend(values.iter().flat_map(|(_, v)| v).flat_map(|f| f.to_le_bytes()));
    let mut tokenizer = 8u32.to_le_bytes().to_vec();
    for id in 0..vocab {
        let text = match id {
            0 => "<unk>".to_owned(),
            1 => "\n<s>\n".to_owned(),
            2 => "\n</s>\n".to_owned(),
            3..259 => format!("<0x{:02X}>", id - 3),
            _ => [" ", "a", "b", " a", "ab"][id - 259].to_owned(),
        };
        tokenizer.extend((-(id as f32)).to_le_bytes());
        tokenizer.extend((text.len() as u32).to_le_bytes());
        tokenizer.extend(text.as_bytes());
    }
    let dir = tempfile::tempdir().unwrap();
    let (path, file) = (dir.path().join("model.bin"), dir.path().join("m.slm"));
    fs::write(&path, &bytes).unwrap();
    assert!(run(&options(&path, &file, Quant::All(Dtype::F32))).unwrap_err().message.contains("tokenizer.bin"));
    fs::write(dir.path().join("tokenizer.bin"), tokenizer).unwrap();
    run(&options(&path, &file, Quant::All(Dtype::F32))).unwrap_or_else(|f| panic!("{}", f.message));
    let model = inspect::read(&file).unwrap();
    let stored = fs::read(&file).unwrap();
    let find = |name: &str| {
        let tensor = model.tensors.iter().find(|tensor| tensor.name == name).unwrap();
        let payload = &stored[tensor.byte_offset as usize..][..tensor.byte_length as usize];
        payload.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect::<Vec<f32>>()
    };
    let source = |name: &str| &values.iter().find(|(known, _)| *known == name).unwrap().1;
    assert_eq!(find("layers.0.w2.weight"), *source("w2"));
    assert_eq!(find("layers.0.wv.weight"), *source("wv"));
    let (wq, from) = (find("layers.0.wq.weight"), source("wq"));
    for (row, want) in [0usize, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15].into_iter().enumerate() {
        assert_eq!(wq[row * dim..][..dim], from[want * dim..][..dim]);
    }
    assert_eq!(model.records.stops["ids"], serde_json::json!([2]));
    assert!(logits(&file, &[vec![1, 260, 261]])[0].iter().all(|v| v.is_finite()));
}
