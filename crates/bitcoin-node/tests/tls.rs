//! Tests of TLS with certificates that an authority signed, and with invalid certificates. `tests/btcd.rs` tests the
//! kind of certificate that btcd creates.

use lineside_bitcoin_node::{Node, NodeFault, NodeOptions, Use, connect};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const HASH: &str = "683e86bd5c6d110d91b94b97137ba6bfe02dbbdb8e3dff722a669b5d69d77af6";

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Authority {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Starts a server with a certificate for `name`, which answers every request with one hash. Returns its port.
    fn serve(&self, name: &str) -> u16 {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for tcp in listener.incoming().flatten() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                let mut stream = StreamOwned::new(connection, tcp);
                let mut request = [0; 4096];
                if stream.read(&mut request).is_ok() {
                    let body = format!(r#"{{"jsonrpc":"1.0","result":"{HASH}","error":null,"id":1}}"#);
                    let head = format!(
                        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}",
                        body.len()
                    );
                    let _ = stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes());
                    stream.conn.send_close_notify();
                    let _ = stream.flush();
                }
            }
        });
        port
    }
}

fn node(host: &str, port: u16, ca_file: &Path) -> Box<dyn Node> {
    let options = NodeOptions {
        ca_file: Some(ca_file.into()),
        web_socket: Use::Never,
        call_timeout: Duration::from_secs(20),
        ..NodeOptions::default()
    };
    connect(&format!("btcd://u:p@{host}:{port}").parse().unwrap(), &options).unwrap()
}

#[test]
fn a_certificate_signed_by_an_authority_is_valid_only_for_its_name() {
    let (authority, other) = (Authority::new(), Authority::new());
    let folder = tempfile::tempdir().unwrap();
    let (file, other_file) = (folder.path().join("ca.pem"), folder.path().join("other.pem"));
    std::fs::write(&file, &authority.pem).unwrap();
    std::fs::write(&other_file, &other.pem).unwrap();
    for (name, host, ca_file, is_good) in [
        ("127.0.0.1", "127.0.0.1", &file, true),
        ("localhost", "localhost", &file, true),
        ("localhost", "127.0.0.1", &file, false),
        ("127.0.0.2", "127.0.0.1", &file, false),
        ("127.0.0.1", "127.0.0.1", &other_file, false),
    ] {
        let port = authority.serve(name);
        match node(host, port, ca_file).hash_at(1) {
            Ok(hash) => assert!(is_good && hash.to_string() == HASH, "{name} {host}"),
            Err(error) => {
                let is_tls = matches!(error.fault, NodeFault::Tls { .. });
                assert!(!is_good && is_tls, "{name} {host}: {error}");
            }
        }
    }
}

#[test]
fn the_error_for_a_port_without_tls_names_the_url_without_tls() {
    let authority = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, &authority.pem).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut tcp in listener.incoming().flatten() {
            let _ = tcp.read(&mut [0; 1024]);
            let _ = tcp.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent something else");
        }
    });
    let error = node("127.0.0.1", port, &file).hash_at(1).unwrap_err();
    assert!(matches!(error.fault, NodeFault::Tls { .. }), "{error}");
    assert!(error.to_string().contains("btcd+notls://"), "{error}");
}
