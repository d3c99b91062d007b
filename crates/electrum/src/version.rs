//! Versions of the Electrum protocol, and their negotiation.
//!
//! Source: docs/protocol-basics.rst and docs/protocol-changes.rst of spesmilo/electrum-protocol, commit 6fdb11f.

use crate::request::shorten;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Supported versions of the protocol, in ascending order. A version 1.5 does not exist. 1.4.3 adds only a method for
/// name coins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    V1_4,
    V1_4_1,
    V1_4_2,
    V1_4_3,
    V1_6,
}

impl Version {
    const ALL: [(Version, &str, [u32; 3]); 5] = [
        (Version::V1_4, "1.4", [1, 4, 0]),
        (Version::V1_4_1, "1.4.1", [1, 4, 1]),
        (Version::V1_4_2, "1.4.2", [1, 4, 2]),
        (Version::V1_4_3, "1.4.3", [1, 4, 3]),
        (Version::V1_6, "1.6", [1, 6, 0]),
    ];

    /// Returns the version's name in messages of the protocol.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// Range of versions that a client offers with `server.version`. Other parameters are ignored, as 1.6 requires.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    min: [u32; 3],
    max: [u32; 3],
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Versions {
    One(String),
    Range(String, String),
}

#[derive(serde::Deserialize)]
struct NamedVersion<'a> {
    #[serde(borrow, default)]
    protocol_version: Option<&'a RawValue>,
}

impl Offer {
    /// Reads the parameters of `server.version`.
    ///
    /// # Errors
    /// Explanation why the offered version is invalid.
    pub fn read(params: Option<&str>) -> Result<Self, Cow<'static, str>> {
        let params = params.unwrap_or("[]");
        let wrong =
            || Cow::from("protocol_version must be a version or an array of two, such as [\"1.4\", \"1.6\"]");
        let version = match params.starts_with('{') {
            true => serde_json::from_str::<NamedVersion>(params).map(|named| named.protocol_version),
            false => serde_json::from_str::<Vec<&RawValue>>(params).map(|array| array.get(1).copied()),
        };
        let version = version.map_err(|_| wrong())?;
        let (min, max) = match version.map(|version| serde_json::from_str(version.get())) {
            None => ("1.4".into(), "1.4".into()),
            Some(Ok(Versions::One(one))) => (one.clone(), one),
            Some(Ok(Versions::Range(min, max))) => (min, max),
            Some(Err(_)) => return Err(wrong()),
        };
        let read = |text: &str| numbers(text).ok_or_else(wrong);
        Ok(Self {
            min: read(&min)?,
            max: read(&max)?,
        })
    }

    /// Returns the highest supported version of the offer that is not above `limit`.
    pub fn choose(&self, limit: Version) -> Option<Version> {
        let mut common = Version::ALL.iter().rev().filter(|(version, _, numbers)| {
            *version <= limit && self.min <= *numbers && *numbers <= self.max
        });
        common.next().map(|(version, ..)| *version)
    }

    /// Returns the explanation for a client whose offer has no version in common with this server.
    pub fn refusal(params: Option<&str>) -> String {
        format!(
            "unsupported protocol version: {}",
            shorten(params.unwrap_or("none"))
        )
    }
}

/// Reads the numbers of `1`, `1.4` or `1.4.2`.
fn numbers(text: &str) -> Option<[u32; 3]> {
    let mut numbers = [0; 3];
    let mut places = numbers.iter_mut();
    for part in text.split('.') {
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        *places.next()? = part.parse().ok().filter(|_| is_number)?;
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(params: &str) -> Option<&'static str> {
        let offer = Offer::read(Some(params)).expect(params);
        offer.choose(Version::V1_6).map(Version::name)
    }

    #[test]
    fn the_highest_common_version_is_chosen() {
        for (params, expected) in [
            (r#"[]"#, Some("1.4")),
            (r#"["client"]"#, Some("1.4")),
            (r#"["client", "1.4"]"#, Some("1.4")),
            (r#"["client", "1.4.0"]"#, Some("1.4")),
            (r#"["client", ["1.4", "1.4.2"]]"#, Some("1.4.2")),
            (r#"["client", ["1.4", "1.5"]]"#, Some("1.4.3")),
            (r#"["client", ["1.1", "1.7"]]"#, Some("1.6")),
            (
                r#"["client", ["1.4", "1.6"], "more", 9999.9, {"x": {}}]"#,
                Some("1.6"),
            ),
            (
                r#"{"protocol_version": "1.6", "client_name": "", "dd": {}}"#,
                Some("1.6"),
            ),
            (r#"{}"#, Some("1.4")),
            (r#"["client", "1.5"]"#, None),
            (r#"["client", ["1.6.1", "1.9"]]"#, None),
            (r#"["client", "1.3"]"#, None),
            (r#"["client", ["1.6", "1.4"]]"#, None),
        ] {
            assert_eq!(chosen(params), expected, "{params}");
        }
    }

    #[test]
    fn invalid_versions_are_refused() {
        for params in [
            r#"["client", 1.4]"#,
            r#"["client", "1.x"]"#,
            r#"["client", ""]"#,
            r#"["client", "1.4.2.1"]"#,
            r#"["client", "+1.4"]"#,
            r#"["client", ["1.4"]]"#,
            r#"["client", "99999999999"]"#,
        ] {
            assert!(Offer::read(Some(params)).is_err(), "{params}");
        }
    }

    #[test]
    fn names_and_numbers_agree_and_ascend() {
        for (index, (version, name, parts)) in Version::ALL.iter().enumerate() {
            assert_eq!(*version as usize, index);
            assert_eq!(numbers(name), Some(*parts));
        }
        assert!(Version::ALL.is_sorted_by_key(|(_, _, parts)| *parts));
    }
}
