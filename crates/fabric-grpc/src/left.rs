//! Reasons why a follower leaves an endpoint, as messages that say what an operator can do.

/// Reason why a follower leaves an endpoint and continues with the next one.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaveReason {
    /// The connection failed.
    #[error("no connection: {0}")]
    Connect(String),
    /// The stream failed.
    #[error("the stream failed: {0}")]
    Broken(String),
    /// The endpoint ended the stream with a status of Fabric.
    #[error("the endpoint ended the stream with status {status}{means}", status = .0, means = meaning(*.0))]
    Status(i32),
    /// The endpoint sent something other than the next block.
    #[error("the endpoint sent {0}, not the next block")]
    NotNext(String),
    /// The caller of the follower refused the endpoint's block, for example because of a wrong signature.
    #[error("the endpoint's block was refused: {0}")]
    Refused(String),
    /// The endpoint sent nothing for the time in [`Options::patience`](crate::client::Options::patience).
    #[error("no block arrived within the time limit")]
    Silent,
}

impl LeaveReason {
    /// Returns true if the same request cannot succeed at this endpoint before a person changes something: a refusal,
    /// or a certificate that one end does not accept.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Status(status) => matches!(status, 400 | 403 | 404),
            Self::Connect(why) | Self::Broken(why) => {
                why.contains("invalid peer certificate") || why.contains("received fatal alert")
            }
            Self::NotNext(_) | Self::Refused(_) | Self::Silent => false,
        }
    }
}

/// Returns the meaning of a status of Fabric's Deliver service as a suffix of a message; empty for an unknown status.
fn meaning(status: i32) -> &'static str {
    match status {
        400 => ": it rejects the request: check this machine's clock, and tls_certificate",
        403 => {
            ": the channel's policy does not permit this identity to read: check the MSP id and the MSP folder"
        }
        404 => {
            ": it does not have the channel, or does not have the requested blocks: check the channel's name"
        }
        503 => ": it cannot serve blocks at present",
        _ => "",
    }
}

/// Appends the remedy to the text of a connection error, if a remedy is known.
pub(crate) fn with_remedy(text: String, has_tls: bool) -> String {
    let remedy = if text.contains("CertificateRequired") || text.contains("certificate required") {
        "the endpoint asks for a client certificate: give tls_certificate and tls_key"
    } else if text.contains("UnknownIssuer") || text.contains("BadSignature") {
        // `BadSignature` occurs if `tls_ca` holds a CA of the same name with another key.
        "tls_ca does not hold the CA of the endpoint's certificate: give that CA's certificate as tls_ca"
    } else if text.contains("NotValidForName") || text.contains("not valid for name") {
        "the endpoint's certificate has another host name: give it as tls_host_name"
    } else if text.contains("received fatal alert") {
        "the endpoint does not accept the TLS certificate in tls_certificate: give one that its CA signed"
    } else if !has_tls && text.contains("reset") {
        "the endpoint may require TLS: give tls_ca"
    } else {
        return text;
    };
    format!("{text} ({remedy})")
}
