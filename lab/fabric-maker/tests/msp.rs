//! Tests of the folders of an identity that `lineside-lab fabric make` writes.

use lineside_fabric_maker::{Network, Options};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

#[test]
fn only_its_owner_may_read_a_key() {
    let network = Network::new(1, Options::default());
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("keystore/one.pem");
    for _ in 0..2 {
        network.client(0).write_msp(folder.path()).unwrap();
        let mode = fs::metadata(&key).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // In the second round the file already exists, with permissions for others.
        fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    }
}
