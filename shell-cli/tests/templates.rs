//! Templates against the reference: recorded cases of this repository and of the shared data, hostile ones, mutations.

use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tinyrustlm_cli::template::{Renderer, compile};
use tinyrustlm_core::Code;
use tinyrustlm_core::template::{Now, Template};

const NOW: Now = Now { year: 2026, month: 1, day: 15, hour: 12, minute: 0, second: 0 };

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.split('\n').filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Whether the rendering is what the case says; else what it was.
fn check(section: Option<&[u8]>, input: &Value, case: &Value, renderer: &mut Renderer) -> Result<(), String> {
    let kind = case.get("kind").and_then(Value::as_str);
    let Some(section) = section else {
        return if kind == Some("syntax") { Ok(()) } else { Err("refused".to_owned()) };
    };
    let template = Template::parse(section).unwrap();
    match (renderer.render(&template, &input.to_string(), NOW), kind) {
        (Ok(done), None) if case["text"].as_str().map(str::as_bytes) == Some(&done.text) => Ok(()),
        (Err(refused), Some(kind)) if refused.name == kind => match case.get("message").and_then(Value::as_str) {
            Some(message) if message != refused.message => Err(refused.message),
            _ => Ok(()),
        },
        (result, _) => Err(format!("{:?}", result.map(|done| String::from_utf8_lossy(&done.text).into_owned()))),
    }
}

fn section_of(source: &str) -> Option<Vec<u8>> {
    compile(source, "", &Map::new()).ok().map(|compiled| compiled.section)
}

#[test]
fn snippets_give_what_the_reference_gives() {
    let all = lines(&root().join("fixtures/templates/snippets.jsonl"));
    let mut renderer = Renderer::default();
    let (data, snippets) = all.split_first().unwrap();
    let mut wrong = Vec::new();
    for case in snippets {
        let source = case["source"].as_str().unwrap();
        if let Err(got) = check(section_of(source).as_deref(), data, case, &mut renderer) {
            wrong.push(format!("{source}\n  wanted {case}\n  got {got}"));
        }
    }
    assert!(snippets.len() > 150);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Renders all cases of a folder; how many there were, and which templates were refused.
fn run_folder(folder: &Path) -> (usize, Vec<String>) {
    let mut by_template: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for case in lines(&folder.join("cases.jsonl")) {
        by_template.entry(case["template"].as_str().unwrap().to_owned()).or_default().push(case);
    }
    let (mut count, mut wrong, mut refused) = (0, Vec::new(), Vec::new());
    let mut renderer = Renderer::default();
    for (name, cases) in by_template {
        let source = String::from_utf8(std::fs::read(folder.join(&name)).unwrap()).unwrap();
        let section = match compile(&source, "", &Map::new()) {
            Ok(compiled) => compiled.section,
            Err(failure) => {
                refused.push(format!("{name}: {}", failure.message));
                continue;
            }
        };
        for case in cases {
            count += 1;
            if let Err(got) = check(Some(&section), &case["input"], &case, &mut renderer) {
                wrong.push(format!("{name}, {}: {got}", case["conversation"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count} wrong:\n{}", wrong.len(), wrong.join("\n"));
    (count, refused)
}

#[test]
fn own_templates_give_what_the_reference_gives() {
    let (count, refused) = run_folder(&root().join("fixtures/templates"));
    assert!(count >= 180 && refused.is_empty(), "{refused:?}");
}

#[test]
fn published_templates_give_what_the_reference_gives() {
    let shared = std::env::var_os("SHARED_DIR").map_or_else(|| root().join("../shared"), PathBuf::from);
    let folder = shared.join("data/templates");
    if !folder.join("cases.jsonl").exists() {
        eprintln!("SKIPPED published templates: ../shared not present");
        return;
    }
    let (count, refused) = run_folder(&folder);
    assert!(count > 4000);
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

fn refusal(source: &str) -> String {
    compile(source, "", &Map::new()).expect_err(source).message
}

#[test]
fn what_cannot_be_run_is_refused_with_its_place() {
    for (source, wanted) in [
        ("a\n {% include 'x' %}", "line 2, column 5: the statement `include` is not supported"),
        ("{% extends 'x' %}", "line 1, column 4: the statement `extends` is not supported"),
        ("{% for x in y recursive %}{% endfor %}", "column 15: a recursive loop is not supported"),
        ("{{ x|wordwrap }}", "column 6: the filter `wordwrap` is not supported"),
        ("{{ x is upper }}", "the test `upper` is not supported"),
        ("{{ f(**x) }}", "`**` in a call is not supported"),
        ("{{ cycler(1) }}", "the function `cycler` is not supported"),
        ("{{ 99999999999999999999 }}", "an integer beyond 64 bits is not supported"),
        ("{{ x|nonsense }}", "no filter named `nonsense`"),
        ("{{ x", "line 1, column 1: this tag has no end"),
        ("é{{ 'é' x }}", "line 1, column 9: expected `}}`"),
    ] {
        let message = refusal(source);
        assert!(message.contains(wanted), "{source}: {message}");
    }
    let deep = format!("{{{{ {}1{} }}}}", "(".repeat(5000), ")".repeat(5000));
    assert!(refusal(&deep).contains("deeper"));
    assert!(refusal(&format!("{{{{ {}1 }}}}", "1 + ".repeat(5000))).contains("deeper"));
    assert!(refusal(&"{% if 1 %}".repeat(500)).contains("deeper"));
}

#[test]
fn hostile_templates_end_at_a_limit() {
    let (mut memory, mut out, mut content) = (vec![0; 1 << 18], vec![0; 1 << 20], vec![0; 1 << 17]);
    let forever = "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}";
    let nested = "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}";
    let doubling =
        "{% set ns = namespace(s='ab') %}{% for i in range(64) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}";
    let list = "{% set ns = namespace(s=[1]) %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}{% endfor %}";
    let flood = "{% for i in range(99999) %}{% for i in range(99999) %}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{% endfor %}{% endfor %}";
    let boxes =
        "{% set ns = namespace(s=[1]) %}{% for i in range(99999) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s }}";
    let product = "{{ 'ab' * 99999999999 }}";
    let width = "{{ 'a\\nb'|indent(99999999999) }}";
    let search = "{{ ('a' * 4000000).count('a' * 2000000 ~ 'b') }}";
    let join = "{{ (('ab' * 100000)|list|join('x' * 100000)) }}";
    let previous = "{% for c in 'ab' * 100000 %}{{ loop.previtem }}{{ loop.nextitem }}{% endfor %}";
    let words = "{{ ('a ' * 100000).rsplit()|length }}{{ ('a ' * 100000).split()|length }}";
    for source in [forever, nested, doubling, list, flood, boxes, product, width, search, join, previous, words] {
        let section = section_of(source).unwrap();
        let start = std::time::Instant::now();
        let template = Template::parse(&section).unwrap();
        let result = template.render(br#"{"messages":[]}"#, NOW, &mut memory, &mut out, &mut content);
        assert!(start.elapsed().as_secs() < 60, "{source}");
        if let Err(refused) = result {
            let limits = [Code::TemplateSteps, Code::TemplateMemory, Code::TemplateStack, Code::OutputBufferExceeded];
            assert!(limits.contains(&refused.error.code()), "{source}: {refused:?}");
        }
    }
}

/// Python's `repr` of a float from Rust's shortest digits.
fn repr(value: f64) -> String {
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap();
    let exponent: i32 = exponent.parse().unwrap();
    if (-4..16).contains(&exponent) {
        return format!("{value:?}");
    }
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

#[test]
fn floats_read_and_print_as_in_the_standard_library() {
    let section = section_of("{{ a }} {{ [a]|tojson }} {{ a == b }} {{ c|float == a }}").unwrap();
    let template = Template::parse(&section).unwrap();
    let mut renderer = Renderer::default();
    let mut random = Random(7);
    let mut values = vec![0.1, 1.0, 1e16, 5e-324, f64::MAX, f64::MIN_POSITIVE, 1e22, 1e23, 9007199254740993.0, 0.3];
    values.extend([2f64.powi(-44), 2f64.powi(-1022), 2f64.powi(1023), 0.0, -0.0, 123456.789, 1e-4, 1e-5, 0.1 + 0.2]);
    for index in 0..100 {
        let bits = (random.below(1 << 31) as u64) << 33 | (random.below(1 << 31) as u64) << 2 | index & 3;
        values.push(f64::from_bits(bits));
        values.push(random.below(1 << 30) as f64 / 10f64.powi(random.below(12) as i32));
    }
    for value in values.into_iter().filter(|value| value.is_finite()) {
        let (short, long) = (format!("{value:e}"), format!("{value:.60e}"));
        let input = format!(r#"{{"vars":{{"a":{short},"b":{long},"c":"{long}"}}}}"#);
        let text = renderer.render(&template, &input, NOW).unwrap().text;
        let wanted = repr(value);
        assert_eq!(String::from_utf8(text).unwrap(), format!("{wanted} [{wanted}] True True"), "{short} {long}");
    }
    // Half way between two, and a little above; beyond the ends.
    let tie = "9007199254740993";
    for text in
        [&format!("{tie}.0"), &format!("{tie}.{}1", "0".repeat(60)), "1e400", "-1e400", "1e-400", "1e-99999999999"]
            .into_iter()
            .chain(["2.4703282292062327e-324", "2.4703282292062329e-324", "1E5", "1e+5", "0.0000001e7"])
    {
        let input = format!(r#"{{"vars":{{"a":{text},"b":{text},"c":"{text}"}}}}"#);
        let text_of = |value: f64| if value.is_infinite() { format!("{value}") } else { repr(value) };
        let done = renderer.render(&template, &input, NOW).unwrap().text;
        let done = String::from_utf8(done).unwrap();
        assert_eq!(done.split(' ').next(), Some(&*text_of(text.parse().unwrap())), "{text}");
    }
}

#[test]
fn content_is_data() {
    let source = "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content|trim|upper|replace('B', 'bb') }}{{ '%s' % m.content[:2] }}\
        {{ m.content.split('a')|join('|') }}{{ ('<' ~ m.role ~ '>')|title }}{{ m|tojson }}{{ [m.content] }}{{ host }}{% endfor %}";
    let section = section_of(source).unwrap();
    let input = r#"{"messages":[{"role":"r","content":" {{ 7*7 }}{% for %}\r\n<s>aé "}],"vars":{"bos_token":"<s>","host":"H"}}"#;
    let done = Renderer::default().render(&Template::parse(&section).unwrap(), input, NOW).unwrap();
    let text = String::from_utf8(done.text.clone()).unwrap();
    assert!(text.contains("{{ 7*7 }}{% FOR %}\r\n<S>AÉ"), "{text}");
    assert!(done.has_bos && !done.has_eos);
    let marked: String = text
        .char_indices()
        .map(|(at, c)| if tinyrustlm_core::template::bit(&done.content, at) { c } else { '~' })
        .collect();
    // What the template wrote shows as `~`, including what it put between and instead of pieces.
    let wanted = "~~~~r~{{ 7*7 }}{% FOR %}\r\n<S>AÉ { {{ 7*7 }}{% for %}\r\n<s>~é ~R~{\"role\": \"r\", \"content\": \" {{ 7*7 }}{% for %}\\r\\n<s>aé \"}~' {{ 7*7 }}{% for %}\\r\\n<s>aé '~~";
    assert_eq!(marked, wanted);
}

/// A small generator of its own, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound.max(1)
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>, pieces: &[&[u8]]) {
        for _ in 0..1 + self.below(3) {
            let at = self.below(bytes.len() + 1);
            let end = (at + self.below(12)).min(bytes.len());
            match self.below(4) {
                0 => drop(bytes.drain(at..end)),
                1 => {
                    let piece = pieces[self.below(pieces.len())];
                    drop(bytes.splice(at..at, piece.iter().copied()));
                }
                2 => {
                    let from = self.below(bytes.len());
                    let copy: Vec<u8> = bytes[from..(from + self.below(40)).min(bytes.len())].to_vec();
                    drop(bytes.splice(at..end, copy));
                }
                _ => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << self.below(7);
                    }
                }
            }
        }
    }
}

/// `TEMPLATE_MUTATIONS` of each kind: of the template's source, of the input, of the compiled section.
#[test]
fn mutations_give_a_result_or_a_number() {
    let count: usize = std::env::var("TEMPLATE_MUTATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(500);
    let folder = root().join("fixtures/templates");
    let cases = lines(&folder.join("cases.jsonl"));
    let mut random = Random(20_260_115);
    let pieces: [&[u8]; 22] = [
        b"{% for x in messages %}",
        b"{% endfor %}",
        b"{{ ",
        b" }}",
        b"{% if x %}",
        b"{% endif %}",
        b"|tojson",
        b"[::-1]",
        b"|join(',')",
        b".split('a')",
        b"loop.",
        b"namespace(",
        b"\"",
        b"'",
        b"{",
        b"}",
        b"[",
        b"]",
        b"null",
        b"\\u12",
        b"9",
        b"~",
    ];
    let mut renderer = Renderer::default();
    let (mut texts, mut errors, mut refused) = (0usize, 0usize, 0usize);
    let mut out = vec![0; 1 << 18];
    let mut content = vec![0; 1 << 15];
    let mut memory = vec![0; 1 << 17];
    for _ in 0..count {
        let case = &cases[random.below(cases.len())];
        let original = std::fs::read(folder.join(case["template"].as_str().unwrap())).unwrap();
        let input = case["input"].to_string();

        let mut source = original.clone();
        random.mutate(&mut source, &pieces);
        match section_of(&String::from_utf8_lossy(&source)) {
            None => refused += 1,
            Some(section) => match renderer.render(&Template::parse(&section).unwrap(), &input, NOW) {
                Ok(_) => texts += 1,
                Err(_) => errors += 1,
            },
        }

        let mut section = section_of(&String::from_utf8_lossy(&original)).unwrap();
        let template = Template::parse(&section).unwrap();
        let mut damaged = input.clone().into_bytes();
        random.mutate(&mut damaged, &pieces);
        match template.render(&damaged, NOW, &mut memory, &mut out, &mut content) {
            Ok(_) => texts += 1,
            Err(_) => errors += 1,
        }

        // Damage the program itself, not the source that only lies beside it.
        for _ in 0..1 + random.below(4) {
            let limit = section.len() - original.len();
            let at = random.below(limit);
            section[at] = random.below(256) as u8;
        }
        match Template::parse(&section) {
            Err(_) => refused += 1,
            Ok(template) => match template.render(input.as_bytes(), NOW, &mut memory, &mut out, &mut content) {
                Ok(_) => texts += 1,
                Err(_) => errors += 1,
            },
        }
    }
    eprintln!("{} mutations: {texts} texts, {errors} errors, {refused} refused", 3 * count);
    assert_eq!(texts + errors + refused, 3 * count);
}

#[test]
fn small_memory_is_an_error_not_a_wrong_text() {
    let source = std::fs::read_to_string(root().join("fixtures/templates/thinking.jinja")).unwrap();
    let section = section_of(&source).unwrap();
    let template = Template::parse(&section).unwrap();
    let input = r#"{"messages":[{"role":"user","content":"Hi"}],"add_generation_prompt":true}"#;
    let wanted = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
    let mut rendered = 0;
    for words in 0..600 {
        let (mut memory, mut out, mut content) = (vec![0; 4 * words], vec![0; 200], vec![0; 25]);
        match template.render(input.as_bytes(), NOW, &mut memory, &mut out, &mut content) {
            Ok(done) => {
                assert_eq!(&out[..done.len], wanted.as_bytes());
                rendered += 1;
            }
            Err(refusal) => {
                assert!(matches!(
                    refusal.error.code(),
                    Code::TemplateMemory | Code::TemplateStack | Code::TemplateDamaged
                ))
            }
        }
    }
    assert!(rendered > 0);
    for length in 0..wanted.len() {
        let (mut memory, mut out, mut content) = (vec![0; 8000], vec![0; length], vec![0; 25]);
        let refusal = template.render(input.as_bytes(), NOW, &mut memory, &mut out, &mut content).unwrap_err();
        assert_eq!(refusal.error.code(), Code::OutputBufferExceeded);
    }
}
