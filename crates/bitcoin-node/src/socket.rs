//! Web sockets of btcd: one for requests, another for notifications of blocks.
//!
//! Source: `docs/json_rpc_api.md` of btcd, section "Websocket Extension". A socket is authenticated by the header of
//! its handshake. btcd closes an HTTP connection after each answer, but leaves a web socket open.

use crate::answers::{self, SocketMessage, cleaned_text};
use crate::error::NodeFault;
use crate::hash::BlockHash;
use crate::options::BLOCK_ANSWER_BYTES_MAX;
use crate::stream::{Address, Stream};
use futures_util::{SinkExt, StreamExt};
use hyper::header::{AUTHORIZATION, HeaderValue};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

/// Maximum length of a notification in bytes. Notifications contain no transactions, because this client sets no filter
/// for transactions.
const NOTIFICATION_BYTES_MAX: usize = 16 << 10;

/// Open web socket.
pub(crate) struct Socket(WebSocketStream<Stream>);

impl Socket {
    /// Opens a socket to btcd's `/ws` for messages of at most `limit_bytes`.
    pub(crate) async fn open(
        address: &Address,
        authority: &str,
        authorization: Option<&HeaderValue>,
        limit_bytes: usize,
    ) -> Result<Socket, NodeFault> {
        let stream = address.open().await?;
        let scheme = if address.tls.is_some() { "wss" } else { "ws" };
        let refused = |error: Error| fault("the web socket's handshake", limit_bytes, error);
        let mut request = format!("{scheme}://{authority}/ws")
            .into_client_request()
            .map_err(refused)?;
        if let Some(authorization) = authorization {
            let headers = request.headers_mut();
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        let config = WebSocketConfig::default()
            .max_message_size(Some(limit_bytes))
            .max_frame_size(Some(limit_bytes));
        let (socket, _) = client_async_with_config(request, stream, Some(config))
            .await
            .map_err(refused)?;
        Ok(Socket(socket))
    }

    async fn send(&mut self, call: &'static str, text: String) -> Result<(), NodeFault> {
        let sent = self.0.send(Message::text(text)).await;
        sent.map_err(|error| fault(call, BLOCK_ANSWER_BYTES_MAX, error))
    }

    /// Returns the next text message; the library answers pings.
    async fn receive(&mut self, call: &'static str, limit_bytes: usize) -> Result<Vec<u8>, NodeFault> {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Text(text))) => return Ok(text.as_bytes().to_vec()),
                Some(Ok(Message::Binary(bytes))) => return Ok(bytes.to_vec()),
                Some(Ok(Message::Close(_))) | None => {
                    return Err(NodeFault::Lost {
                        call,
                        why: "the node closed the web socket".into(),
                    });
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(fault(call, limit_bytes, error)),
            }
        }
    }

    /// Sends a request or a batch, and returns the answer. Only one request may be in progress.
    pub(crate) async fn ask(
        &mut self,
        call: &'static str,
        text: String,
        limit_bytes: usize,
    ) -> Result<Vec<u8>, NodeFault> {
        self.send(call, text).await?;
        loop {
            let message = self.receive(call, BLOCK_ANSWER_BYTES_MAX).await?;
            // Notifications are short, so a long message (a block) is an answer and need not be parsed to find out.
            let is_short = message.len() <= NOTIFICATION_BYTES_MAX;
            if is_short && answers::socket_message(&message) != SocketMessage::Answer {
                continue;
            }
            if message.len() > limit_bytes {
                return Err(NodeFault::TooLarge { call, limit_bytes });
            }
            return Ok(message);
        }
    }
}

/// Socket with notifications of blocks.
pub(crate) struct BlockNotices(Socket);

impl BlockNotices {
    /// Opens a socket and subscribes to the notifications.
    pub(crate) async fn open(
        address: &Address,
        authority: &str,
        authorization: Option<&HeaderValue>,
    ) -> Result<BlockNotices, NodeFault> {
        let mut socket = Socket::open(address, authority, authorization, NOTIFICATION_BYTES_MAX).await?;
        let text = r#"{"jsonrpc":"1.0","method":"notifyblocks","params":[],"id":0}"#.to_owned();
        let answer = socket.ask("notifyblocks", text, NOTIFICATION_BYTES_MAX).await?;
        match answers::nothing(&answer, 0) {
            Ok(()) => Ok(BlockNotices(socket)),
            Err(error) => Err(answers::fault_of("notifyblocks", error)),
        }
    }

    /// Waits for the next block that is connected or disconnected. Dropping the future loses no message.
    pub(crate) async fn next(&mut self) -> Result<Option<BlockHash>, NodeFault> {
        loop {
            let message = self.0.receive("notifications", NOTIFICATION_BYTES_MAX).await?;
            if let SocketMessage::Block(hash) = answers::socket_message(&message) {
                return Ok(hash);
            }
        }
    }
}

fn fault(call: &'static str, limit_bytes: usize, error: Error) -> NodeFault {
    match error {
        Error::Io(source) => NodeFault::Lost {
            call,
            why: source.to_string(),
        },
        Error::Capacity(_) => NodeFault::TooLarge { call, limit_bytes },
        Error::Http(response) => match response.status().as_u16() {
            401 => NodeFault::Unauthorized,
            403 => NodeFault::Forbidden,
            503 => NodeFault::Busy {
                message: "the node accepts no further web socket".into(),
            },
            status => NodeFault::Http {
                call,
                status,
                message: String::new(),
            },
        },
        other => NodeFault::Lost {
            call,
            why: cleaned_text(&other.to_string()),
        },
    }
}
