//! Client of the paper's gRPC service.

pub use lineside_messages::hybrid::grpc::paper as messages;

use super::Connection;
use crate::hybrid::AskError;
use lineside_grpc::ClientTls;
use lineside_messages::hybrid::grpc::CODE_HEADER;
use lineside_messages::hybrid::paper::{Body, sign};
use lineside_messages::hybrid::secret::SecretKey;
use lineside_messages::hybrid::{Code, Malformed};
use lineside_util::hex::to_hex;
use messages::{
    BatchGetRequest, BatchGetResponse, BatchSetRequest, BatchSetResponse, GetRequest, GetResponse,
    SetRequest, SetResponse, VerifyRequest, VerifyResponse,
};
use prost::Message;
use std::time::Duration;

/// Client that signs requests as the paper's own client does, and sends them.
pub struct Client {
    connection: Connection,
    secret: SecretKey,
    pubkey: String,
}

impl Client {
    /// Connects to the server at `HOST:PORT`.
    ///
    /// # Errors
    /// [`AskError::Connect`]. [`AskError::Malformed`] for a P-256 key, because these requests need a secp256k1 key.
    pub async fn connect(
        endpoint: &str,
        tls: Option<&ClientTls>,
        secret: SecretKey,
    ) -> Result<Client, AskError> {
        let public = match &secret {
            SecretKey::Secp256k1(_) => secret.public_key(),
            SecretKey::P256(_) => None,
        };
        let public = public.ok_or(Malformed(
            "the key is not a secp256k1 key, which the paper's requests need",
        ))?;
        Ok(Client {
            connection: Connection::open(endpoint, tls).await?,
            pubkey: to_hex(&public.to_sec1_uncompressed()),
            secret,
        })
    }

    /// Sets the time until a request fails (default: 60 seconds).
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Client {
        self.connection = self.connection.with_timeout(timeout);
        self
    }

    fn signature(&self, body: &Body<'_>) -> String {
        to_hex(&sign(&self.secret, body))
    }

    /// Signs a get request.
    pub fn sign_get(&self, key: &str) -> GetRequest {
        GetRequest {
            pubkey: self.pubkey.clone(),
            signature: self.signature(&Body::Get { key }),
            key: key.into(),
        }
    }

    /// Signs a set request.
    ///
    /// # Errors
    /// [`AskError::Malformed`] if the version is above 2^63 - 2.
    pub fn sign_set(&self, key: &str, value: &str, version: u64) -> Result<SetRequest, AskError> {
        let too_high = Malformed("the version is above the maximum, 2^63 - 2");
        Ok(SetRequest {
            pubkey: self.pubkey.clone(),
            signature: self.signature(&Body::Set { key, value, version }),
            key: key.into(),
            value: value.into(),
            version: i64::try_from(version).map_err(|_| too_high)?,
            ..SetRequest::default()
        })
    }

    async fn call<In, Out>(&self, path: &'static str, message: In) -> Result<Out, AskError>
    where
        In: Message + 'static,
        Out: Message + Default + 'static,
    {
        let called = self.connection.call(path, message).await;
        called.map_err(|error| match error {
            AskError::Broken(status) => {
                let code = status.metadata().get(CODE_HEADER).and_then(|code| {
                    let code: u16 = code.to_str().ok()?.parse().ok()?;
                    Code::from_code(code)
                });
                match (code, status.code()) {
                    (Some(code), _) => AskError::Refused(code),
                    // A node whose database is not in the paper's mode does not have this service.
                    (None, tonic::Code::Unimplemented) => AskError::Refused(Code::WrongMode),
                    (None, _) => AskError::Broken(status),
                }
            }
            other => other,
        })
    }

    /// Sends a signed get request.
    ///
    /// # Errors
    /// [`AskError`]. [`Code::Unknown`] means that the key has no value.
    pub async fn get(&self, request: GetRequest) -> Result<GetResponse, AskError> {
        self.call("/controller.Node/Get", request).await
    }

    /// Sends a signed set request.
    ///
    /// # Errors
    /// [`AskError`]. [`Code::OldVersion`] means that the key's version is above the request's.
    pub async fn set(&self, request: SetRequest) -> Result<SetResponse, AskError> {
        self.call("/controller.Node/Set", request).await
    }

    /// Requests the block of a key's last write.
    ///
    /// # Errors
    /// [`AskError`]. [`Code::Unknown`] means that the key has no value.
    pub async fn verify(&self, key: &str) -> Result<VerifyResponse, AskError> {
        let request = VerifyRequest {
            pubkey: self.pubkey.clone(),
            signature: self.signature(&Body::Verify { key }),
            key: key.into(),
        };
        self.call("/controller.Node/Verify", request).await
    }

    /// Sends signed get requests. Returns an answer to each, with its code.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn batch_get(&self, requests: Vec<GetRequest>) -> Result<Vec<GetResponse>, AskError> {
        let batch = BatchGetRequest { requests };
        let answer: BatchGetResponse = self.call("/controller.Node/BatchGet", batch).await?;
        Ok(answer.responses)
    }

    /// Sends signed set requests. Returns an answer to each, with its code.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn batch_set(&self, requests: Vec<SetRequest>) -> Result<Vec<SetResponse>, AskError> {
        let batch = BatchSetRequest { requests };
        let answer: BatchSetResponse = self.call("/controller.Node/BatchSet", batch).await?;
        Ok(answer.responses)
    }
}
