//! The table of candidates of one token.

use serde_json::Value;

/// One line of what was chosen, then a row per candidate.
pub fn table(step: &Value) -> String {
    let number = |v: &Value| v.as_f64().map_or("-".to_string(), |x| format!("{x:.4}"));
    let text = |v: &Value| format!("{:?}", v["text"].as_str().unwrap_or(""));
    let mut out = format!(
        "position {}: {} {}  p {}  survivors {}  lost mass {}",
        step["position"],
        step["id"],
        text(step),
        number(&step["probability"]),
        step["survivors"],
        number(&step["lost_mass"]),
    );
    match step["draw"].as_f64() {
        Some(draw) => out += &format!("  draw {:.6}\n", draw / 4_294_967_296.0),
        None => out += "  greedy\n",
    }
    out += "        id      logit      score  probability  cut       text\n";
    for c in step["candidates"].as_array().into_iter().flatten() {
        let chosen = if c["id"] == step["id"] { '>' } else { ' ' };
        out += &format!(
            "  {chosen}{:>7} {:>10} {:>10} {:>12}  {:<9} {}\n",
            c["id"].to_string(),
            number(&c["logit"]),
            number(&c["score"]),
            number(&c["probability"]),
            c["cut"].as_str().unwrap_or("-"),
            text(c),
        );
    }
    out
}
