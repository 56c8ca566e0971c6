//! One folder for each fleet or source of orders: its wire format becomes an order of [`crate::act`], and an outcome is
//! converted into its format. Each gives its own word for every [`crate::act::say::Term`].

pub mod assisted;
mod confirm;
pub mod inspector;
pub mod ironic;
pub mod offline;
pub mod vim;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::act::say::{Term, Words, plain, say};

    #[test]
    fn term_is_the_word_of_the_engine_and_foreign_text_stays_as_it_is() {
        let foreign = "sda (serial the order the instruction)".to_owned();
        let said = say!["no disk matches what ", Term::Order, " asks for; seen: ", foreign];
        for (words, word) in [
            (vim::words as Words, "the instruction"),
            (offline::words, "the configuration"),
            (ironic::words, "instance_info"),
            (assisted::words, "the service"),
            (plain, "the order"),
        ] {
            let expected = format!(
                "no disk matches what {word} asks for; seen: sda (serial the order the instruction)"
            );
            assert_eq!(said.in_words(words), expected);
        }
    }
}
