//! Sentences for faults of TLS, in place of the words of the library for it.

/// Words in an error of rustls, and the sentence that is said for them.
const SENTENCES: &[(&str, &str)] = &[
    (
        "UnknownIssuer",
        "the peer's certificate is neither one of the trusted ones nor signed by one of them",
    ),
    (
        "CaUsedAsEndEntity",
        "the peer's certificate is that of an authority, and not one of the trusted ones",
    ),
    ("BadSignature", "the signature of the peer's certificate is wrong"),
    (
        "not valid for",
        "the peer's certificate is not for the name or address that was asked",
    ),
    (
        "NotValidForName",
        "the peer's certificate is not for the name or address that was asked",
    ),
    ("expired", "the peer's certificate has expired"),
    (
        "not valid yet",
        "the peer's certificate is not valid yet; compare this machine's clock",
    ),
    ("corrupt message", "the peer does not speak TLS at this port"),
    (
        "HandshakeFailure",
        "the peer found no version or cipher of TLS that both have",
    ),
    (
        "ProtocolVersion",
        "the peer has no version of TLS in common with this program",
    ),
    ("UnknownCA", "the peer does not trust this program's certificate"),
    (
        "CertificateRequired",
        "the peer wants a certificate of its client, and this program has none",
    ),
    (
        "eof",
        "the peer closed the connection in the middle of the handshake",
    ),
];

/// Returns the reason of a fault of TLS as a sentence; other words stay as they are.
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
