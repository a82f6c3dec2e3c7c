//! Protobuf's wire format: numbered fields of four encodings, without any meaning.

use std::iter;

use crate::DecodeError;

/// What a field holds, as far as the wire tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Datum<'a> {
    /// A variable-length integer: a number or a boolean.
    Varint(u64),
    /// Eight bytes: a fraction.
    Fixed64([u8; 8]),
    /// A text, bytes, a message, or packed numbers.
    Bytes(&'a [u8]),
    /// Four bytes. No built-in message has such a field.
    Fixed32,
}

impl Datum<'_> {
    /// The wire's number for this encoding.
    pub(crate) fn wire_type(&self) -> u8 {
        match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Fixed32 => 5,
        }
    }
}

/// The fields of a message in their order; ends after the first error.
pub(crate) fn fields(mut rest: &[u8]) -> impl Iterator<Item = Result<(u64, Datum<'_>), DecodeError>> {
    iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let field = field(&mut rest);
        if field.is_err() {
            rest = &[];
        }
        Some(field)
    })
}

/// The numbers that a packed list holds.
pub(crate) fn packed(mut rest: &[u8]) -> impl Iterator<Item = Result<u64, DecodeError>> {
    iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let number = varint(&mut rest);
        if number.is_err() {
            rest = &[];
        }
        Some(number)
    })
}

fn field<'a>(rest: &mut &'a [u8]) -> Result<(u64, Datum<'a>), DecodeError> {
    let key = varint(rest)?;
    let number = key >> 3;
    if number == 0 {
        return Err(DecodeError::Malformed("a field has the number 0"));
    }
    let datum = match key & 7 {
        0 => Datum::Varint(varint(rest)?),
        1 => {
            take(rest, 8).and_then(|bytes| bytes.try_into().map(Datum::Fixed64).map_err(|_| DecodeError::Truncated))?
        }
        2 => {
            let length = varint(rest)?;
            Datum::Bytes(take(rest, length)?)
        }
        5 => take(rest, 4).map(|_| Datum::Fixed32)?,
        _ => return Err(DecodeError::Malformed("a field is a group, which Kubernetes never writes")),
    };
    Ok((number, datum))
}

fn take<'a>(rest: &mut &'a [u8], length: u64) -> Result<&'a [u8], DecodeError> {
    let length = usize::try_from(length).map_err(|_| DecodeError::Truncated)?;
    let (taken, left) = rest.split_at_checked(length).ok_or(DecodeError::Truncated)?;
    *rest = left;
    Ok(taken)
}

/// Seven bits a byte, the lowest first, the high bit set on all but the last.
fn varint(rest: &mut &[u8]) -> Result<u64, DecodeError> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, left) = rest.split_first().ok_or(DecodeError::Truncated)?;
        *rest = left;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(DecodeError::Malformed("a number has more than 64 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_each_encoding_is_read() {
        let bytes = [0x08, 0x96, 0x01, 0x11, 0, 0, 0, 0, 0, 0, 0, 0, 0x1a, 2, b'h', b'i', 0x25, 0, 0, 0, 0];
        let read: Vec<_> = fields(&bytes).map(Result::unwrap).collect();
        assert_eq!(
            read,
            [(1, Datum::Varint(150)), (2, Datum::Fixed64([0; 8])), (3, Datum::Bytes(b"hi")), (4, Datum::Fixed32)]
        );
    }

    #[test]
    fn a_negative_number_takes_ten_bytes() {
        let bytes = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(fields(&bytes).next(), Some(Ok((1, Datum::Varint(u64::MAX)))));
    }

    #[test]
    fn what_no_encoder_writes_is_an_error() {
        let first = |bytes: &'static [u8]| fields(bytes).next().unwrap().unwrap_err();
        assert_eq!(first(&[0x80]), DecodeError::Truncated);
        assert_eq!(first(&[0x0a, 0x05, b'x']), DecodeError::Truncated);
        assert_eq!(first(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]), DecodeError::Truncated);
        assert!(matches!(first(&[0x00, 0x00]), DecodeError::Malformed(_)));
        assert!(matches!(first(&[0x0b]), DecodeError::Malformed(_)));
        assert!(matches!(first(&[0xff; 11]), DecodeError::Malformed(_)));
    }

    #[test]
    fn an_error_ends_the_fields() {
        assert_eq!(fields(&[0x08, 0x01, 0x0b, 0x08, 0x01]).count(), 2);
    }
}
