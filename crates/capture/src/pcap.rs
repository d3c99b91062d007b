//! Reader and writer of classic pcap files of Ethernet frames, one record at a time. A damaged file cannot cause an
//! allocation that is larger than the maximum size of a record.

use std::io::{self, Read, Write};

const MAGIC_MICROS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOS: u32 = 0xa1b2_3c4d;
/// Type of the section header block at the beginning of a pcapng file; its bytes are the same in both byte orders.
const PCAPNG: u32 = 0x0a0d_0d0a;
const VERSION_MAJOR: u16 = 2;
const VERSION_MINOR: u16 = 4;
const ETHERNET: u32 = 1;
const FILE_HEADER_BYTES: usize = 24;
const RECORD_HEADER_BYTES: usize = 16;
/// Maximum size of a record in bytes, as in libpcap. If a record is longer, the file is damaged.
pub const RECORD_BYTES_MAX: usize = 262_144;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Reason why a capture cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PcapError {
    /// The file is in the newer format pcapng.
    #[error(
        "this file is pcapng; convert it to classic pcap with `editcap -F pcap IN OUT` or `tcpdump -r IN -w OUT`"
    )]
    Pcapng,
    /// The file is compressed.
    #[error("this file is compressed; unpack it first")]
    Compressed,
    /// The file has another format.
    #[error("not a pcap file: it begins with {0:#010x}")]
    NotPcap(u32),
    /// The file is shorter than its header.
    #[error("not a pcap file: it ends within its header")]
    NoHeader,
    /// The file has an old version of the format.
    #[error("pcap version {0}.{1} is not supported, only 2.x")]
    Version(u16, u16),
    /// The frames have no Ethernet header.
    #[error("link type {0} is not supported, only Ethernet (1); capture on one interface, not on `any`")]
    LinkType(u32),
    /// The file ends within a record: it was truncated, or is still being written.
    #[error("record {record} at byte {offset} is cut off")]
    CutOff {
        /// Number of the record, from 1.
        record: u64,
        /// Offset at which the record begins.
        offset: u64,
    },
    /// A length in the file is not possible.
    #[error("record {record} at byte {offset} is damaged: its length field says {bytes} bytes")]
    Damaged {
        /// Number of the record, from 1.
        record: u64,
        /// Offset at which the record begins.
        offset: u64,
        /// Length in the record.
        bytes: u32,
    },
    /// Error of the operating system.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Captured frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Capture time in nanoseconds since 1970.
    pub time_ns: u64,
    /// Length of the frame on the network in bytes. It is more than the length of `frame` if the capture contains only
    /// a part.
    pub original_bytes: u32,
    /// Captured bytes of the frame.
    pub frame: Vec<u8>,
}

/// Reader of a capture, record by record.
pub struct Reader<R> {
    input: R,
    big_endian: bool,
    /// Number of nanoseconds in one unit of the timestamps' fractions.
    unit_ns: u64,
    /// Number of checksum bytes after each frame.
    trailer: usize,
    record: u64,
    offset: u64,
}

impl<R: Read> Reader<R> {
    /// Reads the file's header.
    ///
    /// # Errors
    /// The file is not a capture of Ethernet frames.
    pub fn new(mut input: R) -> Result<Self, PcapError> {
        let mut header = [0; FILE_HEADER_BYTES];
        let have = fill(&mut input, &mut header)?;
        if have < 4 {
            return Err(PcapError::NoHeader);
        }
        let magic = word(&header, 0, false);
        let (big_endian, unit_ns) = match (magic, magic.swap_bytes()) {
            (MAGIC_MICROS, _) => (false, 1000),
            (MAGIC_NANOS, _) => (false, 1),
            (_, MAGIC_MICROS) => (true, 1000),
            (_, MAGIC_NANOS) => (true, 1),
            (PCAPNG, _) => return Err(PcapError::Pcapng),
            _ if is_compressed(&header) => return Err(PcapError::Compressed),
            _ => return Err(PcapError::NotPcap(magic.swap_bytes())),
        };
        if have < FILE_HEADER_BYTES {
            return Err(PcapError::NoHeader);
        }
        let version = word(&header, 4, big_endian);
        let (first, second) = (version as u16, (version >> 16) as u16);
        let (major, minor) = match big_endian {
            false => (first, second),
            true => (second, first),
        };
        if major != VERSION_MAJOR {
            return Err(PcapError::Version(major, minor));
        }
        // The low half of the word is the link type. If bit 26 is set, bits 28 to 31 are the length of the frame check
        // sequence in 16-bit words.
        let link = word(&header, 20, big_endian);
        if link & 0xffff != ETHERNET {
            return Err(PcapError::LinkType(link & 0xffff));
        }
        let trailer = if link >> 26 & 1 != 0 {
            2 * (link >> 28) as usize
        } else {
            0
        };
        Ok(Self {
            input,
            big_endian,
            unit_ns,
            trailer,
            record: 0,
            offset: FILE_HEADER_BYTES as u64,
        })
    }

    /// Reads the next record into `into`. Returns `false` at the end of the file. After an error, no more records can
    /// be read.
    ///
    /// # Errors
    /// [`PcapError::CutOff`], [`PcapError::Damaged`], or an error of the operating system.
    pub fn next(&mut self, into: &mut Record) -> Result<bool, PcapError> {
        let (record, offset) = (self.record + 1, self.offset);
        let cut_off = PcapError::CutOff { record, offset };
        let mut header = [0; RECORD_HEADER_BYTES];
        match fill(&mut self.input, &mut header)? {
            0 => return Ok(false),
            RECORD_HEADER_BYTES => (),
            _ => return Err(cut_off),
        }
        let field = |at| word(&header, at, self.big_endian);
        let bytes = field(8);
        if bytes as usize > RECORD_BYTES_MAX {
            return Err(PcapError::Damaged {
                record,
                offset,
                bytes,
            });
        }
        let seconds = u64::from(field(0)) * NANOS_PER_SECOND;
        into.time_ns = seconds + u64::from(field(4)) * self.unit_ns;
        into.original_bytes = field(12);
        into.frame.resize(bytes as usize, 0);
        if fill(&mut self.input, &mut into.frame)? < bytes as usize {
            return Err(cut_off);
        }
        if into.original_bytes <= bytes {
            into.frame.truncate((bytes as usize).saturating_sub(self.trailer));
        }
        self.record = record;
        self.offset += RECORD_HEADER_BYTES as u64 + u64::from(bytes);
        Ok(true)
    }
}

/// Writer of a capture with timestamps in nanoseconds.
pub struct Writer<W> {
    output: W,
}

impl<W: Write> Writer<W> {
    /// Writes the file's header.
    ///
    /// # Errors
    /// Error of the operating system.
    pub fn new(mut output: W) -> io::Result<Self> {
        let mut header = Vec::with_capacity(FILE_HEADER_BYTES);
        header.extend(MAGIC_NANOS.to_le_bytes());
        header.extend(VERSION_MAJOR.to_le_bytes());
        header.extend(VERSION_MINOR.to_le_bytes());
        header.extend([0; 8]);
        header.extend((RECORD_BYTES_MAX as u32).to_le_bytes());
        header.extend(ETHERNET.to_le_bytes());
        output.write_all(&header)?;
        Ok(Self { output })
    }

    /// Writes a complete frame with the time `time_ns`, which must be before the year 2106.
    ///
    /// # Errors
    /// Error of the operating system; `InvalidInput` for a frame longer than [`RECORD_BYTES_MAX`] or a time that cannot
    /// be represented.
    pub fn write(&mut self, time_ns: u64, frame: &[u8]) -> io::Result<()> {
        let seconds = u32::try_from(time_ns / NANOS_PER_SECOND).map_err(invalid)?;
        let bytes = u32::try_from(frame.len()).map_err(invalid)?;
        if frame.len() > RECORD_BYTES_MAX {
            return Err(invalid("the frame is longer than a capture allows"));
        }
        let fraction = (time_ns % NANOS_PER_SECOND) as u32;
        let header: Vec<u8> = [seconds, fraction, bytes, bytes]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        self.output.write_all(&header)?;
        self.output.write_all(frame)
    }

    /// Flushes the output and returns it.
    ///
    /// # Errors
    /// Error of the operating system.
    pub fn finish(mut self) -> io::Result<W> {
        self.output.flush()?;
        Ok(self.output)
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}

/// Returns the 32-bit word at offset `at` of a header. The header must be long enough.
fn word(header: &[u8], at: usize, big_endian: bool) -> u32 {
    let bytes = header.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    let word = bytes.map_or(0, u32::from_le_bytes);
    if big_endian { word.swap_bytes() } else { word }
}

/// Returns whether a file begins like gzip, zstd, bzip2 or xz.
fn is_compressed(start: &[u8]) -> bool {
    let magics: [&[u8]; 4] = [
        &[0x1f, 0x8b],
        &[0x28, 0xb5, 0x2f, 0xfd],
        b"BZh",
        &[0xfd, b'7', b'z', b'X'],
    ];
    magics.iter().any(|magic| start.starts_with(magic))
}

/// Reads until `into` is full or the input ends. Returns the number of bytes read.
fn fill(input: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    let mut have = 0;
    while have < into.len() {
        match input.read(&mut into[have..]) {
            Ok(0) => break,
            Ok(more) => have += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(error) => return Err(error),
        }
    }
    Ok(have)
}
