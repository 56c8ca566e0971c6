//! An engine: the way of one fleet to order installs and to learn how they end.

use std::fmt;
use std::sync::Arc;

use super::node::Node;
use crate::act::install::Watch;
use crate::act::say::Words;
use crate::act::{Failure, Order, Outcome, Site, Stage, State};
use crate::checkpoint::Checkpoint;
use crate::exit_status::ExitStatus;
use crate::http::Client;
use crate::signals::Stop;

/// The next action of an engine.
#[derive(Debug)]
pub enum Next {
    /// Carry out an order.
    Act(Box<Task>),
    /// End the program.
    End(ExitStatus),
}

/// The function of a [`Hook`].
type Work = dyn FnOnce(&mut Order, &dyn Watch) -> Result<(), Failure> + Send;

/// Work of an engine on the thread of the install, because it takes time.
pub struct Hook(pub Box<Work>);

impl Hook {
    /// Does the work, if there is any.
    ///
    /// # Errors
    /// The work failed.
    pub(super) fn run(
        hook: Option<Self>,
        order: &mut Order,
        watch: &dyn Watch,
    ) -> Result<(), Failure> {
        hook.map_or(Ok(()), |Self(work)| work(order, watch))
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

/// Reads the hardware in the form that an engine needs; again whenever its fleet asks for it.
pub struct Survey<'a, T>(pub &'a mut dyn FnMut() -> T);

impl<T> fmt::Debug for Survey<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Survey")
    }
}

/// An order, with everything that applies to it alone.
#[derive(Debug)]
pub struct Task {
    /// The order.
    pub order: Order,
    /// Completes it before the install.
    pub prepare: Option<Hook>,
    /// Follows an install that succeeded. If it fails, so does the order.
    pub follow: Option<Hook>,
    /// The live system, and the policy of the node for this order.
    pub site: Site,
    /// Fetches the Ignition config and the image.
    pub client: Arc<Client>,
    /// Interrupts the install.
    pub stop: Stop,
    /// True if the engine has already waited until no more disks appear.
    pub are_disks_settled: bool,
}

impl Task {
    /// An order as the site of a node allows it, on a node that has not waited for its disks.
    pub(crate) fn new(order: Order, node: &Node, client: Arc<Client>) -> Self {
        Self {
            order,
            prepare: None,
            follow: None,
            site: node.settings.site.clone(),
            client,
            stop: node.stop.clone(),
            are_disks_settled: false,
        }
    }
}

/// An event of an install.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The stage.
    pub stage: Stage,
    /// Its start, progress or end.
    pub state: State,
    /// Share of the stage that is done.
    pub percent: Option<u8>,
    /// Description, e.g. a line of the program that writes.
    pub message: Option<String>,
}

/// An install that ended with the process that carried it out.
#[derive(Debug, Clone, PartialEq)]
pub struct Crash {
    /// What the crashed process had recorded.
    pub found: Checkpoint,
    /// The outcome that follows from it.
    pub outcome: Outcome,
}

/// The action after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterCrash {
    /// End the program. `None` stands for the exit status that the state of the disk implies.
    End(Option<ExitStatus>),
    /// Start the process again.
    Restart,
}

/// A source of orders.
///
/// [`super::run`] asks for the next order, carries it out on a thread of its own, and gives the engine its outcome, until
/// the engine ends the program.
pub trait Engine {
    /// Waits for the next order.
    fn next(&mut self) -> Next;

    /// Learns how the install goes on: its events since the last call. Called at least four times a second while an order
    /// is carried out, so that the engine can also serve its fleet meanwhile.
    fn progress(&mut self, _events: Vec<Event>) {}

    /// Passes on how the order ended. Returns the exit status if the program is to end.
    fn finish(&mut self, outcome: Outcome) -> Option<ExitStatus>;

    /// Reports a crash. It is called in the parent of the crashed process, on an engine that has done nothing else.
    fn crashed(&mut self, crash: &Crash) -> AfterCrash;

    /// The fleet's word for every term, in which the failure of an order is logged.
    fn term(&self) -> Words;

    /// The machine.
    fn node(&mut self) -> &mut Node;
}
