//! The system outside: an inn with rooms, scripted to fail, to hang, and to lose its answers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use c5c3_kit::Remote;
use c5c3_kit::remote::{Action, Class, Failure, Verb};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Notify;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RoomOf(pub(crate) String);

impl fmt::Display for RoomOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the room of {}", self.0)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Room {
    pub(crate) id: u32,
    pub(crate) guest: String,
    pub(crate) floor: i64,
    pub(crate) key: String,
}

pub(crate) enum Order {
    Book { guest: String, floor: i64, key: SecretString },
    Move { id: u32, floor: i64 },
    Leave { id: u32 },
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Book { guest, floor, .. } => write!(f, "book a room for {guest} on floor {floor} with a key"),
            Self::Move { id, floor } => write!(f, "move room {id} to floor {floor}"),
            Self::Leave { id } => write!(f, "give up room {id}"),
        }
    }
}

impl Action for Order {
    fn verb(&self) -> Verb {
        match self {
            Self::Book { .. } => Verb::Create,
            Self::Move { .. } => Verb::Update,
            Self::Leave { .. } => Verb::Delete,
        }
    }
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing happens, and the failure has this class.
    Fails(Class),
    /// Nothing happens, and there is no answer.
    Hangs,
    /// It is done, and there is no answer.
    LosesAnswer,
    /// Nothing happens, and the answer is that it was done.
    Pretends,
}

#[derive(Default)]
struct State {
    rooms: BTreeMap<u32, Room>,
    next: u32,
    faults: Vec<(&'static str, Fault)>,
    log: Vec<String>,
}

#[derive(Default)]
pub(crate) struct Inn {
    state: Mutex<State>,
    pub(crate) changed: Notify,
}

impl Inn {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Lets all that is asked (`ask`) or told (`create`, `update`, `delete`) go wrong until [`Inn::heal`].
    pub(crate) fn strike(&self, what: &'static str, fault: Fault) {
        self.lock().faults.push((what, fault));
    }

    pub(crate) fn heal(&self) {
        self.lock().faults.clear();
    }

    pub(crate) fn rooms(&self) -> Vec<Room> {
        self.lock().rooms.values().cloned().collect()
    }

    /// Changes a room behind the operator's back.
    pub(crate) fn relocate(&self, floor: i64) {
        self.lock().rooms.values_mut().for_each(|room| room.floor = floor);
    }

    /// How often something was asked or told.
    pub(crate) fn count(&self, line: &str) -> usize {
        self.lock().log.iter().filter(|logged| logged.starts_with(line)).count()
    }

    async fn fault(&self, what: &'static str) -> Option<Fault> {
        let fault = self.lock().faults.iter().find(|(struck, _)| *struck == what).map(|(_, fault)| *fault);
        if fault == Some(Fault::Hangs) {
            std::future::pending::<()>().await;
        }
        fault
    }

    fn carry_out(&self, order: &Order) {
        let mut state = self.lock();
        match order {
            Order::Book { guest, floor, key } => {
                state.next += 1;
                let id = state.next;
                let key = key.expose_secret().to_owned();
                state.rooms.insert(id, Room { id, guest: guest.clone(), floor: *floor, key });
            }
            Order::Move { id, floor } => {
                state.rooms.get_mut(id).unwrap().floor = *floor;
            }
            Order::Leave { id } => {
                state.rooms.remove(id);
            }
        }
        drop(state);
        self.changed.notify_one();
    }
}

fn failure(class: Class) -> Failure {
    Failure::new(class, "Closed", "the inn is closed")
}

impl Remote for Inn {
    type Question = RoomOf;
    type Answer = Option<Room>;
    type Action = Order;
    const NAME: &'static str = "inn";
    const PATIENCE: Duration = Duration::from_millis(300);

    async fn ask(&self, question: &RoomOf) -> Result<Option<Room>, Failure> {
        self.lock().log.push(format!("ask {question}"));
        if let Some(Fault::Fails(class)) = self.fault("ask").await {
            return Err(failure(class));
        }
        Ok(self.lock().rooms.values().find(|room| room.guest == question.0).cloned())
    }

    async fn perform(&self, order: &Order) -> Result<(), Failure> {
        let verb = order.verb().name();
        self.lock().log.push(format!("{verb} {order}"));
        match self.fault(verb).await {
            Some(Fault::Fails(class)) => return Err(failure(class)),
            Some(Fault::Pretends) => return Ok(()),
            Some(Fault::LosesAnswer) => {
                self.carry_out(order);
                return std::future::pending().await;
            }
            Some(Fault::Hangs) | None => self.carry_out(order),
        }
        Ok(())
    }
}

/// The same inn for several operators.
pub(crate) type Shared = Arc<Inn>;
