//! JSON-RPC 2.0 requests from clients: one object in a line, or an array of objects.
//!
//! The parser copies no part of a request: the identifier and the parameters are slices of the line.

use serde::de::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// JSON-RPC code: the line is not JSON.
pub const PARSE_ERROR: i32 = -32700;
/// JSON-RPC code: the JSON is not a request.
pub const INVALID_REQUEST: i32 = -32600;
/// JSON-RPC code: there is no such method.
pub const METHOD_NOT_FOUND: i32 = -32601;
/// JSON-RPC code: the parameters are not those of the method.
pub const INVALID_PARAMS: i32 = -32602;
/// Code of Electrum servers: the parameters are valid for the method, but there is no result for them.
pub const BAD_REQUEST: i32 = 1;
/// Code of Electrum servers: the source of the answer is unavailable.
pub const UNAVAILABLE: i32 = 2;

/// Maximum number of bytes of a request's identifier, which is stored until the request is answered.
pub const ID_BYTES_MAX: usize = 256;

/// JSON-RPC error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcError {
    /// Code; it is negative if JSON-RPC defines its meaning.
    pub code: i32,
    /// Explanation for people.
    pub message: Cow<'static, str>,
}

impl RpcError {
    /// Returns an error with this code and message.
    pub fn new(code: i32, message: impl Into<Cow<'static, str>>) -> Self {
        let message = message.into();
        Self { code, message }
    }
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Identifier as JSON text: a number, a string or `null`. A request without an identifier gets no answer.
    pub id: Option<&'a str>,
    /// Name of the method.
    pub method: Cow<'a, str>,
    /// Parameters as JSON text, an array or an object.
    pub params: Option<&'a str>,
}

impl<'a> Request<'a> {
    /// Reads the parameters: an array by position, or an object by name.
    ///
    /// # Errors
    /// [`INVALID_PARAMS`] if the parameters cannot be read as a `T`, or if there are too many.
    pub fn params<T: Deserialize<'a>>(&self) -> Result<T, RpcError> {
        serde_json::from_str(self.params.unwrap_or("[]")).map_err(|error| {
            let mut message = format!("invalid parameters of {}: {error}", shorten(&self.method));
            // serde appends the position within the text of the parameters. It is removed, because it is not a position
            // in the client's line.
            if let Some(at) = message.rfind(" at line ") {
                message.truncate(at);
            }
            RpcError::new(INVALID_PARAMS, message)
        })
    }
}

/// Reason why an object is not a request, and its identifier if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFault<'a> {
    /// Identifier as JSON text.
    pub id: Option<&'a str>,
    /// Error for the reply.
    pub error: RpcError,
}

/// Content of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestLine<'a> {
    /// One request.
    One(Request<'a>),
    /// A batch, which is answered in one line. It is not empty.
    Batch(Vec<Result<Request<'a>, RequestFault<'a>>>),
}

#[derive(serde::Deserialize)]
struct Object<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
}

/// Reads a member of an object so that `null` is `Some`; a missing member is `None`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Reads one line, without its line break, of at most `batch_max` requests.
///
/// # Errors
/// The line is not JSON, not a request, or a batch that is empty or too long. Errors of single requests of a batch are
/// in the batch.
pub fn parse(line: &[u8], batch_max: usize) -> Result<RequestLine<'_>, RequestFault<'_>> {
    let fault = |code, message: &'static str| RequestFault {
        id: None,
        error: RpcError::new(code, message),
    };
    let text = std::str::from_utf8(line).map_err(|_| fault(PARSE_ERROR, "the line is not UTF-8"))?;
    let text = text.trim_ascii();
    if !text.starts_with('[') {
        return request(text).map(RequestLine::One);
    }
    let mut batch = Batch {
        requests: Vec::new(),
        max: batch_max,
    };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let parsed = serde::de::DeserializeSeed::deserialize(&mut batch, &mut deserializer);
    if batch.requests.len() > batch_max {
        let message = format!("the batch is too long: a batch has at most {batch_max} requests");
        return Err(RequestFault {
            id: None,
            error: RpcError::new(INVALID_REQUEST, message),
        });
    }
    if parsed.and_then(|()| deserializer.end()).is_err() {
        return Err(fault(PARSE_ERROR, "the line is not JSON"));
    }
    if batch.requests.is_empty() {
        return Err(fault(INVALID_REQUEST, "the batch has no requests"));
    }
    let requests = batch.requests.into_iter();
    Ok(RequestLine::Batch(
        requests.map(|raw| request(raw.get())).collect(),
    ))
}

/// Elements of an array of requests. At most one element more than the limit is stored, to show that the array is too
/// long.
struct Batch<'a> {
    requests: Vec<&'a RawValue>,
    max: usize,
}

impl<'a> serde::de::DeserializeSeed<'a> for &mut Batch<'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'a> serde::de::Visitor<'a> for &mut Batch<'a> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an array of requests")
    }

    fn visit_seq<A: serde::de::SeqAccess<'a>>(self, mut array: A) -> Result<(), A::Error> {
        while let Some(element) = array.next_element()? {
            self.requests.push(element);
            if self.requests.len() > self.max {
                break;
            }
        }
        Ok(())
    }
}

fn request(text: &str) -> Result<Request<'_>, RequestFault<'_>> {
    let object: Object = serde_json::from_str(text).map_err(|error| {
        let is_json = error.classify() == serde_json::error::Category::Data;
        let error = match is_json {
            true => RpcError::new(INVALID_REQUEST, "the JSON is not a request of JSON-RPC"),
            false => RpcError::new(PARSE_ERROR, "the line is not JSON"),
        };
        RequestFault { id: None, error }
    })?;
    let id = object.id.map(RawValue::get);
    if id.is_some_and(|id| id.len() > ID_BYTES_MAX || id.starts_with(['[', '{', 't', 'f'])) {
        let message = "the id must be a number or a string, and short";
        let error = RpcError::new(INVALID_REQUEST, message);
        return Err(RequestFault { id: None, error });
    }
    let invalid = |message| RequestFault {
        id,
        error: RpcError::new(INVALID_REQUEST, message),
    };
    let method = object
        .method
        .ok_or_else(|| invalid("the request has no method"))?;
    let method = string(method.get()).ok_or_else(|| invalid("the method must be a string"))?;
    let params = object
        .params
        .map(RawValue::get)
        .filter(|params| *params != "null");
    if params.is_some_and(|params| !params.starts_with(['[', '{'])) {
        return Err(invalid("the params must be an array or an object"));
    }
    Ok(Request { id, method, params })
}

/// Returns the content of a JSON string. It is copied only if it has escapes.
fn string(json: &str) -> Option<Cow<'_, str>> {
    match json.strip_prefix('"')?.strip_suffix('"')? {
        plain if !plain.contains('\\') => Some(Cow::Borrowed(plain)),
        _ => serde_json::from_str(json).ok().map(Cow::Owned),
    }
}

/// Returns the beginning of a text that a client sent, for use in a message.
pub(crate) fn shorten(text: &str) -> &str {
    match text.char_indices().nth(80) {
        None => text,
        Some((end, _)) => &text[..end],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Request<'_> {
        match parse(line.as_bytes(), 4) {
            Ok(RequestLine::One(request)) => request,
            other => panic!("{other:?}"),
        }
    }

    fn code(line: &str) -> i32 {
        parse(line.as_bytes(), 4).expect_err(line).error.code
    }

    #[test]
    fn requests_are_read_without_changing_their_parts() {
        let request =
            one(r#" {"id": 1e3, "params": [ "\u0041", {"a": [1]} ], "method": "a.b", "jsonrpc": "2.0"} "#);
        assert_eq!(request.id, Some("1e3"));
        assert_eq!(request.params, Some(r#"[ "\u0041", {"a": [1]} ]"#));
        assert_eq!(request.method, "a.b");
        assert_eq!(one(r#"{"method":"\u0061"}"#).method, "a");
        assert_eq!(one(r#"{"method":"a","id":null,"params":null}"#).id, Some("null"));
        assert_eq!(one(r#"{"method":"a"}"#).id, None);
    }

    #[test]
    fn invalid_requests_have_the_right_error_code() {
        for line in ["", "{", "{\"method\":\"a\"}x", "[1", "[{]", "\u{7f}", "[1] 2"] {
            assert_eq!(code(line), PARSE_ERROR, "{line}");
        }
        let long = format!("{{\"method\":\"a\",\"id\":\"{}\"}}", "x".repeat(ID_BYTES_MAX));
        for line in [
            "1",
            "[]",
            "{}",
            "{\"id\":1}",
            "{\"method\":1}",
            "{\"method\":\"a\",\"id\":[]}",
            "{\"method\":\"a\",\"id\":true}",
            "{\"method\":\"a\",\"params\":3}",
            "{\"method\":\"a\",\"method\":\"b\"}",
            "[1,1,1,1,1]",
            &long,
        ] {
            assert_eq!(code(line), INVALID_REQUEST, "{line}");
        }
        assert_eq!(
            parse(b"{\"method\":1,\"id\":7}", 4).expect_err("a fault").id,
            Some("7")
        );
        assert_eq!(parse(b"\xff", 4).expect_err("a fault").error.code, PARSE_ERROR);
        let deep = "[".repeat(100_000);
        assert_eq!(code(&deep), PARSE_ERROR);
    }

    #[test]
    fn a_batch_has_its_valid_requests_and_the_faults_of_the_others() {
        let Ok(RequestLine::Batch(batch)) = parse(br#"[{"method":"a","id":1},5,{"method":"b"}]"#, 4) else {
            panic!("a batch");
        };
        assert_eq!(batch.len(), 3);
        assert_eq!(batch[0].as_ref().map(|request| request.id), Ok(Some("1")));
        assert!(batch[1].is_err());
        assert_eq!(batch[2].as_ref().map(|request| request.id), Ok(None));
    }

    #[test]
    fn parameters_are_read_by_position_or_by_name() {
        #[derive(serde::Deserialize, Debug, PartialEq)]
        struct Pair<'a> {
            #[serde(borrow)]
            name: Cow<'a, str>,
            #[serde(default)]
            number: u32,
        }
        let read = |params: &str| {
            let line = format!("{{\"method\":\"m\",\"params\":{params}}}");
            one(&line)
                .params::<Pair>()
                .map(|pair| (pair.name.into_owned(), pair.number))
        };
        assert_eq!(read(r#"["a",5]"#), Ok(("a".into(), 5)));
        assert_eq!(read(r#"["a"]"#), Ok(("a".into(), 0)));
        assert_eq!(read(r#"{"number":5,"name":"a"}"#), Ok(("a".into(), 5)));
        for wrong in ["[]", "{}", r#"["a",-1]"#, r#"["a",1,2]"#, r#"[1]"#] {
            let error = read(wrong).expect_err(wrong);
            assert_eq!(error.code, INVALID_PARAMS);
            assert!(
                error.message.starts_with("invalid parameters of m: "),
                "{error:?}"
            );
            assert!(!error.message.contains("line"), "{error:?}");
        }
    }
}
