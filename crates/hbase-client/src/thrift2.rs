//! Client of HBase's Thrift 2 gateway. It implements only the few calls that are needed, by hand, following
//! `hbase.thrift` of HBase 2.6.
//!
//! The gateway does not return the lifetime of a single cell, and has no nonces. So the outcome of a change whose
//! answer is lost stays unknown. A cache can hold cells with their own lifetimes only if a server announces these
//! lifetimes.

pub mod value;
mod wire;

use crate::families::{Families, Lives};
use crate::{Cell, Change, ChangeOutcome, ColumnName, FoundCell, Nonce, ScanRange, TableError};
use std::fmt;
use std::io::{self, BufReader, BufWriter};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thrift::protocol::{
    TBinaryInputProtocol, TBinaryOutputProtocol, TInputProtocol, TMessageIdentifier, TMessageType,
    TOutputProtocol,
};
use value::Value;

/// Maximum number of open connections that are not in use.
const IDLE_MAX: usize = 16;
/// Lifetime in seconds that means "forever" in HBase.
const FOREVER_S: i32 = i32::MAX;
/// Parts of exception texts that show that the error is permanent.
const PERMANENT_ERROR_TEXTS: [&str; 5] = [
    "NoSuchColumnFamily",
    "TableNotFound",
    "DoNotRetry",
    "IllegalArgument",
    "AccessDenied",
];

/// A connection to the gateway. It carries one call at a time.
struct Connection {
    stream: TcpStream,
    input: TBinaryInputProtocol<BufReader<TcpStream>>,
    output: TBinaryOutputProtocol<BufWriter<TcpStream>>,
    sequence: i32,
}

/// Reason why a call failed. Each says whether the gateway may have executed the call.
enum Failure {
    /// The call was not sent, so it was not executed.
    Before(String),
    /// The call was sent, so it may have been executed.
    After(String),
    /// The gateway answered with an error.
    Said(String),
}

/// Table of HBase, used through a Thrift 2 gateway. Any number of threads may use it at the same time; each call has
/// its own connection.
pub struct Thrift2 {
    gateway: String,
    table: Vec<u8>,
    timeout: Duration,
    idle: Mutex<Vec<Connection>>,
    families: Families,
}

impl fmt::Debug for Thrift2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Thrift2({}, {})", self.gateway, self.table.escape_ascii())
    }
}

impl Connection {
    fn open(gateway: &str, timeout: Duration) -> io::Result<Self> {
        let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in gateway.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => return Self::over(stream, timeout),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    fn over(stream: TcpStream, timeout: Duration) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let input = BufReader::new(stream.try_clone()?);
        let output = BufWriter::new(stream.try_clone()?);
        Ok(Self {
            stream,
            input: TBinaryInputProtocol::new(input, true),
            output: TBinaryOutputProtocol::new(output, true),
            sequence: 0,
        })
    }

    /// Returns true if the gateway has not closed the connection and has sent no unexpected bytes.
    fn is_quiet(&self) -> bool {
        let peeked = self
            .stream
            .set_nonblocking(true)
            .and_then(|()| self.stream.peek(&mut [0]));
        let is_empty = matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        self.stream.set_nonblocking(false).is_ok() && is_empty
    }

    fn send(&mut self, name: &str, arguments: &Value) -> thrift::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let message = TMessageIdentifier::new(name, TMessageType::Call, self.sequence);
        self.output.write_message_begin(&message)?;
        arguments.write(&mut self.output)?;
        self.output.write_message_end()?;
        self.output.flush()
    }

    /// Reads the result of the call `name`; `None` if the call returns no value.
    fn receive(&mut self, name: &str) -> Result<Option<Value>, Failure> {
        let after = |error: thrift::Error| Failure::After(error.to_string());
        let message = self.input.read_message_begin().map_err(after)?;
        if message.message_type == TMessageType::Exception {
            let exception = thrift::Error::read_application_error_from_in_protocol(&mut self.input);
            return Err(Failure::Said(
                exception.map_or_else(|error| error.to_string(), |said| said.message),
            ));
        }
        if message.sequence_number != self.sequence || message.name != name {
            return Err(Failure::After(
                "the gateway's answer belongs to another call".into(),
            ));
        }
        let answer = Value::read_struct(&mut self.input).map_err(after)?;
        self.input.read_message_end().map_err(after)?;
        match answer {
            // Field 0 is the returned value. Any other field is an exception, whose first field is its text.
            Value::Struct(fields) => match fields.into_iter().next() {
                Some((0, value)) => Ok(Some(value)),
                Some((_, thrown)) => Err(Failure::Said(
                    String::from_utf8_lossy(thrown.bytes_of(1)).into_owned(),
                )),
                None => Ok(None),
            },
            _ => Ok(None),
        }
    }
}

impl Thrift2 {
    /// Opens the table `table` (`namespace:table`, or `table` in the default namespace) through `gateway`
    /// (`host:port`). Each read from and each write to a connection takes at most `timeout`.
    ///
    /// # Errors
    /// [`TableError::Unavailable`] if nothing answers there, [`TableError::Refused`] if there is no such table.
    pub fn connect(gateway: &str, table: &[u8], timeout: Duration) -> Result<Self, TableError> {
        let mut thrift2 = Self {
            gateway: gateway.into(),
            table: table.into(),
            timeout,
            idle: Mutex::default(),
            families: Families::new(Vec::new()),
        };
        thrift2.families = Families::new(thrift2.lives_ms()?);
        Ok(thrift2)
    }

    fn lives_ms(&self) -> Result<Lives, TableError> {
        let name = wire::table_name(&self.table);
        let described = self.read("getTableDescriptor", &name)?;
        let families = wire::families(&described.ok_or_else(unexpected)?);
        let lives_ms = families.into_iter().filter_map(|(family, life_s)| {
            let life_s = life_s.filter(|life_s| (1..FOREVER_S).contains(life_s))?;
            Some((family, life_s as u64 * 1000))
        });
        Ok(lives_ms.collect())
    }

    fn call(&self, name: &str, arguments: &Value) -> Result<Option<Value>, Failure> {
        let mut connection = self.connection()?;
        // The gateway may have received the call even if writing ends in an error.
        connection
            .send(name, arguments)
            .map_err(|error| Failure::After(error.to_string()))?;
        let answer = connection.receive(name);
        if matches!(answer, Ok(_) | Err(Failure::Said(_))) {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < IDLE_MAX {
                idle.push(connection);
            }
        }
        answer
    }

    fn connection(&self) -> Result<Connection, Failure> {
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match idle {
                Some(connection) if connection.is_quiet() => return Ok(connection),
                Some(_) => {}
                None => break,
            }
        }
        let opened = Connection::open(&self.gateway, self.timeout);
        opened.map_err(|error| Failure::Before(format!("{}: {error}", self.gateway)))
    }

    fn read(&self, name: &str, arguments: &Value) -> Result<Option<Value>, TableError> {
        self.call(name, arguments).map_err(|failure| match failure {
            Failure::Before(why) | Failure::After(why) => TableError::Unavailable(why),
            Failure::Said(why) if is_lasting(&why) => TableError::refused_by_hbase(why),
            Failure::Said(why) => TableError::Unavailable(why),
        })
    }

    fn write(&self, name: &str, arguments: &Value) -> Result<Option<Value>, TableError> {
        self.call(name, arguments).map_err(|failure| match failure {
            Failure::Before(why) => TableError::Unavailable(why),
            Failure::Said(why) if is_lasting(&why) => TableError::refused_by_hbase(why),
            Failure::After(why) | Failure::Said(why) => TableError::Unknown(why),
        })
    }
}

fn is_lasting(said: &str) -> bool {
    PERMANENT_ERROR_TEXTS.iter().any(|word| said.contains(word))
}

fn unexpected() -> TableError {
    TableError::Unknown("the gateway's answer has an unexpected type".into())
}

impl Thrift2 {
    /// Reads one row in one consistent state. Returns a cell, or `None`, for each of `columns`, in their order.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn get(&self, key: &[u8], columns: &[ColumnName]) -> Result<Vec<Option<Cell>>, TableError> {
        let answer = self.read("get", &wire::get(&self.table, key, columns))?;
        let row = answer.ok_or_else(unexpected)?;
        let mut cells = vec![None; columns.len()];
        for found in wire::cells(&row, columns) {
            cells[found.column] = Some(found.cell);
        }
        Ok(cells)
    }

    /// Reads the cells of the rows of `range`, ordered by row; the cells of a row are in the order of `columns`. Each
    /// row is read in one consistent state. A row that is added, removed or changed during the scan appears in one of
    /// its states. Reads at most 10,000 rows.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn scan(&self, range: &ScanRange, columns: &[ColumnName]) -> Result<Vec<FoundCell>, TableError> {
        let is_empty = range.high.as_ref().is_some_and(|high| *high <= range.low);
        let arguments = wire::scan(&self.table, range, columns);
        let Some(arguments) = arguments.filter(|_| !is_empty && range.limit > 0) else {
            return Ok(Vec::new());
        };
        match self.read("getScannerResults", &arguments)? {
            Some(Value::List(rows)) => Ok(rows.iter().flat_map(|row| wire::cells(row, columns)).collect()),
            _ => Err(unexpected()),
        }
    }

    /// Changes one cell. The nonce is ignored, because the gateway has no nonces.
    ///
    /// # Errors
    /// See [`TableError`]. A put that sets a lifetime is refused.
    pub fn change(
        &self,
        key: &[u8],
        column: &ColumnName,
        change: &Change,
        _nonce: Nonce,
    ) -> Result<ChangeOutcome, TableError> {
        let table = &self.table;
        let now = |row: Option<Value>| {
            let row = row.ok_or_else(unexpected)?;
            let cell = wire::cells(&row, std::slice::from_ref(column)).pop();
            cell.map(|found| ChangeOutcome::Now(found.cell))
                .ok_or_else(unexpected)
        };
        match change {
            Change::Put(_, Some(_)) => Err(TableError::Refused(
                "the Thrift gateway does not accept a lifetime of a single cell".into(),
            )),
            Change::Put(value, None) => self
                .write("put", &wire::put(table, key, column, value))
                .map(|_| ChangeOutcome::Done),
            Change::Delete => self
                .write("deleteSingle", &wire::delete(table, key, column))
                .map(|_| ChangeOutcome::Done),
            Change::Increment(by) => {
                let arguments = wire::increment(table, key, column, *by);
                now(self.write("increment", &arguments)?)
            }
            Change::Append(tail) => {
                let arguments = wire::append(table, key, column, tail);
                now(self.write("append", &arguments)?)
            }
            // HBase treats an expected empty value in the same way as an expected missing cell.
            Change::CheckAndPut { expected, .. } if expected.as_ref().is_some_and(Vec::is_empty) => {
                Err(TableError::Refused(
                    "HBase cannot distinguish an expected empty value from a missing cell".into(),
                ))
            }
            Change::CheckAndPut { expected, value } => {
                let arguments = wire::check_and_put(table, key, column, expected.as_deref(), value);
                match self.write("checkAndPut", &arguments)? {
                    Some(Value::Bool(true)) => Ok(ChangeOutcome::Done),
                    Some(Value::Bool(false)) => Ok(ChangeOutcome::Mismatch),
                    _ => Err(unexpected()),
                }
            }
        }
    }

    /// Returns the lifetime in milliseconds of cells in the family of `column`: `None` if they do not expire; 0 if the
    /// family was altered and HBase does not answer.
    pub fn family_ttl_ms(&self, column: &ColumnName) -> Option<u64> {
        self.families.life_ms(column, || self.lives_ms())
    }

    /// Discards the cached lifetimes of column families, because the table was altered. The next use requests them
    /// again.
    pub fn forget_description(&self) {
        self.families.outdate();
    }

    /// Returns this machine's time in milliseconds since 1970, with which HBase's timestamps are compared.
    pub fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| since.as_millis() as u64)
    }
}
