//! The operators of hints, as `oslo.utils` `specs_matcher` has them.

/// Every operator, those that begin with another one before it.
const OPERATORS: [&str; 17] = [
    "<all-in>",
    "<range-in>",
    "<or>",
    "<in>",
    "s==",
    "s!=",
    "s<=",
    "s<",
    "s>=",
    "s>",
    "==",
    "=",
    "!=",
    "<=",
    "<",
    ">=",
    ">",
];

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
    let found =
        OPERATORS.iter().find_map(|operator| Some((*operator, text.strip_prefix(operator)?)));
    found.map_or(("", text), |(operator, rest)| (operator, rest.trim()))
}

pub(super) fn text_order(operator: &str) -> Option<Relation> {
    Some(match operator {
        "s==" => Relation::Equal,
        "s!=" => Relation::NotEqual,
        "s>=" => Relation::AtLeast,
        "s>" => Relation::MoreThan,
        "s<=" => Relation::AtMost,
        "s<" => Relation::LessThan,
        _ => return None,
    })
}

/// Orders of numbers; a single `=` means "at least", as it always has in Ironic.
pub(super) fn number_order(operator: &str) -> Option<Relation> {
    Some(match operator {
        "==" => Relation::Equal,
        "!=" => Relation::NotEqual,
        "=" | ">=" => Relation::AtLeast,
        ">" => Relation::MoreThan,
        "<=" => Relation::AtMost,
        "<" => Relation::LessThan,
        _ => return None,
    })
}
