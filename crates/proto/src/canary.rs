//! Planted bugs that the simulator must find: each leaves out one rule of the protocol, and shows that the rule is checked.
//!
//! Only the simulator enables the feature `canary`. Without it nothing is planted, ever, and the questions compile to nothing.

/// A planted bug, named by what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Canary {
    /// A transaction over several heads holds no slot until its lock point.
    SlotNotHeld,
    /// Every other transaction visits its heads in the opposite order, and nobody refuses that.
    HeadsInTwoOrders,
    /// A direct read does not wait for a pending write that it overlaps.
    PendingIgnored,
    /// A backup acknowledges entries that are not on its disk yet.
    StoredBeforeDurable,
    /// A partition votes for what is not durable on all its replicas.
    VotedBeforeDurable,
    /// A decider that does not know a transaction says that it was refused.
    AbsentIsRefused,
    /// An outcome is forgotten before the client has it.
    ForgottenEarly,
    /// A delete and a truncate leave the chunks after the first one as they are.
    CutIgnored,
    /// What is collected depends on the primary's pins alone.
    PinsOfPrimaryAlone,
    /// What is collected does not depend on pins.
    PinsIgnored,
    /// A version that has been collected is read as the one before it, and whoever reads it takes that for what there was.
    CollectedIsRead,
    /// A node whose lease is over serves.
    ServedWithoutLease,
    /// A replica serves that is no member of its epoch's set, or whose log is not a part of the primary's.
    IncompleteServes,
    /// An append does not wait for undecided transactions over several heads that change the size.
    OpenSizeIgnored,
    /// The head takes every condition for true.
    ConditionIgnored,
    /// An append starts where the blob ends that is decided, whatever else has a number.
    PendingSizeIgnored,
    /// A transaction is decided while others before it at its heads are not.
    DecidedUnsettled,
    /// A new primary gives out numbers that an earlier one gave out.
    NumbersReused,
    /// A partition prepares what was born below its floor.
    FloorIgnored,
    /// A primary prepares whose lease is over.
    PreparedWithoutLease,
    /// Writers do not wait for a freeze.
    FreezeIgnored,
    /// Staged payload goes after a while, whatever becomes of its transaction.
    StageDropped,
    /// A session is forgotten without a trace: its ids may be executed again.
    SessionForgotten,
    /// A client says that it has the answers of what has been under way for long.
    ExceptionsIgnored,
    /// A stop takes a transaction whose payload for it was lost, as if it wrote nothing there.
    LossIgnored,
    /// A freeze goes on while what it sees is not decided.
    FreezeUndecided,
    /// A keyspace that keeps only the latest versions keeps the former ones.
    FormerKept,
    /// A write of a head does not wait until its copies are gone.
    CopiesIgnored,
    /// A client says that it has given back a copy, and keeps it.
    CopiesKept,
    /// What is kept for snapshots with names is collected.
    KeepsIgnored,
    /// What a snapshot with a name shows is kept some time after its point.
    KeptLate,
    /// Nothing that is left of a chunk is ever purged.
    TombstonesStay,
    /// A node holds nothing for readers of a keyspace that it has not heard of.
    UnheardNotHeld,
    /// A node refuses transactions of a keyspace that it has not heard of.
    UnheardRefused,
    /// All appends of a transaction start where the blob ended before it.
    AppendsOverlap,
    /// What a truncate cuts off shows again when the blob grows.
    ShrinkIgnored,
    /// A blob that is deleted and created by one transaction keeps its attributes.
    RestartIgnored,
    /// A number across two chunks is transformed as if its transaction had done nothing before.
    EarlierIgnored,
    /// Whoever relies on a version is not refused for what was written after it.
    VersionIgnored,
    /// What was deleted or cut off counts in its keyspace's quota still.
    CountsKept,
}

impl Canary {
    /// All of them.
    pub const ALL: [Canary; 40] = [
        Canary::SlotNotHeld,
        Canary::HeadsInTwoOrders,
        Canary::PendingIgnored,
        Canary::StoredBeforeDurable,
        Canary::VotedBeforeDurable,
        Canary::AbsentIsRefused,
        Canary::ForgottenEarly,
        Canary::CutIgnored,
        Canary::PinsOfPrimaryAlone,
        Canary::PinsIgnored,
        Canary::CollectedIsRead,
        Canary::ServedWithoutLease,
        Canary::IncompleteServes,
        Canary::OpenSizeIgnored,
        Canary::ConditionIgnored,
        Canary::PendingSizeIgnored,
        Canary::DecidedUnsettled,
        Canary::NumbersReused,
        Canary::FloorIgnored,
        Canary::PreparedWithoutLease,
        Canary::FreezeIgnored,
        Canary::StageDropped,
        Canary::SessionForgotten,
        Canary::ExceptionsIgnored,
        Canary::LossIgnored,
        Canary::FreezeUndecided,
        Canary::FormerKept,
        Canary::CopiesIgnored,
        Canary::CopiesKept,
        Canary::KeepsIgnored,
        Canary::KeptLate,
        Canary::TombstonesStay,
        Canary::UnheardNotHeld,
        Canary::UnheardRefused,
        Canary::AppendsOverlap,
        Canary::ShrinkIgnored,
        Canary::RestartIgnored,
        Canary::EarlierIgnored,
        Canary::VersionIgnored,
        Canary::CountsKept,
    ];
}

/// Whether a bug is planted: never, in what is shipped.
#[cfg(not(feature = "canary"))]
#[inline(always)]
pub(crate) const fn planted(_: Canary) -> bool {
    false
}

#[cfg(feature = "canary")]
pub(crate) use nest::planted;
#[cfg(feature = "canary")]
pub use nest::{Planted, plant};

#[cfg(feature = "canary")]
mod nest {
    extern crate std;

    use core::cell::Cell;

    use super::Canary;

    std::thread_local! {
        static PLANTED: Cell<Option<Canary>> = const { Cell::new(None) };
    }

    /// A bug that is planted as long as this value lives.
    #[derive(Debug)]
    #[must_use = "the bug is gone when this value is dropped"]
    pub struct Planted(Option<Canary>);

    /// Plants a bug into everything that this thread runs from here on, or none.
    pub fn plant(canary: Option<Canary>) -> Planted {
        Planted(PLANTED.replace(canary))
    }

    impl Drop for Planted {
        fn drop(&mut self) {
            PLANTED.set(self.0);
        }
    }

    pub(crate) fn planted(canary: Canary) -> bool {
        PLANTED.get() == Some(canary)
    }
}
