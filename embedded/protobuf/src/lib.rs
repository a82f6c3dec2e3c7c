//! Kubernetes' protobuf request bodies, read as the JSON that they stand for.
//!
//! kubectl and client-go's typed clients write built-in kinds as protobuf and read either format, so a server that
//! answers in JSON needs only this direction. Nothing here encodes.
//!
//! A body is four magic bytes and an envelope that names the kind and carries its message. [`decode`] reads the message
//! by a table of every built-in message: `data/messages.txt`, whose header says how it was derived. The table holds what
//! the Go types say, so the outcome is what the same client would have written as JSON:
//!
//! - A field that is a pointer in Go is kept whenever it was written: `replicas: 0` stays. A plain number, boolean or
//!   string is always written by Go, so its zero says nothing and is dropped where JSON would omit it.
//! - Structs that JSON inlines (a volume's source, a probe's handler) are inlined.
//! - Fields of a newer Kubernetes that the table does not know are skipped, as an older API server does.
//!
//! Two things JSON would say are not said: `null` for an absent list, and for an unset time.
//!
//! CustomResourceDefinition is in a table of its own, `data/apiextensions.txt`: its schemas hold any JSON, and messages
//! that stand for one of two types.
//!
//! Not decoded, and refused as an unknown kind: lists, which clients never write; kinds of alpha and beta versions; and
//! APIService, which is not written here.

mod envelope;
mod message;
mod table;
mod value;
mod wire;

use serde_json::Value;
use thiserror::Error;

use envelope::MAGIC;

/// The media type of these bodies.
pub const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// How deep messages may nest, JSON and envelopes inside of them included.
const MAX_DEPTH: usize = 100;

/// Why a body cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The magic bytes are not there.
    #[error("the body does not start with the bytes that mark Kubernetes' protobuf")]
    NotKubernetes,
    /// The body ends within a field.
    #[error("the protobuf ends within a field")]
    Truncated,
    /// Something that no encoder writes: a field number of zero, or a number of more than 64 bits.
    #[error("the protobuf is malformed: {0}")]
    Malformed(&'static str),
    /// A field is not encoded as its type is.
    #[error("the protobuf encodes field {field} as wire type {wire_type}, which is not its type")]
    WireType {
        /// The field's number.
        field: u64,
        /// How it came.
        wire_type: u8,
    },
    /// Messages nest without end.
    #[error("the protobuf nests deeper than {MAX_DEPTH} messages")]
    TooDeep,
    /// The envelope's content is compressed, or is no protobuf.
    #[error("the protobuf envelope carries {0}, and only plain protobuf is read")]
    Encoding(String),
    /// No message is known by this name.
    #[error("no protobuf message is known for kind {kind:?} in version {api_version:?}")]
    UnknownKind {
        /// The group and version.
        api_version: String,
        /// The kind.
        kind: String,
    },
    /// A text is not UTF-8.
    #[error("the protobuf has a text that is not UTF-8")]
    NotUtf8,
    /// JSON within the protobuf is not JSON.
    #[error("the protobuf carries JSON that does not parse: {0}")]
    Json(String),
    /// A time is beyond the calendar.
    #[error("the protobuf has a time that no calendar shows: {0} seconds since 1970")]
    Time(i64),
}

/// Whether a body is Kubernetes' protobuf, whatever its content type says.
pub fn is_protobuf(body: &[u8]) -> bool {
    body.starts_with(MAGIC)
}

/// The object in a body, with `apiVersion` and `kind` as the envelope has them.
pub fn decode(body: &[u8]) -> Result<Value, DecodeError> {
    envelope::open(body, 0)
}
