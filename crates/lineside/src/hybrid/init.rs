//! `lineside hybrid init`: makes the genesis of a database. All nodes and clients need the same file, byte for byte.

use super::key;
use crate::column::text;
use crate::key_file::CurveName;
use crate::wrong::Wrong;
use anyhow::{Context, bail};
use clap::Args;
use lineside_client::hybrid::change::{KeyBytes, Rights, Role};
use lineside_client::hybrid::genesis::{FirstMember, FirstRule, Genesis, database_id};
use lineside_client::hybrid::signing::unix_ms;
use lineside_hybrid::execute::{Chain, GenesisError};
use lineside_hybrid::membership::ChangeError;
use lineside_hybrid_node::service::PAPER_MODE_WARNING;
use lineside_util::hex::to_hex;
use lineside_wire::HYBRID_EVERYONE;
use serde::Deserialize;
use serde_json::json;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Create the genesis of a new database, and the keys that do not exist yet.
///
/// Members, nodes and rules come from the options, or from a TOML file (--from).
#[derive(Args)]
pub struct Init {
    /// File for the genesis, which must not exist.
    #[arg(long, value_name = "FILE", default_value = "genesis.bin")]
    genesis: PathBuf,
    /// Read everything from this TOML file; docs/hybrid.md shows one.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "members", "nodes", "rules", "quorum", "paper"])]
    from: Option<PathBuf>,
    /// Name of the database, for people.
    #[arg(long, default_value = "hybrid")]
    name: String,
    /// Member, numbered from 1 on in the given order; may be given more than once. KEY is a key file, which is created
    /// if missing, or a public key as CURVE:HEX. `:admin` lets the member vote on changes.
    #[arg(long = "member", value_name = "NAME=KEY[:admin]")]
    members: Vec<String>,
    /// Key of a node, in the form of a member's key; nodes are numbered from 1 on. May be given more than once.
    #[arg(long = "node", value_name = "KEY", default_value = "node.key")]
    nodes: Vec<String>,
    /// Rights on keys with a prefix: WHO is a member's name, or * for everyone; RIGHTS are r, w or rw. May be given
    /// more than once. Without any rule, everyone may read and write everything.
    #[arg(long = "rule", value_name = "PREFIX=WHO:RIGHTS")]
    rules: Vec<String>,
    /// Number of admins that must request a change of members, rules or nodes.
    #[arg(long, value_name = "ADMINS", default_value_t = 1)]
    quorum: u16,
    /// Put the database in the paper's mode, permanently. It then accepts only the paper's requests for reads and
    /// writes, which are less secure: they can be replayed, and are signed without the lengths of their fields.
    #[arg(long)]
    paper: bool,
}

/// Genesis as described by a TOML file or the options.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GenesisSpec {
    name: String,
    quorum: u16,
    #[serde(rename = "member")]
    members: Vec<WantedMember>,
    #[serde(rename = "node")]
    nodes: Vec<WantedNode>,
    #[serde(rename = "rule", default)]
    rules: Vec<WantedRule>,
    #[serde(default)]
    paper: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedMember {
    name: String,
    key: String,
    #[serde(default)]
    admin: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedNode {
    key: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedRule {
    prefix: String,
    member: String,
    rights: String,
}

fn wrong(what: impl Into<String>) -> anyhow::Error {
    Wrong(what.into()).into()
}

/// Parses rights: r, w, rw, or - for none.
///
/// # Errors
/// The text is something else; the error lists the allowed values.
pub fn rights(text: &str) -> Result<Rights, String> {
    let (read, write) = match text {
        "r" => (true, false),
        "w" => (false, true),
        "rw" => (true, true),
        "-" => (false, false),
        _ => return Err(format!("rights are r, w, rw or -, not {text:?}")),
    };
    Ok(Rights { read, write })
}

impl Init {
    fn genesis_spec(&self) -> anyhow::Result<GenesisSpec> {
        if let Some(file) = &self.from {
            let text = fs::read_to_string(file);
            let text = text.map_err(|error| wrong(format!("{}: {error}", file.display())))?;
            return toml::from_str(&text).map_err(|error| wrong(format!("{}: {error}", file.display())));
        }
        let member = |text: &String| {
            let parts = text.split_once('=');
            let (name, key) =
                parts.ok_or_else(|| wrong(format!("--member {text}: write NAME=KEY or NAME=KEY:admin")))?;
            let admin = key.strip_suffix(":admin");
            anyhow::Ok(WantedMember {
                name: name.into(),
                key: admin.unwrap_or(key).into(),
                admin: admin.is_some(),
            })
        };
        let rule = |text: &String| {
            let parts = text
                .rsplit_once('=')
                .and_then(|(prefix, of)| Some((prefix, of.split_once(':')?)));
            let (prefix, (member, rights)) =
                parts.ok_or_else(|| wrong(format!("--rule {text}: write PREFIX=WHO:RIGHTS")))?;
            anyhow::Ok(WantedRule {
                prefix: prefix.into(),
                member: member.into(),
                rights: rights.into(),
            })
        };
        Ok(GenesisSpec {
            name: self.name.clone(),
            quorum: self.quorum,
            members: self.members.iter().map(member).collect::<Result<_, _>>()?,
            nodes: self
                .nodes
                .iter()
                .map(|key| WantedNode { key: key.clone() })
                .collect(),
            rules: self.rules.iter().map(rule).collect::<Result<_, _>>()?,
            paper: self.paper,
        })
    }

    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        let spec = self.genesis_spec()?;
        let file = &self.genesis;
        if file.exists() {
            bail!(
                "{}: this file exists already; give another --genesis for a new database",
                file.display()
            );
        }
        let genesis = spec.genesis()?;
        let bytes = genesis
            .encode()
            .map_err(|error| wrong(format!("genesis: {error}")))?;
        Chain::begin(&bytes).map_err(|error| {
            let hint = match error {
                GenesisError::Change(ChangeError::Quorum) => {
                    " (--member NAME=KEY:admin makes a member an admin)"
                }
                _ => "",
            };
            wrong(format!("{error}{hint}"))
        })?;
        let mut out = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(file)
            .with_context(|| format!("cannot create {}", file.display()))?;
        out.write_all(&bytes)?;
        out.sync_all()?;
        say_made(&genesis, &bytes, file, as_json)
    }
}

impl GenesisSpec {
    fn genesis(&self) -> anyhow::Result<Genesis> {
        let mut members = Vec::new();
        for (member_spec, member) in self.members.iter().zip(1..) {
            members.push(FirstMember {
                member,
                name: member_spec.name.clone(),
                role: if member_spec.admin {
                    Role::Admin
                } else {
                    Role::User
                },
                key: key_of(&member_spec.key)?,
            });
        }
        for (index, first) in members.iter().enumerate() {
            let FirstMember { name, key, .. } = first;
            if name == "*" {
                return Err(wrong(
                    "a member cannot be called *, which means everyone in rules",
                ));
            }
            // Two members with one key would have two votes by one signature.
            if let Some(other) = members[..index]
                .iter()
                .find(|other| other.name == *name || other.key == *key)
            {
                let what = format!(
                    "members {:?} and {name:?} have the same name or the same key",
                    other.name
                );
                return Err(wrong(what));
            }
        }
        let mut nodes: Vec<(u32, KeyBytes)> = Vec::new();
        for (node_spec, node) in self.nodes.iter().zip(1..) {
            let key = key_of(&node_spec.key)?;
            if nodes.iter().any(|(_, other)| *other == key) {
                return Err(wrong(format!("two nodes have the same key: {}", node_spec.key)));
            }
            nodes.push((node, key));
        }
        let rule = |wanted: &WantedRule| {
            let of = |name: &str| members.iter().find(|first| first.name == name);
            let member = match wanted.member.as_str() {
                "*" => HYBRID_EVERYONE,
                name => {
                    of(name)
                        .ok_or_else(|| {
                            wrong(format!("a rule names {name:?}, but no --member has this name"))
                        })?
                        .member
                }
            };
            anyhow::Ok(FirstRule {
                prefix: text::parse(&wanted.prefix).map_err(wrong)?,
                member,
                rights: rights(&wanted.rights).map_err(wrong)?,
            })
        };
        let mut rules: Vec<FirstRule> = self.rules.iter().map(rule).collect::<Result<_, _>>()?;
        if rules.is_empty() {
            rules.push(FirstRule {
                prefix: Vec::new(),
                member: HYBRID_EVERYONE,
                rights: Rights {
                    read: true,
                    write: true,
                },
            });
        }
        Ok(Genesis {
            name: self.name.clone(),
            time_ms: unix_ms(),
            quorum: self.quorum,
            members,
            nodes,
            rules,
            paper: self.paper,
        })
    }
}

/// Returns the public key given as CURVE:HEX, or that of a key file, which is created if missing.
fn key_of(text: &str) -> anyhow::Result<KeyBytes> {
    let file = Path::new(text);
    match text.contains(':') || file.exists() {
        true => key::public(text),
        false => Ok(key::make(CurveName::Secp256k1, file)?.public()),
    }
}

fn say_made(genesis: &Genesis, bytes: &[u8], file: &Path, as_json: bool) -> anyhow::Result<()> {
    let database = to_hex(&database_id(bytes));
    let role = |first: &FirstMember| match first.role {
        Role::Admin => "admin",
        Role::User => "user",
    };
    if as_json {
        let members = genesis.members.iter().map(|first| {
            let public = key::key_text(&first.key);
            json!({"member": first.member, "name": first.name, "role": role(first), "key": public})
        });
        let nodes = genesis.nodes.iter().map(|(node, key)| {
            let public = key::key_text(key);
            json!({"node": node, "key": public})
        });
        let line = json!({
            "database": database, "genesis": file.display().to_string(), "quorum": genesis.quorum,
            "paper": genesis.paper,
            "members": members.collect::<Vec<_>>(), "nodes": nodes.collect::<Vec<_>>(),
        });
        return Ok(say!("{line}")?);
    }
    say!("database {database} in {}", file.display())?;
    if genesis.paper {
        say!("{PAPER_MODE_WARNING}")?;
    }
    for first in &genesis.members {
        let public = key::key_text(&first.key);
        say!(
            "member {} {} ({}) {public}",
            first.member,
            first.name,
            role(first)
        )?;
    }
    for (node, key) in &genesis.nodes {
        say!("node {node} {}", key::key_text(key))?;
    }
    Ok(())
}
