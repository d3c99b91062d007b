//! Fuzz target for lines from Electrum clients.

use lineside_electrum::request::{ID_BYTES_MAX, Request, RequestFault, RequestLine, parse};
use serde_json::Value;

/// Maximum number of requests in one batch.
const BATCH: usize = 8;

pub fn request_seeds() -> Vec<Vec<u8>> {
    let lines = [
        r#"{"jsonrpc":"2.0","id":0,"method":"server.version","params":["x",["1.4","1.6"]]}"#,
        r#"{"id":"a\u0062","method":"blockchain.transaction.get_merkle","params":{"tx_hash":"00","height":1}}"#,
        r#"[{"id":-1.5e3,"method":"server.ping"},{"method":"\u0061\n","params":null},7,{"id":null}]"#,
        r#" { "params" : [ 1e400 , {"a": [[], {}]} ] , "method" : "m" , "id" : null , "more" : true } "#,
        r#"{"id":1,"id":2,"method":"m"}"#,
        r#"{"id":[1],"method":"m"}"#,
        "[]",
        "[[[[[[",
        "",
    ];
    lines.map(|line| line.as_bytes().to_vec()).to_vec()
}

/// Checks that a request equals the value that serde_json finds in the line, and contains the text of the line.
pub fn request(data: &[u8]) {
    let value: Option<Value> = serde_json::from_slice(data).ok();
    match parse(data, BATCH) {
        Err(fault) => check_fault(&fault, data),
        Ok(RequestLine::One(request)) => check(&request, value.as_ref(), data),
        Ok(RequestLine::Batch(batch)) => {
            assert!((1..=BATCH).contains(&batch.len()));
            let elements = value
                .as_ref()
                .map(|value| value.as_array().expect("a batch is an array"));
            assert!(elements.is_none_or(|elements| elements.len() == batch.len()));
            for (index, request) in batch.iter().enumerate() {
                let element = elements.map(|elements| &elements[index]);
                match request {
                    Ok(request) => check(request, element, data),
                    Err(fault) => check_fault(fault, data),
                }
            }
        }
    }
}

fn lies_in(text: &str, data: &[u8]) -> bool {
    data.as_ptr_range().contains(&text.as_ptr())
}

fn check_fault(fault: &RequestFault, data: &[u8]) {
    assert!(fault.error.code < 0 && !fault.error.message.is_empty());
    assert!(fault.id.is_none_or(|id| lies_in(id, data) && is_json(id)));
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok()
}

fn check(request: &Request, value: Option<&Value>, data: &[u8]) {
    for text in request.id.iter().chain(&request.params) {
        assert!(lies_in(text, data) && is_json(text) && !text.contains('\n') | data.contains(&b'\n'));
    }
    assert!(request.id.is_none_or(|id| id.len() <= ID_BYTES_MAX));
    // A number may be too large for a value of serde_json. The request is valid nevertheless, so it is not compared.
    let Some(value) = value else { return };
    let read = |text: Option<&str>| text.map(|text| serde_json::from_str::<Value>(text).expect("JSON"));
    assert_eq!(value["method"], *request.method);
    assert_eq!(value.get("id"), read(request.id).as_ref());
    let params = value.get("params").filter(|params| !params.is_null());
    assert_eq!(params, read(request.params).as_ref());
}
