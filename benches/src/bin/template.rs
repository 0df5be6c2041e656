//! What rendering a conversation costs: `template [MESSAGES] FILE.jinja|MODEL.slm...`, 20 messages by default.

use std::path::Path;
use tinyrustlm::core::template::Now;
use tinyrustlm::measure::median;
use tinyrustlm_benches::timed;
use tinyrustlm_cli::template::{self, Renderer};

const NOW: Now = Now { year: 2026, month: 1, day: 15, hour: 12, minute: 0, second: 0 };
const TURN: [&str; 2] = [
    "How do I read a file line by line in Rust, without loading all of it, and what happens at a line that is not UTF-8?",
    "Wrap the file in a BufReader and call `lines()`: each item is a Result, so a line that is not UTF-8 comes as an error \
     of kind InvalidData.\n\n```rust\nfor line in BufReader::new(File::open(path)?).lines() {\n    println!(\"{}\", line?);\n}\n```\n",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let count = match arguments.first().and_then(|first| first.parse().ok()) {
        Some(count) => {
            arguments.remove(0);
            count
        }
        None => 20,
    };
    let mut messages = vec![serde_json::json!({"role": "system", "content": "You are a helpful assistant."})];
    for at in 0..count - 1 {
        let role = ["user", "assistant"][at % 2];
        messages.push(serde_json::json!({"role": role, "content": TURN[at % 2]}));
    }
    let input = serde_json::json!({"messages": messages, "add_generation_prompt": true}).to_string();
    for path in &arguments {
        let path = Path::new(path);
        let opened = match path.extension().is_some_and(|extension| extension == "jinja") {
            true => template::open_file(path, None),
            false => template::open(path, None),
        };
        let opened = opened.map_err(|failure| failure.message)?;
        let template = opened.template().map_err(|failure| failure.message)?;
        let mut renderer = Renderer::default();
        let mut times = Vec::new();
        let mut len = 0;
        let mut refused = None;
        for _ in 0..200 {
            let (seconds, rendered) = timed(|| renderer.render(&template, &input, NOW).map(|text| text.text.len()));
            match rendered {
                Ok(bytes) => len = bytes,
                Err(why) => refused = Some(why.message),
            }
            times.push(seconds);
        }
        let outcome = refused.map_or(format!("{len} bytes"), |why| format!("refused: {why}"));
        println!("{:<60} {count} messages, {outcome}, {:.0} us", path.display(), median(times) * 1e6);
    }
    Ok(())
}
