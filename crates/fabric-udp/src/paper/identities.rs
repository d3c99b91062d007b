//! Reader of the file that lists the identities for the paper's published code (`fabric_machine.yaml`).
//!
//! The number of an identity is the sum of its role's index in `Roles`, 16 times its organisation's index in
//! `Organizations`, and 256 times its index among the identities of the same organisation and role. An identity is a
//! `SerializedIdentity` of the organisation's name and the certificate's file. The rest of the file is ignored.

use lineside_fabric::proto::wire;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use yaml_rust2::{Yaml, YamlLoader};

/// Roles in the order of the published code. They are used if the file has no list of roles.
const ROLES: [&str; 4] = ["admin", "orderer", "peer", "client"];
/// Maximum number of roles, and maximum number of organisations, that an identity's number can express.
const ROLES_MAX: usize = 16;
/// Maximum number of identities of one organisation and role.
const USERS: usize = 256;
/// Number that the published code uses for an unknown identity.
const UNKNOWN_IDENTITY: u16 = u16::MAX;

/// An identity and its number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NumberedIdentity {
    /// Number of the identity in packets.
    pub id: u16,
    /// A `SerializedIdentity`.
    pub identity: Vec<u8>,
}

/// Reads the file and all certificates that it names; a relative path is relative to the file's folder.
///
/// # Errors
/// The error names the file or certificate that cannot be read, or the file if it does not have the form that the
/// module's documentation describes.
pub fn read(file: &Path) -> io::Result<Vec<NumberedIdentity>> {
    let named =
        |error: io::Error, path: &Path| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(file).map_err(|error| named(error, file))?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let read = |path: &str| {
        let path = folder.join(path);
        std::fs::read(&path).map_err(|error| named(error, &path))
    };
    let wrong = |what| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", file.display()));
    let certificates = certificates(&text).map_err(wrong)?;
    let numbered = certificates.into_iter().map(|of| {
        let mut identity = Vec::new();
        wire::put_bytes(&mut identity, 1, of.organisation.as_bytes());
        wire::put_bytes(&mut identity, 2, &read(&of.path)?);
        Ok(NumberedIdentity { id: of.id, identity })
    });
    numbered.collect()
}

/// A certificate that the file names.
#[derive(PartialEq, Eq, Debug)]
struct Certificate {
    id: u16,
    organisation: String,
    path: String,
}

fn certificates(text: &str) -> Result<Vec<Certificate>, String> {
    let documents = YamlLoader::load_from_str(text).map_err(|error| error.to_string())?;
    let root = documents.first().unwrap_or(&Yaml::BadValue);
    let roles: Vec<&str> = match root["Roles"].as_vec() {
        Some(roles) => roles.iter().filter_map(Yaml::as_str).collect(),
        None => ROLES.to_vec(),
    };
    let organisations = list_of(root, "Organizations");
    if organisations.is_empty() {
        return Err("the file has no organisation under `Organizations`".to_owned());
    }
    if roles.len() > ROLES_MAX || organisations.len() > ROLES_MAX {
        return Err(format!(
            "the file has more than {ROLES_MAX} roles or organisations"
        ));
    }
    let mut all = Vec::new();
    for (index, of) in organisations.iter().enumerate() {
        let name = text_of(of, "name")?;
        let mut users = [0; ROLES_MAX];
        for certificate in list_of(of, "certs") {
            let (role, path) = (text_of(certificate, "role")?, text_of(certificate, "cert")?);
            let role_index = roles.iter().position(|known| *known == role);
            let role_place = role_index.ok_or_else(|| format!("{name}: `Roles` has no role {role}"))?;
            let user = users[role_place];
            if user >= USERS {
                return Err(format!(
                    "{name} has more than {USERS} identities of the role {role}"
                ));
            }
            users[role_place] += 1;
            // Number of the published code: bits 0 to 3 are the role, bits 4 to 7 the organisation, and the bits above
            // count the organisation's identities of that role.
            let id = (role_place + (index << 4) + (user << 8)) as u16;
            if id == UNKNOWN_IDENTITY {
                return Err(format!(
                    "{name}: an identity of the role {role} would get the number {UNKNOWN_IDENTITY}, which means an \
                     unknown identity; remove one identity of this role"
                ));
            }
            all.push(Certificate {
                id,
                organisation: name.to_owned(),
                path: path.to_owned(),
            });
        }
    }
    Ok(all)
}

/// Returns the entries of a list; empty if there is no list.
fn list_of<'n>(node: &'n Yaml, key: &str) -> &'n [Yaml] {
    node[key].as_vec().map_or(&[], Vec::as_slice)
}

fn text_of<'n>(node: &'n Yaml, key: &str) -> Result<&'n str, String> {
    node[key].as_str().ok_or_else(|| {
        let mut what = format!("`{key}` is missing");
        if let Some(name) = node["name"].as_str() {
            let _ = write!(what, " in {name}");
        }
        what
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# This file contains configuration.
Hardware:
  pcieResourceFile: /sys/devices/pci0000:00/resource2
  protocol:
    address: \"192.55.0.54:49656\"   # of the card
    orderers:
    - orderer.example.com
Roles:
- admin
- orderer
- peer
- client

Organizations:
- name: OrdererMSP
  certs:
  - role: orderer
    cert: orderer.pem
- name: Org1MSP
  certs:
  - role: admin
    cert: 'admin #1.pem'
  - role: peer
    cert: /etc/peer0.pem
  - role: peer
    cert: peer1.pem
Chaincodes:
- name: comp1
  policy: (Org1MSP.admin AND (Org2MSP.peer OR Org3MSP.member))
";

    /// Compares the numbers with those of the published code: role + (organisation << 4) + (user << 8).
    #[test]
    fn numbers_are_those_of_the_published_code() {
        let found = certificates(FILE).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|of| (of.id, of.organisation.as_str(), of.path.as_str()))
            .collect();
        let expected = [
            (0x001, "OrdererMSP", "orderer.pem"),
            (0x010, "Org1MSP", "admin #1.pem"),
            (0x012, "Org1MSP", "/etc/peer0.pem"),
            (0x112, "Org1MSP", "peer1.pem"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn certificates_are_read_relative_to_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("fabric_machine.yaml");
        let text =
            "Organizations:\n  - name: Org1MSP\n    certs:\n      - role: client\n        cert: user.pem\n";
        std::fs::write(&file, text).unwrap();
        let missing = read(&file).unwrap_err().to_string();
        assert!(missing.contains("user.pem"), "{missing}");
        std::fs::write(folder.path().join("user.pem"), "PEM").unwrap();
        let identity = b"\x0a\x07Org1MSP\x12\x03PEM".to_vec();
        assert_eq!(read(&file).unwrap(), [NumberedIdentity { id: 3, identity }]);
    }

    #[test]
    fn a_file_in_another_form_is_refused_and_named() {
        let many = format!("Organizations:\n{}", "- name: x\n".repeat(17));
        for (text, what) in [
            ("", "no organisation"),
            ("Organizations: {}", "no organisation"),
            ("Organizations: [", "line 2"),
            ("Organizations:\n- certs:\n", "`name` is missing"),
            (
                "Organizations:\n- name: A\n  certs:\n  - role: king\n    cert: x\n",
                "no role king",
            ),
            (
                "Organizations:\n- name: A\n  certs:\n  - role: peer\n",
                "`cert` is missing",
            ),
            ("Organizations:\n\t- name: A\n", "line 2"),
            (&many, "more than 16"),
        ] {
            let refused = certificates(text).unwrap_err();
            assert!(refused.contains(what), "{text:?}: {refused}");
        }
    }
}
