//! Client of `/status`: one HTTP/1.1 request, limited in bytes and in time.

use lineside_service::Snapshot;
use std::io::{self, Error, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Time limit for connecting, and again for the exchange of request and answer.
const TIME_LIMIT: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Returns the status of the process whose console listens on `console`.
///
/// The system's error of the connection; `TimedOut` after five seconds; `InvalidData` with a description if the answer
/// is not one of a console of this version.
pub fn fetch_status(console: SocketAddr) -> io::Result<Snapshot> {
    let deadline = Instant::now() + TIME_LIMIT;
    let mut stream = TcpStream::connect_timeout(&console, TIME_LIMIT)?;
    stream.set_write_timeout(Some(TIME_LIMIT))?;
    let request = format!("GET /status HTTP/1.1\r\nHost: {console}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let answer = read_all(&mut stream, deadline)?;
    read_status(&answer)
}

/// Parses the complete HTTP answer of a console.
///
/// # Errors
/// `InvalidData` with a description of the mistake.
pub fn read_status(answer: &[u8]) -> io::Result<Snapshot> {
    serde_json::from_slice(body(answer)?).map_err(|error| {
        invalid(format!(
            "the answer is not the status of a console of this version: {error}"
        ))
    })
}

fn read_all(stream: &mut TcpStream, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    let mut part = [0; 16 * 1024];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part) {
            Ok(0) => return Ok(answer),
            Ok(bytes) if answer.len() + bytes > ANSWER_BYTES_MAX => {
                return Err(invalid(format!(
                    "the answer has more than {ANSWER_BYTES_MAX} bytes"
                )));
            }
            Ok(bytes) => answer.extend_from_slice(&part[..bytes]),
            Err(error) if error.kind() == ErrorKind::Interrupted => (),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(ErrorKind::TimedOut.into()),
            Err(error) => return Err(error),
        }
    }
}

/// Returns the body of an answer that has status 200 and a Content-Length, which the console always sends.
fn body(answer: &[u8]) -> io::Result<&[u8]> {
    let end = answer
        .windows(4)
        .position(|bytes| bytes == b"\r\n\r\n")
        .ok_or_else(|| {
            invalid("the answer is not HTTP, so no console of Lineside listens at this address")
        })?;
    let (head, body) = (&answer[..end], &answer[end + 4..]);
    let head = std::str::from_utf8(head)
        .map_err(|_| invalid("the answer is not HTTP, so no console of Lineside listens at this address"))?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 "));
    match status {
        Some(status) if status.starts_with("200") => (),
        Some(status) => {
            let beginning = String::from_utf8_lossy(&body[..body.len().min(200)]);
            return Err(invalid(format!(
                "the console answered {status}: {}",
                beginning.trim()
            )));
        }
        None => {
            return Err(invalid(
                "the answer is not HTTP, so no console of Lineside listens at this address",
            ));
        }
    }
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse::<usize>().ok());
    match length {
        Some(length) if length == body.len() => Ok(body),
        Some(length) => Err(invalid(format!(
            "the answer is incomplete: {} of {length} bytes arrived",
            body.len()
        ))),
        None => Err(invalid("the answer has no header Content-Length")),
    }
}

fn invalid(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidData, what.into())
}

#[cfg(test)]
mod tests {
    use super::body;

    #[test]
    fn answers_are_taken_whole_or_refused() {
        let whole = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        assert_eq!(body(whole).unwrap(), b"{}");
        let cases: [(&[u8], &str); 6] = [
            (b"", "the answer is not HTTP"),
            (b"SSH-2.0-OpenSSH\r\n\r\n", "the answer is not HTTP"),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{}", "2 of 3 bytes"),
            (
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n",
                "no header Content-Length",
            ),
            (
                b"HTTP/1.1 503 No\r\ncontent-length: 4\r\n\r\nbusy",
                "503 No: busy",
            ),
            (b"HTTP/1.1 200 OK\r\n\xff: 1\r\n\r\n", "the answer is not HTTP"),
        ];
        for (answer, said) in cases {
            let error = body(answer).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
