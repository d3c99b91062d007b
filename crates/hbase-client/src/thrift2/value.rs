//! Values of Thrift's binary protocol, restricted to the types that `hbase.thrift` uses.

use thrift::protocol::{
    TFieldIdentifier, TInputProtocol, TListIdentifier, TOutputProtocol, TStructIdentifier, TType,
};
use thrift::{Error, ProtocolError, ProtocolErrorKind};

/// Maximum depth to which structs may be nested.
const DEPTH_MAX: usize = 16;
/// Maximum number of elements of a list.
const LIST_MAX: i32 = 1_000_000;

/// A value of Thrift's binary protocol.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A value of Thrift's type `bool`.
    Bool(bool),
    /// A value of Thrift's type `i32`, or of an enum.
    I32(i32),
    /// A value of Thrift's type `i64`.
    I64(i64),
    /// A value of Thrift's types `binary` and `string`.
    Bytes(Vec<u8>),
    /// A list of values of the same type.
    List(Vec<Value>),
    /// A struct: the fields that are set, each with its number.
    Struct(Vec<(i16, Value)>),
    /// A value of a type that this client does not use.
    Other,
}

impl Value {
    /// Creates a value from bytes.
    pub fn bytes(bytes: &[u8]) -> Self {
        Self::Bytes(bytes.to_vec())
    }

    /// Returns field `id` of a struct, if the value is a struct and the field is set.
    pub fn field(&self, id: i16) -> Option<&Value> {
        match self {
            Self::Struct(fields) => fields.iter().find(|(of, _)| *of == id).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Returns the bytes in field `id`; empty if the field is not set.
    pub fn bytes_of(&self, id: i16) -> &[u8] {
        match self.field(id) {
            Some(Self::Bytes(bytes)) => bytes,
            _ => b"",
        }
    }

    /// Returns the list in field `id`; empty if the field is not set.
    pub fn list_of(&self, id: i16) -> &[Value] {
        match self.field(id) {
            Some(Self::List(list)) => list,
            _ => &[],
        }
    }

    fn kind(&self) -> TType {
        match self {
            Self::Bool(_) => TType::Bool,
            Self::I32(_) => TType::I32,
            Self::I64(_) => TType::I64,
            Self::Bytes(_) => TType::String,
            Self::List(_) => TType::List,
            Self::Struct(_) | Self::Other => TType::Struct,
        }
    }

    /// Writes the value.
    ///
    /// # Errors
    /// Returns an error of the connection.
    pub fn write(&self, out: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        match self {
            Self::Bool(value) => out.write_bool(*value),
            Self::I32(value) => out.write_i32(*value),
            Self::I64(value) => out.write_i64(*value),
            Self::Bytes(bytes) => out.write_bytes(bytes),
            Self::List(list) => {
                let kind = list.first().map_or(TType::Struct, Self::kind);
                out.write_list_begin(&TListIdentifier::new(kind, list.len() as i32))?;
                list.iter().try_for_each(|value| value.write(out))?;
                out.write_list_end()
            }
            Self::Struct(fields) => write_struct(fields, out),
            Self::Other => write_struct(&[], out),
        }
    }

    /// Reads a struct.
    ///
    /// # Errors
    /// Returns an error of the connection, or an error for a struct that is nested too deeply or has a list that is too
    /// long.
    pub fn read_struct(input: &mut dyn TInputProtocol) -> thrift::Result<Self> {
        read(input, TType::Struct, DEPTH_MAX)
    }
}

fn write_struct(fields: &[(i16, Value)], out: &mut dyn TOutputProtocol) -> thrift::Result<()> {
    out.write_struct_begin(&TStructIdentifier::new(""))?;
    for (id, value) in fields {
        out.write_field_begin(&TFieldIdentifier::new("", value.kind(), *id))?;
        value.write(out)?;
        out.write_field_end()?;
    }
    out.write_field_stop()?;
    out.write_struct_end()
}

fn refused(what: &str) -> Error {
    Error::Protocol(ProtocolError::new(ProtocolErrorKind::SizeLimit, what))
}

fn read(input: &mut dyn TInputProtocol, kind: TType, depth: usize) -> thrift::Result<Value> {
    if depth == 0 {
        return Err(refused("structs are nested too deeply"));
    }
    Ok(match kind {
        TType::Bool => Value::Bool(input.read_bool()?),
        TType::I32 => Value::I32(input.read_i32()?),
        TType::I64 => Value::I64(input.read_i64()?),
        TType::String => Value::Bytes(input.read_bytes()?),
        TType::List => {
            let list = input.read_list_begin()?;
            if !(0..=LIST_MAX).contains(&list.size) {
                return Err(refused("a list is too long"));
            }
            // Memory is not reserved in advance, because the announced length of the list may be wrong.
            let mut values = Vec::new();
            for _ in 0..list.size {
                values.push(read(input, list.element_type, depth - 1)?);
            }
            input.read_list_end()?;
            Value::List(values)
        }
        TType::Struct => {
            input.read_struct_begin()?;
            let mut fields = Vec::new();
            loop {
                let field = input.read_field_begin()?;
                let (TType::I08
                | TType::I16
                | TType::I32
                | TType::I64
                | TType::Bool
                | TType::Double
                | TType::String
                | TType::List
                | TType::Set
                | TType::Map
                | TType::Struct) = field.field_type
                else {
                    break;
                };
                let value = read(input, field.field_type, depth - 1)?;
                input.read_field_end()?;
                fields.extend(field.id.map(|id| (id, value)));
            }
            input.read_struct_end()?;
            Value::Struct(fields)
        }
        other => {
            input.skip(other)?;
            Value::Other
        }
    })
}
