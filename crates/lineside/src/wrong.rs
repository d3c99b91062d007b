//! Arguments that are wrong in a way that clap does not see: the command ends with 2, as for those that it sees.

use std::fmt;

/// What is wrong with the arguments.
#[derive(Debug)]
pub struct Wrong(pub String);

impl std::error::Error for Wrong {}

impl fmt::Display for Wrong {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}
