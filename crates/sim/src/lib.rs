//! What simulated clients did and saw, and whether a strictly serializable store could have answered so.
//!
//! A workload records each transaction in a [`History`]; the checkers in [`check`] read it afterwards. They know nothing of the
//! store: they judge only what clients were told. Nothing here reads a clock or makes a choice, so equal histories get equal
//! verdicts.
//!
//! ```
//! use tyr_sim::{check, Action, Blob, ClientId, History, Outcome, TransactionId};
//!
//! let list = Blob(0);
//! let mut history = History::new();
//! let append = history.begin(ClientId(1), TransactionId(1), "append", 10);
//! history.act(append, Action::Append { blob: list, element: 7, offset: Some(0) });
//! history.end(append, 20, Outcome::Committed);
//!
//! // This read began after the append was answered, and misses it.
//! let read = history.begin(ClientId(2), TransactionId(2), "read", 30);
//! history.act(read, Action::ReadList { blob: list, elements: Some(vec![]) });
//! history.end(read, 40, Outcome::Committed);
//!
//! let violation = check::general(&history).expect_err("the append is lost");
//! println!("{violation}");
//! ```

#![forbid(unsafe_code)]

pub mod check;
pub mod cluster;
pub mod figures;
pub mod files;
pub mod history;
mod quiet;
pub mod random;
pub mod scale;
pub mod schedule;

pub use history::{Action, Blob, ClientId, History, Operation, Outcome, Register, TransactionId};
