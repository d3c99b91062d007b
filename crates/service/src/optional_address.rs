//! Address in a configuration that may be left empty.

use crate::address::{self, AddressError};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::str::FromStr;

/// Address and port to listen on. The empty string means that the service does not listen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OptionalAddress(pub Option<SocketAddr>);

impl TryFrom<String> for OptionalAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for OptionalAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self(None));
        }
        match address::parse(text) {
            Ok(address) => Ok(Self(Some(address))),
            Err(AddressError::Form(why)) => Err(format!("must be an address and a port, or empty: {why}")),
            Err(why) => Err(why.to_string()),
        }
    }
}

impl From<OptionalAddress> for String {
    fn from(listen: OptionalAddress) -> Self {
        listen.0.map(|address| address.to_string()).unwrap_or_default()
    }
}
