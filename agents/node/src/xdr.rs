//! XDR (RFC 4506), as far as libvirt's messages need it: big-endian numbers, strings padded to four bytes.

/// A message that is not what the protocol says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum XdrError {
    /// It ends too soon.
    #[error("a message from libvirt ends too soon")]
    Truncated,
    /// A string or a list is longer than the protocol allows.
    #[error("a message from libvirt has a string or a list of {0} elements, which is too long")]
    TooLong(usize),
    /// A text that is not UTF-8.
    #[error("a message from libvirt has a text that is not UTF-8")]
    NotText,
    /// A union with an unknown type.
    #[error("a message from libvirt has a value of the unknown type {0}")]
    UnknownType(i32),
}

/// The longest string of the protocol.
const LONGEST_STRING: usize = 4 << 20;

/// A message that is being written.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// The bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// An unsigned number.
    pub fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    /// A number.
    pub fn i32(mut self, value: i32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    /// Bytes whose number both sides know: a multiple of four.
    pub fn fixed(mut self, bytes: &[u8; 16]) -> Self {
        self.0.extend(bytes);
        self
    }

    /// A text.
    pub fn string(mut self, text: &str) -> Self {
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        self.0.extend(length.to_be_bytes());
        self.0.extend(text.as_bytes());
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// A text, or none.
    pub fn optional(self, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.u32(1).string(text),
            None => self.u32(0),
        }
    }
}

/// A message that is being read.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads from the beginning.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], XdrError> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(XdrError::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// An unsigned number.
    pub fn u32(&mut self) -> Result<u32, XdrError> {
        self.take().map(u32::from_be_bytes)
    }

    /// A number.
    pub fn i32(&mut self) -> Result<i32, XdrError> {
        self.take().map(i32::from_be_bytes)
    }

    /// A large unsigned number.
    pub fn u64(&mut self) -> Result<u64, XdrError> {
        self.take().map(u64::from_be_bytes)
    }

    /// A large number.
    pub fn i64(&mut self) -> Result<i64, XdrError> {
        self.take().map(i64::from_be_bytes)
    }

    /// A fraction.
    pub fn f64(&mut self) -> Result<f64, XdrError> {
        self.take().map(f64::from_be_bytes)
    }

    /// A UUID.
    pub fn uuid(&mut self) -> Result<[u8; 16], XdrError> {
        self.take()
    }

    /// A text.
    pub fn string(&mut self) -> Result<String, XdrError> {
        let length = self.u32()? as usize;
        if length > LONGEST_STRING {
            return Err(XdrError::TooLong(length));
        }
        let (taken, rest) = self.0.split_at_checked(length.next_multiple_of(4)).ok_or(XdrError::Truncated)?;
        self.0 = rest;
        String::from_utf8(taken[..length].to_vec()).map_err(|_| XdrError::NotText)
    }

    /// A text, or none.
    pub fn optional(&mut self) -> Result<Option<String>, XdrError> {
        if self.u32()? == 0 { Ok(None) } else { self.string().map(Some) }
    }

    /// A list of at most `longest` elements.
    pub fn list<T>(
        &mut self,
        longest: usize,
        mut one: impl FnMut(&mut Self) -> Result<T, XdrError>,
    ) -> Result<Vec<T>, XdrError> {
        let length = self.u32()? as usize;
        if length > longest {
            return Err(XdrError::TooLong(length));
        }
        (0..length).map(|_| one(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let uuid = *b"0123456789abcdef";
        let bytes = Writer::default()
            .u32(7)
            .i32(-7)
            .fixed(&uuid)
            .string("apple")
            .optional(None)
            .optional(Some(""))
            .into_bytes();
        assert_eq!(bytes.len() % 4, 0);
        let mut reader = Reader::new(&bytes);
        assert_eq!((reader.u32(), reader.i32(), reader.uuid()), (Ok(7), Ok(-7), Ok(uuid)));
        assert_eq!(reader.string().as_deref(), Ok("apple"));
        assert_eq!((reader.optional(), reader.optional()), (Ok(None), Ok(Some(String::new()))));
        assert_eq!(reader.u32(), Err(XdrError::Truncated));
    }

    #[test]
    fn a_length_that_is_not_true_reads_nothing() {
        let bytes = Writer::default().u32(u32::MAX).into_bytes();
        assert_eq!(Reader::new(&bytes).string(), Err(XdrError::TooLong(u32::MAX as usize)));
        assert_eq!(Reader::new(&bytes).list(64, Reader::u32), Err(XdrError::TooLong(u32::MAX as usize)));
        let bytes = Writer::default().u32(9).u32(0).into_bytes();
        assert_eq!(Reader::new(&bytes).string(), Err(XdrError::Truncated));
    }
}
