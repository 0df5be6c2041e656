//! Runs of one script, for the UnicodeScripts pre-tokenizer.

use super::pattern::Node;
use super::sets::Set;
use super::unicode;

/// The pattern of a run: one script, and spaces and unassigned characters inside it.
///
/// The reference takes Hiragana, Katakana and the prolonged sound mark as Han, and the space as any script. What comes
/// before the first character of a script is in no run.
pub fn runs() -> Node {
    let mark = Set::char('\u{30FC}');
    let mut scripts: Vec<Set> = Vec::new();
    let mut han = mark.clone();
    let mut assigned = Set::default();
    for (name, set) in unicode::scripts() {
        let set = set.intersection(&Set::char(' ').union(&mark).complement());
        assigned = assigned.union(&set);
        match name {
            "Han" | "Hiragana" | "Katakana" => han = han.union(&set),
            _ => scripts.push(set),
        }
    }
    let any = assigned.union(&mark).complement();
    scripts.push(han);
    Node::Alternation(
        scripts
            .into_iter()
            .filter(|set| !set.is_empty())
            .map(|set| {
                let inside = Node::Class(set.union(&any));
                let more = Node::Repeat { node: Box::new(inside), min: 0, max: None, greedy: true };
                Node::Concat(vec![Node::Class(set), more])
            })
            .collect(),
    )
}
