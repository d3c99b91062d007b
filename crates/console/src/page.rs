//! The dashboard page at `/`. Its files are part of the program: `build.rs` embeds them.

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// One file of the page.
struct PageFile {
    /// Name of the file in `/assets/`. The first file is the page itself, which is served at `/`.
    name: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// Policy of the page: it loads scripts, styles and images from the console, sends requests only there, and contains
/// no inline code. Other pages cannot embed it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// Value of `Cache-Control` for files in `/assets/`. Their names contain a hash of their content, so a browser may keep
/// them.
const KEPT: &str = "public, max-age=31536000, immutable";
/// Value of `Cache-Control` for the page itself, which changes with the version of the program.
const ASKED_EACH_TIME: &str = "no-cache";

/// Returns true if this build contains the dashboard. Otherwise `/` says how to build it.
pub fn has_dashboard() -> bool {
    HAS_DASHBOARD
}

/// Returns the routes of the page.
pub fn routes() -> Router {
    Router::new()
        .route("/", get(async || answer(&FILES[0], ASKED_EACH_TIME)))
        .route("/assets/{name}", get(asset))
}

async fn asset(Path(name): Path<String>) -> Response {
    match FILES.iter().skip(1).find(|file| file.name == name) {
        Some(file) => answer(file, KEPT),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn answer(file: &'static PageFile, cache: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, file.content_type),
        (header::CACHE_CONTROL, cache),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    let mut response = (headers, file.bytes).into_response();
    response.headers_mut().insert(
        "cross-origin-resource-policy",
        HeaderValue::from_static("same-origin"),
    );
    response
}
