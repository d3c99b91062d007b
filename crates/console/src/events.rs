//! `/events`, a stream of server-sent events: its first event is the history, and then one sample follows each second.
//! `/history` returns only that first event.

use crate::history::{History, Live};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::stream;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Time after which a browser connects again when a stream has ended.
const RETRY_TIME: Duration = Duration::from_secs(2);

/// Source of the streams, and the limit of clients at a time.
#[derive(Clone)]
struct Source {
    history: Arc<History>,
    interval: Duration,
    places: Arc<Semaphore>,
}

/// Returns the routes of the streams. At most `clients_max` streams are open at a time.
pub fn routes(history: Arc<History>, interval: Duration, clients_max: usize) -> Router {
    let places = Arc::new(Semaphore::new(clients_max));
    Router::new()
        .route("/events", get(events))
        .route("/history", get(past))
        .with_state(Source {
            history,
            interval,
            places,
        })
}

async fn past(State(source): State<Source>, headers: HeaderMap) -> Response {
    if is_of_another_site(&headers) {
        return refuse_other_site();
    }
    let json = [(header::CONTENT_TYPE, "application/json")];
    (json, source.history.json(source.interval)).into_response()
}

async fn events(State(source): State<Source>, headers: HeaderMap) -> Response {
    if is_of_another_site(&headers) {
        return refuse_other_site();
    }
    let Ok(permit) = source.places.try_acquire_owned() else {
        let retry = [(header::RETRY_AFTER, "5")];
        let why = "the maximum number of event streams is open; try again later\n";
        return (StatusCode::SERVICE_UNAVAILABLE, retry, why).into_response();
    };
    let (first, live) = source.history.subscribe(source.interval);
    let stream = stream::unfold(
        Client {
            first: Some(first),
            live,
            _place: permit,
        },
        next,
    );
    Sse::new(stream).into_response()
}

/// One client of `/events`. When it is dropped, another client may connect.
struct Client {
    first: Option<String>,
    live: Live,
    _place: OwnedSemaphorePermit,
}

/// Returns the next event. The stream ends when the console stops, or if the client is too slow. Such a client connects
/// again and gets a history without gaps.
async fn next(mut client: Client) -> Option<(Result<Event, Infallible>, Client)> {
    let event = match client.first.take() {
        Some(history) => Event::default().event("history").retry(RETRY_TIME).data(history),
        None => Event::default()
            .event("sample")
            .data(client.live.recv().await.ok()??),
    };
    Some((Ok(event), client))
}

/// Returns true if a web page of another site made the browser send this request. That page could not read the answer,
/// but its streams would count against the limit of clients.
fn is_of_another_site(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
    site.is_some_and(|site| site != b"same-origin" && site != b"none")
}

fn refuse_other_site() -> Response {
    let why = "a page of another site may not read this\n";
    (StatusCode::FORBIDDEN, why).into_response()
}
