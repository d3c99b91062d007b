//! Address of a log: `kafka://host:port[,host:port][/topic]`.

use lineside_messages::hybrid::request::DatabaseId;
use std::str::FromStr;

/// Address of a log in Kafka.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Addresses of some brokers, as `host:port`, separated by commas.
    pub brokers: String,
    /// Name of the topic; `None`: the database's own topic, see [`Address::topic_of`].
    pub topic: Option<String>,
}

/// Error for a string that is not an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadAddress(String);

impl std::fmt::Display for BadAddress {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "`{}` is not an address of the form kafka://host:port[,host:port][/topic]",
            self.0
        )
    }
}

impl std::error::Error for BadAddress {}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Address, BadAddress> {
        let bad = || BadAddress(text.into());
        let rest = text.strip_prefix("kafka://").ok_or_else(bad)?;
        let (brokers, topic) = match rest.split_once('/') {
            Some((brokers, topic)) => (brokers, Some(topic)),
            None => (rest, None),
        };
        let is_broker = |broker: &str| {
            let parts = broker.rsplit_once(':');
            parts.is_some_and(|(host, port)| {
                !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
            })
        };
        // Kafka's rules for the name of a topic.
        let is_name = |name: &str| {
            let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            (1..=249).contains(&name.len()) && name != "." && name != ".." && name.bytes().all(is_legal)
        };
        if !brokers.split(',').all(is_broker) || !topic.is_none_or(is_name) {
            return Err(bad());
        }
        Ok(Address {
            brokers: brokers.into(),
            topic: topic.map(Into::into),
        })
    }
}

impl Address {
    /// Returns the topic's name: the one in the address, or else `lineside-hybrid-` and the database's id in hex.
    pub fn topic_of(&self, database: &DatabaseId) -> String {
        match &self.topic {
            Some(topic) => topic.clone(),
            None => format!("lineside-hybrid-{:032x}", u128::from_be_bytes(*database)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_brokers_and_perhaps_a_topic() {
        let of = |text: &str| text.parse::<Address>();
        let address = of("kafka://a:9092,[::1]:9093").unwrap();
        assert_eq!(address.brokers, "a:9092,[::1]:9093");
        let mut database = [0; 16];
        database[0] = 0xab;
        assert_eq!(
            address.topic_of(&database),
            format!("lineside-hybrid-ab{}", "0".repeat(30))
        );
        assert_eq!(
            of("kafka://a:1/our.ledger").unwrap().topic_of(&database),
            "our.ledger"
        );
        for bad in [
            "a:9092",
            "kafka://",
            "kafka://a",
            "kafka://a:0",
            "kafka://a:9092,",
            "kafka://a:1/",
            "kafka://a:1/x/y",
        ] {
            assert_eq!(of(bad), Err(BadAddress(bad.into())));
        }
    }
}
