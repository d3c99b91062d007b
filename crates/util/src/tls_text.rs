//! Plain sentences for TLS errors, in place of the error texts of rustls.

/// Parts of rustls error texts, and the sentence to report for each.
const SENTENCES: &[(&str, &str)] = &[
    (
        "UnknownIssuer",
        "the peer's certificate is not trusted: it is neither configured as trusted nor signed by a trusted authority",
    ),
    (
        "CaUsedAsEndEntity",
        "the peer's certificate is a CA certificate that is not configured as trusted",
    ),
    ("BadSignature", "the signature of the peer's certificate is wrong"),
    (
        "not valid for",
        "the peer's certificate is not for the name or address that was connected to",
    ),
    (
        "NotValidForName",
        "the peer's certificate is not for the name or address that was connected to",
    ),
    ("expired", "the peer's certificate has expired"),
    (
        "not valid yet",
        "the peer's certificate is not valid yet; check this machine's clock",
    ),
    ("corrupt message", "the peer does not speak TLS at this port"),
    (
        "HandshakeFailure",
        "the peer supports no TLS version or cipher that this program supports",
    ),
    (
        "ProtocolVersion",
        "the peer supports no TLS version that this program supports",
    ),
    ("UnknownCA", "the peer does not trust this program's certificate"),
    (
        "CertificateRequired",
        "the peer requires a client certificate, and none is configured",
    ),
    ("eof", "the peer closed the connection during the TLS handshake"),
];

/// Returns the sentence for a TLS error text, or the text itself if no sentence is known for it.
pub fn reason(said: &str) -> String {
    let found = SENTENCES.iter().find(|(words, _)| said.contains(words));
    found.map_or_else(|| said.to_owned(), |(_, sentence)| (*sentence).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_words_become_sentences_and_others_stay() {
        for (said, part) in [
            ("invalid peer certificate: UnknownIssuer", "nor signed by"),
            (
                "invalid peer certificate: certificate not valid for name \"x\"",
                "not for the name",
            ),
            (
                "received corrupt message of type InvalidContentType",
                "does not speak TLS",
            ),
            ("tls handshake eof", "closed the connection"),
        ] {
            let sentence = reason(said);
            assert!(
                sentence.contains(part) && !sentence.contains("invalid peer"),
                "{sentence}"
            );
        }
        assert_eq!(reason("something else"), "something else");
    }
}
