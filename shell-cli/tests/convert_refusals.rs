//! What is refused, by which error and exit code, with the culprit named and nothing left behind; and what looks alike but
//! is fine.

mod support;

use serde_json::{Value, json};
use std::fs;
use support::{Folder, GgufFile, convert_into_empty, safetensors_file};
use tinyrustlm_cli::failure::Kind;

type Change = Box<dyn Fn(&Folder)>;

struct Case {
    name: &'static str,
    kind: Kind,
    /// Parts of the message: the error's name and the culprit.
    says: &'static [&'static str],
    change: Change,
}

fn case(name: &'static str, kind: Kind, says: &'static [&'static str], change: impl Fn(&Folder) + 'static) -> Case {
    Case { name, kind, says, change: Box::new(change) }
}

fn config(key: &'static str, value: Value) -> impl Fn(&Folder) {
    move |folder| {
        folder.set("config.json", key, value.clone());
    }
}

fn tensors(change: impl Fn(&mut support::Tensors) + 'static) -> impl Fn(&Folder) {
    move |folder| {
        let mut tensors = folder.tensors();
        change(&mut tensors);
        folder.put(&tensors);
    }
}

fn header(text: &'static str, data: usize) -> impl Fn(&Folder) {
    move |folder| {
        folder.write("model.safetensors", &safetensors_file(text, &vec![0; data]));
    }
}

const LAYER0: &str = "model.layers.0.mlp.up_proj.weight";

fn cases() -> Vec<Case> {
    use Kind::{Conflict, Malformed, Unsupported};
    let class = |name: &'static str| config("architectures", json!([name]));
    let templates = json!([{ "name": "a", "template": "x" }, { "name": "b", "template": "y" }]);
    vec![
        // Families and values that cannot be run exactly.
        case(
            "mixture of experts",
            Unsupported,
            &["UnsupportedFamily", "MixtralForCausalLM", "experts"],
            class("MixtralForCausalLM"),
        ),
        case("state space", Unsupported, &["UnsupportedFamily", "MambaForCausalLM"], class("MambaForCausalLM")),
        case(
            "learned positions",
            Unsupported,
            &["UnsupportedFamily", "GPT2LMHeadModel", "positions"],
            class("GPT2LMHeadModel"),
        ),
        case("classifier", Unsupported, &["UnsupportedFamily", "classifier"], class("LlamaForSequenceClassification")),
        case(
            "unknown rope",
            Unsupported,
            &["UnsupportedRope", "foo"],
            config("rope_parameters", json!({ "rope_type": "foo" })),
        ),
        case("unknown activation", Unsupported, &["UnsupportedValue", "relu2"], config("hidden_act", json!("relu2"))),
        case("exact gelu", Unsupported, &["UnsupportedValue", "gelu"], config("hidden_act", json!("gelu"))),
        case(
            "pre-quantised",
            Unsupported,
            &["PreQuantised", "quantization_config"],
            config("quantization_config", json!({})),
        ),
        case(
            "unknown field",
            Unsupported,
            &["UnknownField", "clip_qkv", "--override clip_qkv=ignore"],
            config("clip_qkv", json!(8.0)),
        ),
        case(
            "interleaved rope",
            Unsupported,
            &["UnsupportedValue", "rope_interleaved"],
            config("rope_interleaved", json!(true)),
        ),
        case("partial rotation", Unsupported, &["partial_rotary_factor"], config("partial_rotary_factor", json!(0.5))),
        case("beams", Unsupported, &["UnsupportedValue", "num_beams"], |f| {
            f.set("generation_config.json", "num_beams", json!(4));
        }),
        // Contradictions.
        case(
            "eos",
            Conflict,
            &["Conflict", "eos_token_id", "--override eos_token_id=2", "--override eos_token_id=5"],
            |f| {
                f.set("generation_config.json", "eos_token_id", json!(5));
            },
        ),
        case("eos of the tokenizer", Conflict, &["Conflict", "eos_token_id"], |f| {
            f.set("tokenizer_config.json", "eos_token", json!("<|endoftext|>"));
        }),
        case("eos sets that overlap", Conflict, &["Conflict", "eos_token_id"], |f| {
            f.set("config.json", "eos_token_id", json!([2, 3])).set(
                "generation_config.json",
                "eos_token_id",
                json!([2, 4]),
            );
        }),
        case("eos outside", Conflict, &["Conflict", "vocabulary"], |f| {
            f.set("config.json", "eos_token_id", json!(999)).set("generation_config.json", "eos_token_id", json!(999));
            f.set("tokenizer_config.json", "eos_token", Value::Null);
        }),
        case("bos", Conflict, &["Conflict", "bos_token_id"], config("bos_token_id", json!(7))),
        case("pad", Conflict, &["Conflict", "pad_token_id"], config("pad_token_id", json!(7))),
        case("unknown token", Conflict, &["Conflict", "unk_token_id", "no such token"], |f| {
            f.set("tokenizer_config.json", "unk_token", json!("no such token"));
        }),
        case("added tokens", Conflict, &["Conflict", "added_tokens_decoder"], |f| {
            f.set("tokenizer_config.json", "added_tokens_decoder", json!({ "1": { "content": "other" } }));
        }),
        case("bos is said to be added", Conflict, &["Conflict", "add_bos_token"], |f| {
            f.set("tokenizer_config.json", "add_bos_token", json!(true));
        }),
        case("class and type", Conflict, &["Conflict", "model_type"], config("model_type", json!("qwen2"))),
        case("no class", Conflict, &["Conflict", "architecture"], config("architectures", Value::Null)),
        case("vocabulary", Conflict, &["Conflict", "vocab_size"], config("vocab_size", json!(290))),
        case("templates", Conflict, &["Conflict", "chat_template", "--override chat_template=a"], move |f| {
            fs::remove_file(f.path().join("chat_template.jinja")).unwrap();
            f.set("tokenizer_config.json", "chat_template", templates.clone());
        }),
        case(
            "two dialects",
            Conflict,
            &["Conflict", "rope_parameters"],
            config("rope_scaling", json!({ "type": "linear", "factor": 2 })),
        ),
        // Damaged input.
        case("no config", Malformed, &["MissingFile", "config.json"], |f| {
            fs::remove_file(f.path().join("config.json")).unwrap()
        }),
        case("no weights", Malformed, &["MissingFile", "safetensors"], |f| {
            fs::remove_file(f.path().join("model.safetensors")).unwrap()
        }),
        case("no tokenizer", Malformed, &["MissingFile", "tokenizer.json"], |f| {
            fs::remove_file(f.path().join("tokenizer.json")).unwrap()
        }),
        case("config is no object", Malformed, &["BadJson"], |f| {
            f.write("config.json", b"[1]");
        }),
        case("size of the wrong kind", Malformed, &["BadJson", "hidden_size"], config("hidden_size", json!("many"))),
        case("size of zero", Malformed, &["BadDimensions", "num_hidden_layers"], config("num_hidden_layers", json!(0))),
        case(
            "size missing",
            Malformed,
            &["MissingField", "intermediate_size"],
            config("intermediate_size", Value::Null),
        ),
        case("odd head", Unsupported, &["UnsupportedRope", "head_dim 9"], config("head_dim", json!(9))),
        case("heads", Malformed, &["BadDimensions", "num_attention_heads"], config("num_key_value_heads", json!(3))),
        case(
            "missing tensor",
            Malformed,
            &["MissingTensor", LAYER0],
            tensors(|t| {
                t.remove(LAYER0);
            }),
        ),
        case(
            "missing head",
            Malformed,
            &["MissingTensor", "lm_head.weight"],
            tensors(|t| {
                t.remove("lm_head.weight");
            }),
        ),
        case(
            "extra tensor",
            Malformed,
            &["ExtraTensor", "score.weight"],
            tensors(|t| {
                t.add("score.weight", "F32", &[2, 2], vec![0; 16]);
            }),
        ),
        case(
            "head bias",
            Malformed,
            &["ExtraTensor", "lm_head.bias"],
            tensors(|t| {
                t.add("lm_head.bias", "F32", &[300], vec![0; 1200]);
            }),
        ),
        case("transposed", Malformed, &["TensorShape", "transposed", LAYER0], tensors(|t| t.get(LAYER0).2.reverse())),
        case("shape by count only", Malformed, &["TensorShape", LAYER0], tensors(|t| t.get(LAYER0).2 = vec![36, 96])),
        case(
            "NaN",
            Malformed,
            &["NonFiniteWeight", LAYER0, "element 1"],
            tensors(|t| t.get(LAYER0).3[2..4].copy_from_slice(&[0xc0, 0x7f])),
        ),
        case(
            "infinity",
            Malformed,
            &["NonFiniteWeight", LAYER0],
            tensors(|t| t.get(LAYER0).3[..2].copy_from_slice(&[0x80, 0xff])),
        ),
        case(
            "integer weights",
            Unsupported,
            &["UnsupportedDtype", LAYER0],
            tensors(|t| t.get(LAYER0).1 = "I16".into()),
        ),
        case("missing shard", Malformed, &["ShardIndex", "b.safetensors", "x.weight"], |f| {
            fs::rename(f.path().join("model.safetensors"), f.path().join("a.safetensors")).unwrap();
            let map = json!({ "weight_map": { "x.weight": "b.safetensors" } });
            f.write("model.safetensors.index.json", map.to_string().as_bytes());
        }),
        case("index and file", Malformed, &["ShardIndex"], |f| {
            f.write("model.safetensors.index.json", b"{\"weight_map\":{}}");
        }),
        case("shard outside of the folder", Malformed, &["ShardIndex", "leaves the folder"], |f| {
            fs::remove_file(f.path().join("model.safetensors")).unwrap();
            f.write("model.safetensors.index.json", b"{\"weight_map\":{\"x\":\"../x.safetensors\"}}");
        }),
        // Hostile safetensors.
        case("0 bytes", Malformed, &["SafetensorsHeader"], |f| {
            f.write("model.safetensors", b"");
        }),
        case("7 bytes", Malformed, &["SafetensorsHeader"], |f| {
            f.write("model.safetensors", b"1234567");
        }),
        case("header of 2^64 - 1", Malformed, &["SafetensorsHeader"], |f| {
            f.write("model.safetensors", &[&[0xff; 8][..], b"{}"].concat());
        }),
        case("header beyond the cap", Malformed, &["SafetensorsHeader"], |f| {
            f.write("model.safetensors", &[&100_000_001u64.to_le_bytes()[..], b"{}"].concat());
        }),
        case("header of 0", Malformed, &["SafetensorsHeader"], |f| {
            f.write("model.safetensors", &[0; 16]);
        }),
        case("header is a list", Malformed, &["SafetensorsHeader"], header("[]", 0)),
        case("no tensors", Malformed, &["SafetensorsHeader"], header("{}", 0)),
        case("NUL after the header", Malformed, &["SafetensorsHeader"], header("{}\0\0", 0)),
        case(
            "metadata with a number",
            Malformed,
            &["SafetensorsHeader"],
            header(r#"{"__metadata__":{"a":1},"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#, 4),
        ),
        case(
            "overlap",
            Malformed,
            &["SafetensorsCover", "b"],
            header(
                r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}"#,
                12,
            ),
        ),
        case(
            "hole",
            Malformed,
            &["SafetensorsCover"],
            header(
                r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}"#,
                12,
            ),
        ),
        case(
            "same range",
            Malformed,
            &["SafetensorsCover"],
            header(
                r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#,
                4,
            ),
        ),
        case(
            "starts late",
            Malformed,
            &["SafetensorsCover"],
            header(r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#, 8),
        ),
        case(
            "reversed",
            Malformed,
            &["TensorRange"],
            header(r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}"#, 4),
        ),
        case(
            "4 bytes more",
            Malformed,
            &["SafetensorsCover"],
            header(r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#, 8),
        ),
        case(
            "4 bytes short",
            Malformed,
            &["SafetensorsCover"],
            header(r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#, 4),
        ),
        case(
            "twice",
            Malformed,
            &["DuplicateTensor", "a"],
            header(
                r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#,
                4,
            ),
        ),
        case(
            "unknown dtype",
            Malformed,
            &["TensorRange", "Q4"],
            header(r#"{"a":{"dtype":"Q4","shape":[1],"data_offsets":[9223372036854775808,9223372036854775812]}}"#, 4),
        ),
        case(
            "offsets near 2^64",
            Malformed,
            &["SafetensorsCover"],
            header(
                r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[18446744073709551608,18446744073709551612]}}"#,
                4,
            ),
        ),
        case(
            "offset of 2^64",
            Malformed,
            &["SafetensorsHeader"],
            header(r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551616]}}"#, 4),
        ),
        case(
            "shape overflows",
            Malformed,
            &["TensorRange", "overflows"],
            header(r#"{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}"#, 0),
        ),
        case(
            "bytes overflow",
            Malformed,
            &["TensorRange"],
            header(r#"{"a":{"dtype":"F32","shape":[9223372036854775808,2],"data_offsets":[0,0]}}"#, 0),
        ),
        case(
            "negative shape",
            Malformed,
            &["SafetensorsHeader"],
            header(r#"{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}"#, 4),
        ),
        case(
            "fractional shape",
            Malformed,
            &["SafetensorsHeader"],
            header(r#"{"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}}"#, 4),
        ),
        case("deep nesting", Malformed, &["SafetensorsHeader"], |f| {
            let text = format!("{{\"a\":{}", "[".repeat(100_000));
            f.write("model.safetensors", &safetensors_file(&text, &[]));
        }),
        case("key that is not UTF-8", Malformed, &["SafetensorsHeader"], |f| {
            f.write("model.safetensors", &[&6u64.to_le_bytes()[..], b"{\"\xff\":1"].concat());
        }),
    ]
}

#[test]
fn each_is_refused_by_name_and_leaves_nothing() {
    let mut wrong = Vec::new();
    for case in cases() {
        let folder = Folder::of("llama_biases_linear");
        (case.change)(&folder);
        match folder.convert(&[]) {
            Ok(_) => wrong.push(format!("{}: accepted", case.name)),
            Err(failure) => {
                let misses: Vec<&&str> = case.says.iter().filter(|part| !failure.message.contains(**part)).collect();
                if failure.kind != case.kind || !misses.is_empty() {
                    wrong.push(format!("{}: {:?}, without {misses:?}: {}", case.name, failure.kind, failure.message));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_looks_alike_but_is_fine_is_accepted() {
    let controls: Vec<(&str, Change, &[&str])> = vec![
        ("unchanged", Box::new(|_| {}), &[]),
        (
            "EOS set that contains the id",
            Box::new(|f| {
                f.set("generation_config.json", "eos_token_id", json!([2, 5]));
            }),
            &[],
        ),
        (
            "old buffers",
            Box::new(tensors(|t| {
                t.add("model.layers.0.self_attn.rotary_emb.inv_freq", "F32", &[5], vec![0; 20]);
            })),
            &[],
        ),
        (
            "mixed dtypes",
            Box::new(tensors(|t| {
                let tensor = t.get("model.norm.weight");
                tensor.1 = "F32".into();
                tensor.3 = tensor.3.chunks_exact(2).flat_map(|b| [0, 0, b[0], b[1]]).collect();
            })),
            &[],
        ),
        ("a field that is null", Box::new(config("clip_qkv", Value::Null)), &[]),
        (
            "the older key of the rope type",
            Box::new(config("rope_parameters", json!({ "type": "linear", "rope_theta": 1e4, "factor": 3 }))),
            &[],
        ),
        (
            "the older dialect",
            Box::new(|f| {
                f.set("config.json", "rope_parameters", Value::Null);
                f.set("config.json", "rope_scaling", json!({ "type": "linear", "factor": 3.0 }));
                f.set("config.json", "rope_theta", json!(10000.0));
            }),
            &[],
        ),
        ("an unknown field set aside", Box::new(config("clip_qkv", json!(8.0))), &["clip_qkv=ignore"]),
        (
            "an EOS conflict decided",
            Box::new(|f| {
                f.set("generation_config.json", "eos_token_id", json!(5));
            }),
            &["eos_token_id=2,5"],
        ),
        (
            "a template chosen",
            Box::new(|f| {
                fs::remove_file(f.path().join("chat_template.jinja")).unwrap();
                f.set(
                    "tokenizer_config.json",
                    "chat_template",
                    json!([{ "name": "a", "template": "x" }, { "name": "b", "template": "y" }]),
                );
            }),
            &["chat_template=b"],
        ),
        ("no generation config", Box::new(|f| fs::remove_file(f.path().join("generation_config.json")).unwrap()), &[]),
    ];
    for (name, change, overrides) in controls {
        let folder = Folder::of("llama_biases_linear");
        change(&folder);
        let summary = folder.convert(overrides).unwrap_or_else(|failure| panic!("{name}: {}", failure.message));
        let used = summary.receipt["provenance"]["overrides"].as_object().unwrap().len();
        assert_eq!(used, overrides.len(), "{name}: overrides are recorded");
    }
}

#[test]
fn an_override_that_decides_nothing_is_a_mistake() {
    let failure = Folder::of("llama_biases_linear").convert(&["eos_tokenid=2"]).unwrap_err();
    assert_eq!(failure.kind, Kind::Usage);
    assert!(failure.message.contains("eos_tokenid"));
}

#[test]
fn a_conflict_writes_a_receipt() {
    let folder = Folder::of("llama_biases_linear");
    folder.set("generation_config.json", "eos_token_id", json!(5)).set("config.json", "pad_token_id", json!(7));
    let receipt = folder.path().join("receipt.json");
    let mut options =
        support::options(folder.path(), &folder.path().join("m.slm"), tinyrustlm_cli::convert::Quant::Auto);
    options.receipt = Some(receipt.clone());
    assert_eq!(support::run(&options).unwrap_err().kind, Kind::Conflict);
    let receipt: Value = serde_json::from_slice(&fs::read(receipt).unwrap()).unwrap();
    assert_eq!(receipt["exit_code"], 3);
    let rules: Vec<&str> =
        receipt["conflicts"].as_array().unwrap().iter().map(|c| c["rule"].as_str().unwrap()).collect();
    assert_eq!(rules, ["eos_token_id", "pad_token_id"], "one run shows them all");
    assert!(receipt["conflicts"][0]["overrides"].as_array().unwrap().contains(&json!("--override eos_token_id=5")));
}

#[test]
fn hostile_gguf_files_get_numbered_errors() {
    let llama = || {
        let mut file = GgufFile::default();
        file.text("general.architecture", "llama");
        file
    };
    let counts = |tensors: u64, entries: u64, rest: &[u8]| {
        [b"GGUF".as_slice(), &3u32.to_le_bytes(), &tensors.to_le_bytes(), &entries.to_le_bytes(), rest].concat()
    };
    let key = |kind: u32, rest: &[u8]| [&1u64.to_le_bytes()[..], b"k", &kind.to_le_bytes(), rest].concat();
    let list = |kind: u32, count: u64| [&kind.to_le_bytes()[..], &count.to_le_bytes()].concat();
    let big = (1u64 << 63).to_le_bytes();
    let data = vec![0u8; 64];
    let cases: Vec<(&str, Kind, &str, Vec<u8>)> = vec![
        ("cut after the magic", Kind::Malformed, "BadGguf", b"GGUF".to_vec()),
        (
            "version 1",
            Kind::Unsupported,
            "UnsupportedGguf",
            [b"GGUF".as_slice(), &1u32.to_le_bytes(), &[0; 16]].concat(),
        ),
        (
            "big-endian",
            Kind::Unsupported,
            "UnsupportedGguf",
            [b"GGUF".as_slice(), &3u32.to_be_bytes(), &[0; 16]].concat(),
        ),
        ("2^63 tensors", Kind::Malformed, "BadGguf", counts(1 << 63, 0, &[])),
        ("2^63 entries", Kind::Malformed, "BadGguf", counts(0, 1 << 63, &[])),
        ("string of 2^63", Kind::Malformed, "BadGguf", counts(0, 1, &key(8, &big))),
        ("list of 2^63", Kind::Malformed, "BadGguf", counts(0, 1, &key(9, &list(4, 1 << 63)))),
        ("list of lists", Kind::Malformed, "BadGguf", counts(0, 1, &key(9, &list(9, 1)))),
        ("unknown type", Kind::Malformed, "BadGguf", counts(0, 1, &key(13, &[]))),
        ("boolean of 2", Kind::Malformed, "BadGguf", counts(0, 1, &key(7, &[2]))),
        ("key twice", Kind::Malformed, "BadGguf", llama().u32("a", 1).u32("a", 1).bytes()),
        ("alignment 0", Kind::Malformed, "BadGguf", llama().u32("general.alignment", 0).bytes()),
        ("alignment 3", Kind::Malformed, "BadGguf", llama().u32("general.alignment", 3).bytes()),
        ("alignment of the wrong type", Kind::Malformed, "BadGguf", llama().text("general.alignment", "32").bytes()),
        ("9 dimensions", Kind::Malformed, "BadGguf", llama().info("a", &[1; 9], 0, 0).bytes()),
        ("type 255", Kind::Malformed, "BadGguf", llama().tensor("a", &[32], 255, &data).bytes()),
        ("Q4_K", Kind::Unsupported, "UnsupportedGguf", llama().tensor("a", &[256], 12, &data).bytes()),
        ("dimensions overflow", Kind::Malformed, "BadGguf", llama().info("a", &[u64::MAX, 2, 1, 1], 0, 0).bytes()),
        ("product wraps", Kind::Malformed, "BadGguf", llama().info("a", &[(1 << 42) + 1, 1 << 22], 0, 0).bytes()),
        ("offset near 2^64", Kind::Malformed, "BadGguf", llama().info("a", &[32], 0, u64::MAX - 31).bytes()),
        ("beyond the end", Kind::Malformed, "BadGguf", llama().info("a", &[1 << 20], 0, 0).bytes()),
        ("unaligned", Kind::Malformed, "BadGguf", llama().tensor("a", &[8], 0, &data).info("b", &[1], 0, 4).bytes()),
        ("overlap", Kind::Malformed, "BadGguf", llama().tensor("a", &[16], 0, &data).info("b", &[8], 0, 32).bytes()),
        (
            "name twice",
            Kind::Malformed,
            "BadGguf",
            llama().tensor("a", &[8], 0, &data).tensor("a", &[8], 0, &data).bytes(),
        ),
        ("columns of a block", Kind::Malformed, "BadGguf", llama().tensor("a", &[33], 8, &data).bytes()),
        (
            "other architecture",
            Kind::Unsupported,
            "UnsupportedGguf",
            GgufFile::default().text("general.architecture", "gpt2").bytes(),
        ),
        ("no architecture", Kind::Malformed, "BadGguf", GgufFile::default().bytes()),
        ("nothing else", Kind::Malformed, "MissingField", llama().bytes()),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (name, kind, error, bytes) in cases {
        let path = folder.path().join("m.gguf");
        fs::write(&path, bytes).unwrap();
        let failure = convert_into_empty(&path, &[]).expect_err(name);
        assert!(
            failure.kind == kind && failure.message.contains(error),
            "{name}: {:?} {}",
            failure.kind,
            failure.message
        );
    }
}

#[test]
fn hostile_llama2c_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.bin");
    let words = |list: &[i32]| list.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    for (name, bytes) in [
        ("empty", Vec::new()),
        ("short", vec![1; 20]),
        ("sizes of zero", words(&[0; 8])),
        ("huge", words(&[1 << 24, 1 << 24, 1000, 1 << 23, 1 << 23, 1 << 24, 1 << 24, 0])),
        ("negative", words(&[-8, 8, 1, 2, 2, 8, 8, 0])),
        ("cut", words(&[8, 8, 1, 2, 2, 8, 8, 0])),
    ] {
        fs::write(&path, bytes).unwrap();
        let failure = convert_into_empty(&path, &[]).expect_err(name);
        assert!(failure.message.contains("BadLlama2c"), "{name}: {}", failure.message);
    }
}
