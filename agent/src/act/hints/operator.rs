//! The operators of hints, as `oslo.utils` `specs_matcher` has them.

use std::cmp::Ordering;

/// Operators of several texts or numbers.
const WORDS: [&str; 4] = ["<all-in>", "<range-in>", "<or>", "<in>"];
/// The other operators, of texts and of numbers; those that begin with another one before it.
const SIGNS: [&str; 13] =
    ["s==", "s!=", "s<=", "s<", "s>=", "s>", "==", "=", "!=", "<=", "<", ">=", ">"];

/// A comparison: the orders of a value and the wanted one that meet it.
pub(super) type Relation = &'static [Ordering];

pub(super) const EQUAL: Relation = &[Ordering::Equal];
pub(super) const NOT_EQUAL: Relation = &[Ordering::Less, Ordering::Greater];
pub(super) const AT_LEAST: Relation = &[Ordering::Equal, Ordering::Greater];

/// The operator at the beginning of a hint and what follows it; no operator: empty. As in Ironic, no blank is needed
/// between the two: `>=200` is an operator too.
pub(super) fn split_operator(text: &str) -> (&str, &str) {
    let mut operators = WORDS.iter().chain(&SIGNS);
    let found = operators.find_map(|operator| Some((*operator, text.strip_prefix(operator)?)));
    found.map_or(("", text), |(operator, rest)| (operator, rest.trim()))
}

/// The relation that an operator of numbers means, or one of texts without its first letter.
pub(super) fn relation(operator: &str) -> Option<Relation> {
    Some(match operator {
        "==" => EQUAL,
        "!=" => NOT_EQUAL,
        ">=" => AT_LEAST,
        ">" => &[Ordering::Greater],
        "<=" => &[Ordering::Less, Ordering::Equal],
        "<" => &[Ordering::Less],
        _ => return None,
    })
}
