//! The bytes of every file: a preamble with the version, then checksummed frames of records.
//!
//! ```text
//! preamble  magic 8 | version 4 | checksum of both 4          never changes, so that any release can read the version
//! frame     mark 4 | kind and length 4 | number 8 | checksum of records 4 | checksum of header 4
//!           records | zeros up to a multiple of 8 | end mark 8
//! record    revision 8 | created 8 | length of key 4 | length of value 4, all ones if deleted | key | value
//! ```
//!
//! Integers are little-endian, checksums CRC-32. Space that a log has not used yet is zeros.

use std::path::Path;

use crate::OpenError;

/// The version that this program writes, and the highest that it reads.
pub(crate) const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"c5c3stor";
pub(crate) const PREAMBLE: usize = 16;

/// Bytes that cannot occur in UTF-8, hence not in JSON: no object can hold what looks like a frame.
const MARK: u32 = 0xfffe_c5c3;
/// Its last byte is not zero, and no single bit makes it so, unlike what a write that was cut short leaves there.
const END_MARK: [u8; ALIGN] = [0xff, 0xc5, 0xc3, 0xff, 0xff, 0xc5, 0xc3, 0xff];
const HEADER: usize = 24;
const ALIGN: usize = 8;
/// What a disk writes as a whole, or a part of that.
const SECTOR: usize = 512;

const DELETED: u32 = u32::MAX;

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The changes of one batch; its number is the first revision.
    Batch = 1,
    /// Entries of a checkpoint; its number counts the entries before.
    Entries = 2,
    /// The end of a checkpoint; its number is the revision of the checkpoint.
    End = 3,
}

#[derive(Debug)]
pub(crate) struct Frame<'a> {
    pub kind: Kind,
    pub number: u64,
    pub records: &'a [u8],
    /// Where the next frame begins.
    pub end: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub revision: u64,
    pub created: u64,
    pub key: &'a str,
    pub value: Option<&'a [u8]>,
}

pub(crate) fn preamble() -> [u8; PREAMBLE] {
    let mut bytes = [0; PREAMBLE];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let checksum = crc32fast::hash(&bytes[..12]);
    bytes[12..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

pub(crate) fn check_preamble(path: &Path, file: &[u8]) -> Result<(), OpenError> {
    let intact = file.len() >= PREAMBLE && file[..8] == MAGIC && u32_at(file, 12) == crc32fast::hash(&file[..12]);
    if !intact {
        return Err(OpenError::corrupt(path, 0, "it does not begin as a file of this store does"));
    }
    match u32_at(file, 8) {
        found if found > VERSION => Err(OpenError::NewerVersion { path: path.into(), found, supported: VERSION }),
        _ => Ok(()),
    }
}

/// Begins a frame in `buffer`: records follow, then [`seal`].
pub(crate) fn begin(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.resize(HEADER, 0);
}

pub(crate) fn put(buffer: &mut Vec<u8>, record: &Record<'_>) {
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("a batch takes no record over its limit");
    buffer.extend_from_slice(&record.revision.to_le_bytes());
    buffer.extend_from_slice(&record.created.to_le_bytes());
    buffer.extend_from_slice(&length(record.key.as_bytes()).to_le_bytes());
    buffer.extend_from_slice(&record.value.map_or(DELETED, length).to_le_bytes());
    buffer.extend_from_slice(record.key.as_bytes());
    buffer.extend_from_slice(record.value.unwrap_or_default());
}

pub(crate) fn seal(buffer: &mut Vec<u8>, kind: Kind, number: u64) {
    let length = u32::try_from(buffer.len() - HEADER).ok().filter(|length| length >> 28 == 0);
    let length = length.expect("a batch ends at its limit, which is far below 256 MiB");
    let records = crc32fast::hash(&buffer[HEADER..]);
    buffer[..4].copy_from_slice(&MARK.to_be_bytes());
    buffer[4..8].copy_from_slice(&((kind as u32) << 28 | length).to_le_bytes());
    buffer[8..16].copy_from_slice(&number.to_le_bytes());
    buffer[16..20].copy_from_slice(&records.to_le_bytes());
    let header = crc32fast::hash(&buffer[..20]);
    buffer[20..24].copy_from_slice(&header.to_le_bytes());
    buffer.resize(buffer.len().next_multiple_of(ALIGN), 0);
    buffer.extend_from_slice(&END_MARK);
}

/// What there is at an offset of a file.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    Frame(Frame<'a>),
    /// Nothing was written here or after.
    Nothing,
    /// The last write was cut short.
    Torn,
    /// What was written here has changed since.
    Damaged,
}

/// Reads the frame at `at`, which is a multiple of 8.
pub(crate) fn read(file: &[u8], at: usize) -> Found<'_> {
    if let Some(frame) = parse(file, at) {
        return Found::Frame(frame);
    }
    let rest = file.get(at..).unwrap_or_default();
    if is_zero(rest) {
        return Found::Nothing;
    }
    // A batch is begun only when the one before is safe, so with a good frame behind it this one was good once.
    let later = (at + ALIGN..file.len()).step_by(ALIGN).any(|at| parse(file, at).is_some());
    if !later && is_torn(file, at) { Found::Torn } else { Found::Damaged }
}

/// Whether a frame that cannot be read was never written in full, rather than changed afterwards. The space was zeros
/// before, so a write that stopped left zeros at its end, and one that lost power left some sector as zeros.
fn is_torn(file: &[u8], at: usize) -> bool {
    let header = header(file, at);
    let size = match &header {
        Some(header) => header.size(),
        // Without its header the frame's end is not known. Cut within the header, nothing follows.
        None if is_zero(file.get(at + HEADER..).unwrap_or_default()) => return true,
        None => HEADER,
    };
    let Some(frame) = file.get(at..at + size) else { return true };
    let has_no_end = header.is_some() && frame.ends_with(&[0]);
    let (first, sectors) = frame.split_at((SECTOR - at % SECTOR).min(size));
    has_no_end || is_zero(first) || sectors.chunks(SECTOR).any(is_zero)
}

struct Header {
    kind: Kind,
    length: usize,
    number: u64,
    checksum: u32,
}

impl Header {
    fn size(&self) -> usize {
        (HEADER + self.length).next_multiple_of(ALIGN) + END_MARK.len()
    }
}

fn header(file: &[u8], at: usize) -> Option<Header> {
    let bytes = file.get(at..at.checked_add(HEADER)?)?;
    if bytes[..4] != MARK.to_be_bytes() || u32_at(bytes, 20) != crc32fast::hash(&bytes[..20]) {
        return None;
    }
    let kind = match u32_at(bytes, 4) >> 28 {
        1 => Kind::Batch,
        2 => Kind::Entries,
        3 => Kind::End,
        _ => return None,
    };
    let length = (u32_at(bytes, 4) & 0x0fff_ffff) as usize;
    Some(Header { kind, length, number: u64_at(bytes, 8), checksum: u32_at(bytes, 16) })
}

fn parse(file: &[u8], at: usize) -> Option<Frame<'_>> {
    let header = header(file, at)?;
    let frame = file.get(at..at + header.size())?;
    let (records, rest) = frame[HEADER..].split_at(header.length);
    let intact = crc32fast::hash(records) == header.checksum && rest.strip_suffix(&END_MARK).is_some_and(is_zero);
    intact.then_some(Frame { kind: header.kind, number: header.number, records, end: at + header.size() })
}

/// The records of a frame; `None` for one that does not add up, after which there is nothing.
pub(crate) fn records(mut bytes: &[u8]) -> impl Iterator<Item = Option<Record<'_>>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let record = take_record(&mut bytes);
        if record.is_none() {
            bytes = &[];
        }
        Some(record)
    })
}

fn take_record<'a>(bytes: &mut &'a [u8]) -> Option<Record<'a>> {
    let revision = u64::from_le_bytes(*bytes.split_off(..8)?.first_chunk()?);
    let created = u64::from_le_bytes(*bytes.split_off(..8)?.first_chunk()?);
    let key = u32::from_le_bytes(*bytes.split_off(..4)?.first_chunk()?);
    let value = u32::from_le_bytes(*bytes.split_off(..4)?.first_chunk()?);
    let key = std::str::from_utf8(bytes.split_off(..key as usize)?).ok()?;
    let value = if value == DELETED { None } else { Some(bytes.split_off(..value as usize)?) };
    Some(Record { revision, created, key, value })
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
