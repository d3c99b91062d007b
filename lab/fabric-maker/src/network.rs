//! Generated organisations and their members.

use crate::cert::{Authority, EXPIRED, Subject, TIMES, Usage};
use crate::proto::Out;
use crate::sign::Key;
use lineside_util::key_file::write_owner_only;
use std::io;
use std::path::Path;

/// Options of a network: name of the channel, and number of members.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Options {
    /// Name of the channel.
    pub channel: String,
    /// Number of organisations, at least 1.
    pub orgs: usize,
    /// Number of peers of each organisation.
    pub peers: usize,
    /// Number of clients of each organisation. All clients create transactions.
    pub clients: usize,
    /// Number of nodes of the ordering service. They sign blocks in turn.
    pub orderers: usize,
    /// True if the channel policy Writers requires no signature, as in the recorded channels. False if it requires the
    /// signature of a writer of an organisation, as usual. The policy affects the orderer's checks, but not those of a
    /// peer.
    pub everybody_writes: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            channel: "lab".to_owned(),
            orgs: 2,
            peers: 1,
            clients: 4,
            orderers: 1,
            everybody_writes: false,
        }
    }
}

/// Identity with its private key, which can sign.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Encoded `SerializedIdentity`: name of the MSP, and the certificate.
    pub serialized: Vec<u8>,
    /// Certificate in PEM.
    pub pem: Vec<u8>,
    /// Key pair.
    pub key: Key,
}

impl Identity {
    /// Writes the identity as an MSP folder: the folders `signcerts` and `keystore` in `folder`.
    ///
    /// # Errors
    /// Error of the operating system.
    pub fn write_msp(&self, folder: &Path) -> io::Result<()> {
        let files = [
            ("signcerts", self.pem.clone()),
            ("keystore", self.key.pem().into_bytes()),
        ];
        for (name, bytes) in files {
            std::fs::create_dir_all(folder.join(name))?;
            write_owner_only(&folder.join(name).join("one.pem"), &bytes)?;
        }
        Ok(())
    }
}

/// Identities whose certificates a peer rejects.
#[derive(Clone, Debug)]
pub struct Odd {
    /// Expired certificate.
    pub expired: Identity,
    /// Certificate in the organisation's revocation list.
    pub revoked: Identity,
    /// Certificate without an organizational unit.
    pub no_unit: Identity,
    /// Certificate with two organizational units that exclude each other.
    pub two_units: Identity,
    /// Certificate signed by another CA with the name of the organisation.
    pub foreign: Identity,
    /// Certificate of an MSP that the channel does not have.
    pub unknown_msp: Identity,
    /// Certificate of the organisation's CA itself.
    pub ca: Identity,
}

/// Organisation with its members.
#[derive(Clone, Debug)]
pub struct Organisation {
    /// Name in the configuration.
    pub name: String,
    /// Name of the organisation's MSP.
    pub msp: String,
    /// Certificate of the organisation's CA in PEM.
    pub ca: Vec<u8>,
    /// Certificate of the organisation's TLS CA in PEM.
    pub tls_ca: Vec<u8>,
    /// Revocation list in PEM, if the organisation has one.
    pub crl: Option<Vec<u8>>,
    /// Identity of the organisation's admin.
    pub admin: Identity,
    /// Identities of the peers or, in the orderers' organisation, of the orderers.
    pub nodes: Vec<Identity>,
    /// TLS certificates of the orderers in PEM.
    pub tls_nodes: Vec<Vec<u8>>,
    /// Identities of the organisation's clients.
    pub clients: Vec<Identity>,
    /// Identities that a peer rejects. Only the first organisation has them.
    pub odd: Option<Odd>,
}

/// Network of organisations. The same seed and options give the same bytes.
#[derive(Clone, Debug)]
pub struct Network {
    /// Seed of all keys.
    pub seed: u64,
    /// Options with which the network was generated.
    pub options: Options,
    /// Organisations that endorse.
    pub orgs: Vec<Organisation>,
    /// Organisation of the ordering service.
    pub orderer: Organisation,
}

fn identity(msp: &str, pem: Vec<u8>, key: &Key) -> Identity {
    Identity {
        serialized: Out::new().bytes(1, msp).bytes(2, &pem).done(),
        pem,
        key: key.clone(),
    }
}

/// Builder of an organisation, which takes keys from an iterator.
struct Builder<'k, K: Iterator<Item = &'k Key>> {
    keys: K,
    domain: String,
    msp: String,
}

impl<'k, K: Iterator<Item = &'k Key>> Builder<'k, K> {
    fn key(&mut self) -> &'k Key {
        self.keys.next().expect("there are enough keys")
    }

    fn authority(&mut self, prefix: &str) -> Authority {
        let common_name = format!("{prefix}.{}", self.domain);
        let key = self.key();
        Authority::new(&common_name, &self.domain, key)
    }

    /// Returns identities with these names and organizational units, certified by `ca`.
    fn identities(
        &mut self,
        ca: &Authority,
        units: &[&str],
        names: Vec<String>,
        expired: bool,
    ) -> Vec<Identity> {
        let label = names.concat();
        let subject = |common_name| Subject {
            common_name,
            units,
            organisation: "",
            key: self.keys.next().expect("there are enough keys"),
            usage: Usage::Identity,
            times: if expired { EXPIRED } else { TIMES },
        };
        let subjects: Vec<_> = names.into_iter().map(subject).collect();
        let pems = ca.issue(&label, &subjects);
        let all = subjects.iter().zip(pems);
        all.map(|(subject, pem)| identity(&self.msp, pem, subject.key))
            .collect()
    }

    fn one(&mut self, ca: &Authority, units: &[&str], name: &str, expired: bool) -> Identity {
        let name = format!("{name}@{}", self.domain);
        self.identities(ca, units, vec![name], expired).swap_remove(0)
    }

    fn odd(&mut self, ca: &Authority) -> Odd {
        let foreign = self.authority("ca");
        let unknown = self.one(ca, &["client"], "Unknown", false);
        Odd {
            expired: self.one(ca, &["client"], "Expired", true),
            revoked: self.one(ca, &["client"], "Revoked", false),
            no_unit: self.one(ca, &[], "NoOU", false),
            two_units: self.one(ca, &["client", "peer"], "TwoOU", false),
            foreign: self.one(&foreign, &["client"], "ForeignCA", false),
            unknown_msp: identity("Org99MSP", unknown.pem, &unknown.key),
            ca: identity(&self.msp, ca.pem.clone(), &ca.key),
        }
    }

    fn organisation(
        mut self,
        name: &str,
        unit: &str,
        nodes: &[String],
        clients: usize,
        odd: bool,
    ) -> Organisation {
        let ca = self.authority("ca");
        let tls_ca = self.authority("tlsca");
        let admin = self.one(&ca, &["admin"], "Admin", false);
        let names: Vec<_> = nodes
            .iter()
            .map(|node| format!("{node}.{}", self.domain))
            .collect();
        let tls = |common_name: &String| Subject {
            common_name: common_name.clone(),
            units: &[],
            organisation: "",
            key: self.keys.next().expect("there are enough keys"),
            usage: Usage::TlsServer,
            times: TIMES,
        };
        let tls: Vec<_> = names.iter().map(tls).collect();
        let tls_nodes = tls_ca.issue("nodes", &tls);
        let nodes = self.identities(&ca, &[unit], names, false);
        let clients = (1..=clients)
            .map(|number| format!("User{number}@{}", self.domain))
            .collect();
        let clients = self.identities(&ca, &["client"], clients, false);
        let odd = odd.then(|| self.odd(&ca));
        Organisation {
            name: name.to_owned(),
            crl: odd.as_ref().map(|odd| ca.revoke(&[&odd.revoked.key])),
            ca: ca.pem,
            tls_ca: tls_ca.pem,
            admin,
            nodes,
            tls_nodes,
            clients,
            odd,
            msp: self.msp,
        }
    }
}

impl Network {
    /// Generates a network.
    ///
    /// # Panics
    /// The number of organisations, peers, clients or orderers is 0.
    pub fn new(seed: u64, options: Options) -> Self {
        let Options {
            orgs,
            peers,
            clients,
            orderers,
            ..
        } = options;
        assert!(
            orgs.min(peers).min(clients).min(orderers) > 0,
            "an empty network: {options:?}"
        );
        // Each organisation has two CAs, an admin and two keys for each node; the first organisation also has the
        // rejected identities.
        let of_org = 3 + 2 * peers + clients;
        let keys = Key::all(seed, orgs * of_org + 10 + 3 + 2 * orderers);
        let mut keys = keys.iter();
        let peers: Vec<_> = (0..peers).map(|number| format!("peer{number}")).collect();
        let org = |number: usize| {
            let builder = Builder {
                keys: &mut keys,
                domain: format!("org{number}.{}.test", options.channel),
                msp: format!("Org{number}MSP"),
            };
            let name = format!("Org{number}MSP");
            builder.organisation(&name, "peer", &peers, clients, number == 1)
        };
        let orgs = (1..=orgs).map(org).collect();
        let number = |number: usize| match number {
            0 => "orderer".to_owned(),
            more => format!("orderer{more}"),
        };
        let names: Vec<_> = (0..orderers).map(number).collect();
        let orderer = Builder {
            keys: &mut keys,
            domain: format!("{}.test", options.channel),
            msp: "OrdererMSP".to_owned(),
        };
        let orderer = orderer.organisation("OrdererOrg", "orderer", &names, 0, false);
        Self {
            seed,
            options,
            orgs,
            orderer,
        }
    }

    /// Returns the rejected identities of the first organisation.
    pub fn odd(&self) -> &Odd {
        self.orgs[0]
            .odd
            .as_ref()
            .expect("the first organisation has them")
    }

    /// Returns the client with this number. The numbers go round the organisations in turn.
    pub fn client(&self, number: usize) -> &Identity {
        let org = &self.orgs[number % self.orgs.len()];
        &org.clients[number / self.orgs.len() % org.clients.len()]
    }

    /// Returns the peer with this number. The numbers go round the organisations in turn.
    pub fn peer(&self, number: usize) -> &Identity {
        let org = &self.orgs[number % self.orgs.len()];
        &org.nodes[number / self.orgs.len() % org.nodes.len()]
    }
}
