//! Credit: how many bytes may be on their way on a channel, counted from the beginning of the connection.
//!
//! Both ends begin with the receiver's window. Totals only grow, so a credit that comes twice, or after a later one, changes nothing.
//! Credit is granted once half of the window is free again. Before that, a receiver that is done with all that came has granted more
//! than half of the window beyond it, which is enough for a frame of any size that the limits allow: no channel stalls.

use super::Error;

/// What the receiver has granted on a channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Granted {
    window: u64,
    received: u64,
    consumed: u64,
    granted: u64,
}

impl Granted {
    pub(super) fn new(window: u32) -> Self {
        let window = u64::from(window);
        Granted { window, received: 0, consumed: 0, granted: window }
    }

    /// A frame came.
    pub(super) fn receive(&mut self, size: usize) -> Result<(), Error> {
        self.received = self.received.saturating_add(size as u64);
        if self.received <= self.granted { Ok(()) } else { Err(Error::CreditExceeded) }
    }

    /// The program is done with bytes that came. Returns the new total if half of the window is free again.
    pub(super) fn consume(&mut self, size: usize) -> Option<u64> {
        debug_assert!(self.consumed + size as u64 <= self.received, "only what came can be consumed");
        self.consumed = self.received.min(self.consumed.saturating_add(size as u64));
        let total = self.consumed + self.window;
        if total - self.granted < self.window.div_ceil(2) {
            return None;
        }
        self.granted = total;
        Some(total)
    }

    /// Bytes that came and are not consumed.
    pub(super) fn held(&self) -> u64 {
        self.received - self.consumed
    }
}

/// What the sender may send on a channel.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Allowed {
    sent: u64,
    total: u64,
}

impl Allowed {
    pub(super) fn new(window: u32) -> Self {
        Allowed { sent: 0, total: u64::from(window) }
    }

    /// The receiver granted more.
    pub(super) fn raise(&mut self, total: u64) -> Result<(), Error> {
        // No window is larger than a number of 32 bits: whoever grants more does not count what it gets.
        if total.saturating_sub(self.sent) > u64::from(u32::MAX) {
            return Err(Error::CreditOutOfBounds);
        }
        self.total = self.total.max(total);
        Ok(())
    }

    /// Takes credit for a frame; false if there is too little.
    pub(super) fn take(&mut self, size: usize) -> bool {
        let sent = self.sent.saturating_add(size as u64);
        if sent > self.total {
            return false;
        }
        self.sent = sent;
        true
    }
}
