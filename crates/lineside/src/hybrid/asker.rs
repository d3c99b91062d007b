//! Connection to a node by gRPC or UDP, with the same methods and replies for both.

use anyhow::{Context, bail};
use lineside_client::hybrid::answer::Answered;
use lineside_client::hybrid::grpc::{Client, Reply};
use lineside_client::hybrid::request::{Body, Sees, Version};
use lineside_client::hybrid::signing::{Signing, id_of};
use lineside_client::hybrid::udp;
use lineside_client::hybrid::{AskError, Malformed};
use lineside_client::messages::hybrid::grpc::{Cells, KeyCells, Placed, Proof, SignedHeader, Writes};
use std::cell::RefCell;

/// Client of a node.
pub enum Asker {
    Grpc(Client),
    /// UDP client; it sends one request at a time.
    Udp(RefCell<udp::Client>),
}

/// Converts a reply by UDP to the message that gRPC returns.
fn message<R: Reply>(answered: Answered) -> anyhow::Result<R> {
    match answered {
        Answered::Refused(code) => Ok(R::refused(code)),
        answered => R::of(answered).context(
            "the node's reply does not answer this request: is the server a hybrid node of this version?",
        ),
    }
}

fn read<R: Reply>(client: &RefCell<udp::Client>, body: Body<'_>) -> anyhow::Result<R> {
    message(client.borrow_mut().read(body)?)
}

impl Asker {
    pub async fn get(&self, sees: Sees, keys: &[&[u8]]) -> anyhow::Result<Cells> {
        match self {
            Self::Grpc(client) => Ok(client.get(sees, keys).await?),
            Self::Udp(client) => {
                let keys = keys.to_vec();
                read(client, Body::Get { sees, keys })
            }
        }
    }

    pub async fn range(&self, sees: Sees, start: &[u8], stop: &[u8], limit: u32) -> anyhow::Result<KeyCells> {
        match self {
            Self::Grpc(client) => Ok(client.range(sees, start, stop, limit).await?),
            Self::Udp(client) => {
                let range = Body::Range {
                    sees,
                    start,
                    stop,
                    limit,
                };
                read(client, range)
            }
        }
    }

    pub async fn prove(&self, key: &[u8]) -> anyhow::Result<Proof> {
        match self {
            Self::Grpc(client) => Ok(client.prove(key).await?),
            Self::Udp(client) => read(client, Body::Prove { key }),
        }
    }

    pub async fn history(&self, key: &[u8], limit: u32, before: Option<Version>) -> anyhow::Result<Writes> {
        match self {
            Self::Grpc(client) => Ok(client.history(key, limit, before).await?),
            Self::Udp(client) => read(client, Body::History { key, limit, before }),
        }
    }

    pub async fn head(&self) -> anyhow::Result<SignedHeader> {
        match self {
            Self::Grpc(client) => Ok(client.head().await?),
            Self::Udp(client) => read(client, Body::Head),
        }
    }

    pub async fn outcome(&self, id: [u8; 32]) -> anyhow::Result<Placed> {
        match self {
            Self::Grpc(client) => Ok(client.read_outcome(id, None).await?),
            Self::Udp(client) => read(client, Body::Outcome { id }),
        }
    }

    /// Sends a write or a change for ordering. Returns its id, with which `outcome` can be asked, and its result; the
    /// inner error means that the outcome is unknown.
    ///
    /// # Errors
    /// The request cannot be signed, or is too long to be sent.
    pub async fn order(&self, body: Body<'_>) -> anyhow::Result<([u8; 32], anyhow::Result<Placed>)> {
        let is_change = matches!(body, Body::Change { .. });
        let sign = |signing: &Signing| -> Result<_, Malformed> {
            let request = signing.sign(body)?;
            Ok((id_of(&request), request))
        };
        match self {
            Self::Grpc(client) => {
                let (id, request) = sign(client.signing()).map_err(AskError::from)?;
                let answer = match is_change {
                    true => client.connection().change(request).await,
                    false => client.connection().set(request).await,
                };
                Ok((id, answer.map_err(Into::into)))
            }
            Self::Udp(client) => {
                let (id, request) = sign(client.borrow().signing()).map_err(AskError::from)?;
                match client.borrow_mut().write(&request) {
                    // Nothing was sent, so the outcome is known.
                    Err(error @ AskError::TooLong(_)) => bail!(error),
                    Err(error) => Ok((id, Err(error.into()))),
                    Ok(answered) => Ok((id, message(answered))),
                }
            }
        }
    }
}
