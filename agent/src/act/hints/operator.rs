//! The operators of hints, as `oslo.utils` `specs_matcher` has them.

/// Operators of several texts or numbers.
const WORDS: [&str; 4] = ["<all-in>", "<range-in>", "<or>", "<in>"];
/// The other operators, of texts and of numbers; those that begin with another one before it.
const SIGNS: [&str; 13] =
    ["s==", "s!=", "s<=", "s<", "s>=", "s>", "==", "=", "!=", "<=", "<", ">=", ">"];

/// The comparison of a value with the wanted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    Equal,
    NotEqual,
    AtLeast,
    MoreThan,
    AtMost,
    LessThan,
}

impl Relation {
    pub(super) fn is_met<T: Ord + ?Sized>(self, found: &T, wanted: &T) -> bool {
        match self {
            Self::Equal => found == wanted,
            Self::NotEqual => found != wanted,
            Self::AtLeast => found >= wanted,
            Self::MoreThan => found > wanted,
            Self::AtMost => found <= wanted,
            Self::LessThan => found < wanted,
        }
    }
}

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
        "==" => Relation::Equal,
        "!=" => Relation::NotEqual,
        ">=" => Relation::AtLeast,
        ">" => Relation::MoreThan,
        "<=" => Relation::AtMost,
        "<" => Relation::LessThan,
        _ => return None,
    })
}
