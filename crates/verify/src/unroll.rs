//! Loops that are written out, for functions that are inlined into every stage.

/// Repeats a block with a variable that has each of the listed numbers in turn.
///
/// The functions of the fields are inlined, so a stage contains thousands of their loops. The compiler would unroll
/// each of these loops, and each time look through the whole stage again, which takes minutes.
macro_rules! unroll {
    ($i:ident in [$($number:literal),*] $body:block) => {
        $({
            let $i: usize = $number;
            $body
        })*
    };
}

/// Makes an array of a value for each of the listed numbers.
macro_rules! array {
    ($i:ident in [$($number:literal),*] => $value:expr) => {
        [$({
            let $i: usize = $number;
            $value
        }),*]
    };
}

pub(crate) use {array, unroll};
