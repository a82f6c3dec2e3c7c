//! The messages of libvirt's remote protocol that the agent sends and receives.

use uuid::Uuid;

use crate::xdr::{Reader, Writer, XdrError};

/// The program and the version of libvirt's remote protocol.
const PROGRAM: u32 = 0x2000_8086;
const VERSION: u32 = 1;

/// The longest message, its length included, and the length of its head.
pub const LONGEST: usize = 32 << 20;
pub const HEAD: usize = 28;

/// The most domains and job statistics in one message.
const MOST_DOMAINS: usize = 16_384;
const MOST_STATISTICS: usize = 64;

/// What is called, or what an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Procedure {
    ConnectOpen = 1,
    ConnectGetVersion = 4,
    NodeGetInfo = 6,
    ConnectGetCapabilities = 7,
    DomainGetXmlDesc = 14,
    AuthList = 66,
    ConnectGetLibVersion = 157,
    DomainGetState = 212,
    ConnectListAllDomains = 273,
    DomainGetJobStats = 298,
    RegisterEvent = 316,
    LifecycleEvent = 318,
    RebootEvent = 319,
    WatchdogEvent = 321,
    IoErrorEvent = 324,
    ConnectGetDomainCapabilities = 342,
    MigrationIterationEvent = 359,
    JobCompletedEvent = 363,
}

/// The events that are asked for, by libvirt's numbers: lifecycle, reboot, watchdog, I/O error with its reason, migration
/// iteration, job completed. A guest that panics is a lifecycle event.
pub const EVENTS: [i32; 6] = [0, 1, 3, 6, 20, 21];

/// The head of a message, without its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub program: u32,
    pub procedure: i32,
    pub kind: i32,
    pub serial: u32,
    pub status: i32,
}

/// Kinds of messages.
pub const REPLY: i32 = 1;
pub const EVENT: i32 = 2;

impl Head {
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, XdrError> {
        let (program, _version) = (reader.u32()?, reader.u32()?);
        Ok(Self {
            program,
            procedure: reader.i32()?,
            kind: reader.i32()?,
            serial: reader.u32()?,
            status: reader.i32()?,
        })
    }

    /// Whether it is of the protocol that is spoken here.
    pub fn is_ours(&self) -> bool {
        self.program == PROGRAM
    }
}

/// A call, with its length and its head.
pub fn call(procedure: Procedure, serial: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEAD + payload.len()).unwrap_or(u32::MAX);
    let head = Writer::default().u32(length).u32(PROGRAM).u32(VERSION).i32(procedure as i32).i32(0).u32(serial).i32(0);
    let mut bytes = head.into_bytes();
    bytes.extend(payload);
    bytes
}

/// Why libvirt refused a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: i32,
    pub message: String,
}

/// libvirt's code for what a driver does not have, and for what a connection may not do.
const NO_SUPPORT: i32 = 3;
const OPERATION_DENIED: i32 = 29;
/// The domain is gone.
const NO_DOMAIN: i32 = 42;

impl Refusal {
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, XdrError> {
        let (code, _domain) = (reader.i32()?, reader.i32()?);
        Ok(Self { code, message: reader.optional()?.unwrap_or_default() })
    }

    /// Whether the driver cannot say it, or not to us.
    pub fn is_unsupported(&self) -> bool {
        matches!(self.code, NO_SUPPORT | OPERATION_DENIED)
    }

    /// Whether the domain has gone.
    pub fn is_gone(&self) -> bool {
        self.code == NO_DOMAIN
    }
}

/// A domain as messages name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    pub name: String,
    pub uuid: Uuid,
    /// -1 when it is not running.
    pub id: i32,
}

impl Domain {
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, XdrError> {
        Ok(Self { name: reader.string()?, uuid: Uuid::from_bytes(reader.uuid()?), id: reader.i32()? })
    }

    pub fn write(&self, writer: Writer) -> Writer {
        writer.string(&self.name).fixed(self.uuid.as_bytes()).i32(self.id)
    }

    pub fn is_active(&self) -> bool {
        self.id >= 0
    }
}

/// The domains of an answer.
pub fn domains(reader: &mut Reader<'_>) -> Result<Vec<Domain>, XdrError> {
    reader.list(MOST_DOMAINS, Domain::read)
}

/// What `virsh nodeinfo` says. Only what is a fallback for the capabilities is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    pub memory_kib: u64,
    pub cpus: i32,
}

impl NodeInfo {
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, XdrError> {
        // The model: 32 characters, each as a number.
        (0..32).try_for_each(|_| reader.u32().map(drop))?;
        Ok(Self { memory_kib: reader.u64()?, cpus: reader.i32()? })
    }
}

/// A statistic of a job. Types differ by field and by version of libvirt, and so the declared one is read.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Number(i128),
    Fraction(f64),
    Text(String),
}

/// The statistics of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics(Vec<(String, Value)>);

impl Statistics {
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, XdrError> {
        let one = |reader: &mut Reader<'_>| {
            let field = reader.string()?;
            let value = match reader.i32()? {
                1 | 6 => Value::Number(reader.i32()?.into()),
                2 => Value::Number(reader.u32()?.into()),
                3 => Value::Number(reader.i64()?.into()),
                4 => Value::Number(reader.u64()?.into()),
                5 => Value::Fraction(reader.f64()?),
                7 => Value::Text(reader.string()?),
                other => return Err(XdrError::UnknownType(other)),
            };
            Ok((field, value))
        };
        reader.list(MOST_STATISTICS, one).map(Self)
    }

    fn find(&self, field: &str) -> Option<&Value> {
        self.0.iter().find(|(name, _)| name == field).map(|(_, value)| value)
    }

    /// A number, unless it is negative, or none of that name was sent.
    pub fn number(&self, field: &str) -> Option<u64> {
        match self.find(field)? {
            Value::Number(number) => u64::try_from(*number).ok(),
            Value::Fraction(_) | Value::Text(_) => None,
        }
    }

    pub fn text(&self, field: &str) -> Option<&str> {
        match self.find(field)? {
            Value::Text(text) => Some(text),
            Value::Number(_) | Value::Fraction(_) => None,
        }
    }
}

/// What happened to a domain.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// `event` and `detail` are those of `virDomainEventType`.
    Lifecycle { domain: Domain, event: i32, detail: i32 },
    /// The domain restarted itself.
    Reboot { domain: Domain },
    /// The watchdog of the domain was not fed. `action` is that of `virDomainEventWatchdogAction`.
    Watchdog { domain: Domain, action: i32 },
    /// A disk returned an error. `action` is that of `virDomainEventIOErrorAction`; the reason may be empty.
    IoError { domain: Domain, path: String, device: String, action: i32, reason: String },
    /// The memory of a domain that migrates was gone through once more.
    Iteration { domain: Domain },
    /// A job has ended.
    JobCompleted { domain: Domain, statistics: Statistics },
}

impl Event {
    /// The event of a message; none if it is one that was not asked for.
    pub fn read(procedure: i32, reader: &mut Reader<'_>) -> Result<Option<Self>, XdrError> {
        const LIFECYCLE: i32 = Procedure::LifecycleEvent as i32;
        const REBOOT: i32 = Procedure::RebootEvent as i32;
        const WATCHDOG: i32 = Procedure::WatchdogEvent as i32;
        const IO_ERROR: i32 = Procedure::IoErrorEvent as i32;
        const ITERATION: i32 = Procedure::MigrationIterationEvent as i32;
        const COMPLETED: i32 = Procedure::JobCompletedEvent as i32;
        if ![LIFECYCLE, REBOOT, WATCHDOG, IO_ERROR, ITERATION, COMPLETED].contains(&procedure) {
            return Ok(None);
        }
        let _callback = reader.i32()?;
        let domain = Domain::read(reader)?;
        Ok(Some(match procedure {
            LIFECYCLE => Self::Lifecycle { domain, event: reader.i32()?, detail: reader.i32()? },
            REBOOT => Self::Reboot { domain },
            WATCHDOG => Self::Watchdog { domain, action: reader.i32()? },
            IO_ERROR => {
                let (path, device) = (reader.string()?, reader.string()?);
                Self::IoError { domain, path, device, action: reader.i32()?, reason: reader.string()? }
            }
            ITERATION => Self::Iteration { domain },
            _ => Self::JobCompleted { domain, statistics: Statistics::read(reader)? },
        }))
    }
}

/// A version as libvirt packs it.
pub fn version(packed: u64) -> String {
    format!("{}.{}.{}", packed / 1_000_000, packed / 1000 % 1000, packed % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plum() -> Domain {
        Domain { name: "plum".into(), uuid: Uuid::from_u128(7), id: 3 }
    }

    #[test]
    fn a_call_has_its_length_and_its_procedure() {
        let bytes = call(Procedure::AuthList, 5, &[1, 2, 3, 4]);
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.u32(), Ok(32));
        let head = Head::read(&mut reader).unwrap();
        assert_eq!((head.is_ours(), head.procedure, head.kind, head.serial), (true, 66, 0, 5));
        assert_eq!(bytes.len(), 32);
    }

    #[test]
    fn statistics_are_read_by_their_declared_types() {
        let bytes = Writer::default().u32(4).string("operation").i32(1).i32(5);
        let bytes = bytes.string("time_elapsed").i32(4).u32(0).u32(4363);
        let bytes = bytes.string("errmsg").i32(7).string("gone").string("odd").i32(3).i32(-1).i32(-1).into_bytes();
        let statistics = Statistics::read(&mut Reader::new(&bytes)).unwrap();
        assert_eq!((statistics.number("operation"), statistics.number("time_elapsed")), (Some(5), Some(4363)));
        assert_eq!((statistics.text("errmsg"), statistics.number("odd")), (Some("gone"), None));
        let unknown = Writer::default().u32(1).string("new").i32(8).into_bytes();
        assert_eq!(Statistics::read(&mut Reader::new(&unknown)), Err(XdrError::UnknownType(8)));
    }

    #[test]
    fn events_name_their_domain_and_others_are_ignored() {
        let bytes = plum().write(Writer::default().i32(1)).i32(5).i32(3).into_bytes();
        let event = Event::read(318, &mut Reader::new(&bytes)).unwrap();
        assert_eq!(event, Some(Event::Lifecycle { domain: plum(), event: 5, detail: 3 }));
        assert_eq!(Event::read(320, &mut Reader::new(&bytes)), Ok(None));
        let bytes =
            plum().write(Writer::default().i32(1)).string("/disk").string("virtio-disk0").i32(1).string("enospc");
        let event = Event::read(324, &mut Reader::new(&bytes.into_bytes())).unwrap();
        let (path, device) = ("/disk".into(), "virtio-disk0".into());
        assert_eq!(event, Some(Event::IoError { domain: plum(), path, device, action: 1, reason: "enospc".into() }));
        let bytes = plum().write(Writer::default().i32(1)).i32(2).into_bytes();
        let read = |procedure| Event::read(procedure, &mut Reader::new(&bytes)).unwrap();
        assert_eq!(read(321), Some(Event::Watchdog { domain: plum(), action: 2 }));
        assert_eq!(read(319), Some(Event::Reboot { domain: plum() }));
    }

    #[test]
    fn versions_are_unpacked() {
        assert_eq!(version(9_000_000), "9.0.0");
        assert_eq!(version(11_003_002), "11.3.2");
    }
}
