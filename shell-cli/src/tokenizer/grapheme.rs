//! Grapheme clusters as a pattern, for precompiled character maps, which look short clusters up whole.
//!
//! The classes are asked of the crate the reference uses, so that they are of its Unicode version.

use super::pattern::Node;
use super::sets::Set;
use unicode_segmentation::UnicodeSegmentation;

/// Whether the characters form one cluster.
fn joined(parts: &[char]) -> bool {
    let text: String = parts.iter().collect();
    text.graphemes(true).count() == 1
}

fn repeat(node: Node, min: u32) -> Node {
    Node::Repeat { node: Box::new(node), min, max: None, greedy: true }
}

fn optional(node: Node) -> Node {
    Node::Repeat { node: Box::new(node), min: 0, max: Some(1), greedy: true }
}

/// The pattern that matches one extended grapheme cluster at any place.
pub fn cluster() -> Node {
    const VIRAMA: char = '\u{94D}';
    const KA: char = '\u{915}';
    const JOINER: char = '\u{200D}';
    const HEART: char = '\u{2764}';
    let class = |set: &Set| Node::Class(set.clone());
    let control = Set::of(|c| !joined(&['a', c]) && !joined(&[c, '\u{301}']));
    let after = Set::of(|c| joined(&['a', c]));
    let before = Set::of(|c| c != '\r' && joined(&[c, 'a']));
    let region = Set::of(|c| joined(&['\u{1F1E6}', c]) && !joined(&['a', c]));
    let l = Set::of(|c| joined(&[c, '\u{AC00}']) && !joined(&[c, 'a']));
    let v = Set::of(|c| joined(&['\u{1100}', c]) && joined(&['\u{1161}', c]) && !joined(&['a', c]));
    let t = Set::of(|c| joined(&['\u{AC01}', c]) && !joined(&['a', c]));
    let lv = Set::of(|c| joined(&['\u{1100}', c]) && joined(&[c, '\u{1161}']) && !joined(&['a', c]))
        .intersection(&Set::of(|c| ('\u{AC00}'..='\u{D7A3}').contains(&c)));
    let lvt = Set::of(|c| ('\u{AC00}'..='\u{D7A3}').contains(&c)).intersection(&lv.complement());
    let picture = Set::of(|c| joined(&[HEART, JOINER, c]) && !joined(&['a', c]));
    // What may stand between two pictures before the joiner: Extend.
    let extend = Set::of(|c| joined(&['a', c]) && joined(&[HEART, c, JOINER, HEART]));
    let consonant = Set::of(|c| joined(&[KA, VIRAMA, c]) && !joined(&['a', c]) && joined(&[c, VIRAMA, KA]));
    let linker = Set::of(|c| joined(&['a', c]) && joined(&[KA, c, KA]));
    let conjunct_extend = Set::of(|c| joined(&['a', c]) && joined(&[KA, c, VIRAMA, KA]));

    let hangul = Node::Alternation(vec![
        Node::Concat(vec![
            repeat(class(&l), 0),
            Node::Alternation(vec![
                repeat(class(&v), 1),
                Node::Concat(vec![class(&lv), repeat(class(&v), 0)]),
                class(&lvt),
            ]),
            repeat(class(&t), 0),
        ]),
        repeat(class(&l), 1),
        repeat(class(&t), 1),
    ]);
    let pictures = Node::Concat(vec![
        class(&picture),
        repeat(Node::Concat(vec![repeat(class(&extend), 0), Node::Class(Set::char(JOINER)), class(&picture)]), 0),
    ]);
    let conjunct = Node::Concat(vec![
        class(&consonant),
        repeat(
            Node::Concat(vec![
                repeat(class(&conjunct_extend), 0),
                class(&linker),
                repeat(class(&conjunct_extend), 0),
                class(&consonant),
            ]),
            0,
        ),
    ]);
    let other = control.complement();
    let core = Node::Alternation(vec![
        hangul,
        Node::Concat(vec![class(&region), class(&region)]),
        pictures,
        conjunct,
        class(&other),
    ]);
    Node::Alternation(vec![
        Node::Concat(vec![Node::Class(Set::char('\r')), Node::Class(Set::char('\n'))]),
        Node::Class(control),
        Node::Concat(vec![repeat(class(&before), 0), core, repeat(class(&after), 0)]),
        Node::Concat(vec![repeat(class(&before), 1), optional(class(&after))]),
        Node::Class(Set::all()),
    ])
}
