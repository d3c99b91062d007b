//! Settings that a topic needs to keep all messages and their order for ever, and the check that a topic has them.

/// Minimum value of `max.message.bytes` of the topic, in bytes: enough for a message of 900 kB with Kafka's overhead.
pub const MESSAGE_BYTES: u64 = 1_000_000;
/// Minimum number of replicas of a record.
pub const REPLICAS: usize = 3;
/// Minimum number of replicas that must have a record before it is acknowledged.
pub const IN_SYNC: u64 = 2;

/// Settings of a topic as the broker reports them, including those that the topic inherits from the broker.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Name and value of each setting.
    pub values: Vec<(String, String)>,
    /// Number of replicas of the partition.
    pub replicas: usize,
    /// Number of partitions.
    pub partitions: usize,
}

/// Settings with which a new topic is created. The number of replicas is set separately.
pub const NEW_TOPIC_SETTINGS: &[(&str, &str)] = &[
    ("cleanup.policy", "delete"),
    ("max.message.bytes", "1048588"),
    ("retention.bytes", "-1"),
    ("retention.ms", "-1"),
    ("unclean.leader.election.enable", "false"),
];

impl Settings {
    /// Returns a description of each weak setting, with the value that it should have.
    pub fn weaknesses(&self) -> Vec<String> {
        let mut weak = Vec::new();
        let mut must = |name: &str, should: &str, is_good: &dyn Fn(&str) -> bool| match self.get(name) {
            Some(value) if is_good(value) => {}
            Some(value) => weak.push(format!("{name} = {value}, should be {should}")),
            None => weak.push(format!(
                "{name} is not reported by the broker, should be {should}"
            )),
        };
        must("retention.ms", "-1", &|value| value == "-1");
        must("retention.bytes", "-1", &|value| value == "-1");
        must("cleanup.policy", "delete", &|value| value == "delete");
        must("unclean.leader.election.enable", "false", &|value| {
            value == "false"
        });
        let at_least = |least: u64| move |value: &str| value.parse::<u64>().is_ok_and(|value| value >= least);
        must("min.insync.replicas", "2 or more", &at_least(IN_SYNC));
        must("max.message.bytes", "1000000 or more", &at_least(MESSAGE_BYTES));
        if self.replicas < REPLICAS {
            weak.push(format!(
                "replication.factor = {}, should be 3 or more",
                self.replicas
            ));
        }
        if self.partitions != 1 {
            weak.push(format!(
                "{} partitions, should be 1: only the first is used",
                self.partitions
            ));
        }
        weak
    }

    fn get(&self, name: &str) -> Option<&str> {
        let found = self.values.iter().find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Returns the number of replicas for a new topic with this number of brokers, and the number of replicas that must
/// have a record before it is acknowledged.
pub fn replication(brokers: usize) -> (usize, u64) {
    let replicas = brokers.clamp(1, REPLICAS);
    (replicas, IN_SYNC.min((replicas as u64).saturating_sub(1)).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Settings {
        let created = NEW_TOPIC_SETTINGS.iter().chain(&[("min.insync.replicas", "2")]);
        Settings {
            values: created
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect(),
            replicas: 3,
            partitions: 1,
        }
    }

    #[test]
    fn a_topic_that_a_node_creates_on_three_brokers_has_no_weakness() {
        assert_eq!(good().weaknesses(), Vec::<String>::new());
    }

    #[test]
    fn each_weak_setting_is_named() {
        for (name, value) in [
            ("retention.ms", "604800000"),
            ("retention.bytes", "1073741824"),
            ("cleanup.policy", "compact"),
            ("cleanup.policy", "compact,delete"),
            ("unclean.leader.election.enable", "true"),
            ("min.insync.replicas", "1"),
            ("max.message.bytes", "900000"),
        ] {
            let mut settings = good();
            settings.values.retain(|(found, _)| found != name);
            let weak = settings.weaknesses();
            assert!(
                weak.len() == 1 && weak[0].starts_with(&format!("{name} is not reported")),
                "{weak:?}"
            );
            settings.values.push((name.into(), value.into()));
            let weak = settings.weaknesses();
            assert!(
                weak.len() == 1 && weak[0].starts_with(&format!("{name} = {value}, ")),
                "{weak:?}"
            );
        }
        for (replicas, partitions) in [(2, 1), (3, 2), (3, 0)] {
            let settings = Settings {
                replicas,
                partitions,
                ..good()
            };
            assert_eq!(settings.weaknesses().len(), 1);
        }
    }

    #[test]
    fn a_new_topic_has_up_to_three_replicas() {
        assert_eq!(
            [0, 1, 2, 3, 9].map(replication),
            [(1, 1), (1, 1), (2, 1), (3, 2), (3, 2)]
        );
    }
}
