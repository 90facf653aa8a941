//! Time.

use std::time::Duration;

/// A source of time. Simulations advance it by hand.
pub trait Clock: Send + Sync + 'static {
    /// Time since an arbitrary fixed moment; never goes back.
    fn now(&self) -> Duration;
}
