//! Verifies the checksums of a fjall database's files before fjall opens them.
//!
//! fjall (3.1) stores a checksum of each keyspace's list of tables and, in that list, of each whole table, but compares
//! neither when it opens a database. It also removes keyspaces whose names it does not find. A changed byte may
//! therefore make old values visible again, or make fjall remove data that it should have read. The functions of this
//! module only read files.
//!
//! Files of a database, as fjall 3.1 with lsm-tree 3.1 writes them:
//!
//! ```text
//! *.jnl                        logs; not verified here
//! keyspaces/<number>/current   number of the list of tables (u64), its XXH3 of 128 bits, 0 (little endian)
//! keyspaces/<number>/v<n>      list of tables, an archive of sections
//! keyspaces/<number>/tables/   tables, each a file whose name is its number
//! ```

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_128};

/// Size of the trailer of a list: `SFA!`, version, kind of checksum, XXH3 of the table of contents, its offset and
/// length.
const TRAILER_BYTES: usize = 38;
/// Size of a table's entry in a list: number, kind of checksum, XXH3 of the whole file, sequence number.
const ENTRY_BYTES: usize = 33;

/// Error of a check.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file is missing or differs from what fjall wrote.
    #[error("{}: {what}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Description of the damage.
        what: &'static str,
    },
    /// A file could not be read.
    #[error("cannot read {}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// A table that a list names.
struct Listed {
    number: u64,
    checksum: u128,
}

/// Returns the numbers of the keyspaces in the database in `directory`, in ascending order.
///
/// # Errors
/// [`Error::Io`]. A directory without keyspaces is not an error: the list is empty.
pub fn keyspaces(directory: &Path) -> Result<Vec<u64>, Error> {
    let folder = directory.join("keyspaces");
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(at(&folder))?,
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let name = entry.map_err(at(&folder))?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Verifies the checksum of the list of tables of each keyspace.
///
/// # Errors
/// [`Error::Damaged`], [`Error::Io`].
pub fn check_lists(directory: &Path) -> Result<(), Error> {
    for number in keyspaces(directory)? {
        list_of(&keyspace_folder(directory, number))?;
    }
    Ok(())
}

/// Verifies the checksums of the list of tables of each keyspace and of every table in it. Reads all tables completely.
///
/// # Errors
/// [`Error::Damaged`], [`Error::Io`].
pub fn check_tables(directory: &Path) -> Result<(), Error> {
    for number in keyspaces(directory)? {
        let folder = keyspace_folder(directory, number);
        for table in list_of(&folder)? {
            let file = folder.join("tables").join(table.number.to_string());
            match checksum_of(&file) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(damaged(&file, "the table is missing"));
                }
                Err(error) => return Err(at(&file)(error)),
                Ok(checksum) if checksum != table.checksum => {
                    return Err(damaged(&file, "the table's checksum is wrong"));
                }
                Ok(_) => {}
            }
        }
    }
    Ok(())
}

fn keyspace_folder(directory: &Path, number: u64) -> PathBuf {
    directory.join("keyspaces").join(number.to_string())
}

fn at(file: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let file = file.to_owned();
    move |source| Error::Io { file, source }
}

fn damaged(file: &Path, what: &'static str) -> Error {
    let file = file.to_owned();
    Error::Damaged { file, what }
}

/// Reads a file. Reports damage if it does not exist.
fn read(file: &Path) -> Result<Vec<u8>, Error> {
    fs::read(file).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => damaged(file, "the file is missing"),
        _ => at(file)(error),
    })
}

/// Reads the current list of tables of the keyspace in `folder`, and verifies its checksum.
fn list_of(folder: &Path) -> Result<Vec<Listed>, Error> {
    let current = folder.join("current");
    let bytes = read(&current)?;
    let wrong = || damaged(&current, "the file is malformed");
    let (number, rest) = bytes.split_first_chunk().ok_or_else(wrong)?;
    let (checksum, kind) = rest.split_first_chunk().ok_or_else(wrong)?;
    if kind != [0] {
        return Err(wrong());
    }
    let file = folder.join(format!("v{}", u64::from_le_bytes(*number)));
    let list = read(&file)?;
    if xxh3_128(&list) != u128::from_le_bytes(*checksum) {
        return Err(damaged(
            &file,
            "the list of tables does not have the checksum in `current`",
        ));
    }
    let tables = section(&list, b"tables").and_then(tables);
    tables.ok_or_else(|| damaged(&file, "the list of tables is malformed"))
}

/// Returns the content of the section `name` of an archive.
fn section<'a>(archive: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let trailer = archive.get(archive.len().checked_sub(TRAILER_BYTES)?..)?;
    let trailer = trailer.strip_prefix(b"SFA!\x01\x00")?;
    let contents_at = u64::from_le_bytes(*trailer.get(16..)?.first_chunk()?);
    let contents = archive.get(usize::try_from(contents_at).ok()?..)?;
    let (count, mut rest) = contents.strip_prefix(b"TOC!")?.split_first_chunk()?;
    for _ in 0..u32::from_le_bytes(*count) {
        let (offset, after) = rest.split_first_chunk()?;
        let (length, after) = after.split_first_chunk()?;
        let (name_bytes, after) = after.split_first_chunk()?;
        let (its_name, after) = after.split_at_checked(u16::from_le_bytes(*name_bytes).into())?;
        if its_name == name {
            let offset = usize::try_from(u64::from_le_bytes(*offset)).ok()?;
            let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
            return archive.get(offset..offset.checked_add(length)?);
        }
        rest = after;
    }
    None
}

/// Parses the list of tables: all tables of all levels and runs.
fn tables(section: &[u8]) -> Option<Vec<Listed>> {
    let mut tables = Vec::new();
    let (levels, mut rest) = section.split_first()?;
    for _ in 0..*levels {
        let (runs, after) = rest.split_first()?;
        rest = after;
        for _ in 0..*runs {
            let (count, after) = rest.split_first_chunk()?;
            let bytes = (u32::from_le_bytes(*count) as usize).checked_mul(ENTRY_BYTES)?;
            let (entries, after) = after.split_at_checked(bytes)?;
            rest = after;
            for entry in entries.chunks_exact(ENTRY_BYTES) {
                let (number, entry) = entry.split_first_chunk()?;
                let checksum = entry.strip_prefix(&[0])?.first_chunk()?;
                tables.push(Listed {
                    number: u64::from_le_bytes(*number),
                    checksum: u128::from_le_bytes(*checksum),
                });
            }
        }
    }
    rest.is_empty().then_some(tables)
}

/// Returns the 128-bit XXH3 of a whole file.
fn checksum_of(file: &Path) -> io::Result<u128> {
    let mut file = File::open(file)?;
    let mut hasher = Xxh3Default::new();
    let mut chunk = vec![0; 1 << 20];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(hasher.digest128()),
            bytes => hasher.update(&chunk[..bytes]),
        }
    }
}
