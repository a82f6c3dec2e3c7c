//! Messages made field by field.

use c5c3_protobuf::decode;
use serde_json::Value;

/// A message under construction.
#[derive(Clone, Default)]
pub struct Pb(pub Vec<u8>);

impl Pb {
    pub fn varint(mut self, mut value: u64) -> Self {
        while value >= 0x80 {
            self.0.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
            value >>= 7;
        }
        self.0.push(u8::try_from(value).unwrap());
        self
    }

    pub fn int(self, field: u64, value: i64) -> Self {
        self.varint(field << 3).varint(value.cast_unsigned())
    }

    pub fn bytes(self, field: u64, value: impl AsRef<[u8]>) -> Self {
        let value = value.as_ref();
        let mut longer = self.varint(field << 3 | 2).varint(value.len() as u64);
        longer.0.extend_from_slice(value);
        longer
    }

    pub fn pb(self, field: u64, value: &Pb) -> Self {
        self.bytes(field, &value.0)
    }

    /// A fraction.
    #[allow(dead_code)] // One of the two test programs has none.
    pub fn double(self, field: u64, value: f64) -> Self {
        let mut longer = self.varint(field << 3 | 1);
        longer.0.extend_from_slice(&value.to_le_bytes());
        longer
    }

    pub fn map(self, field: u64, key: &str, value: impl AsRef<[u8]>) -> Self {
        self.pb(field, &pb().bytes(1, key).bytes(2, value))
    }

    /// The body of a request whose message this is.
    pub fn body(&self, api_version: &str, kind: &str) -> Vec<u8> {
        let envelope = pb().pb(1, &pb().bytes(1, api_version).bytes(2, kind)).pb(2, self).bytes(3, "").bytes(4, "");
        [b"k8s\0", envelope.0.as_slice()].concat()
    }

    pub fn read(&self, api_version: &str, kind: &str) -> Value {
        decode(&self.body(api_version, kind)).unwrap()
    }
}

pub fn pb() -> Pb {
    Pb::default()
}
