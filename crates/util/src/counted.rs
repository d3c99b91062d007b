//! Numbers with the nouns that they count, for messages.

use std::fmt::Display;

/// Returns a number with the noun that it counts, such as `1 block` or `2 blocks`. `what` is the singular.
pub fn counted(number: impl Display, what: &str) -> String {
    let number = number.to_string();
    let plural = if number == "1" { "" } else { "s" };
    format!("{number} {what}{plural}")
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn only_one_thing_is_singular() {
        assert_eq!(counted(0, "block"), "0 blocks");
        assert_eq!(counted(1_u64, "block"), "1 block");
        assert_eq!(counted(11, "transaction id"), "11 transaction ids");
    }
}
