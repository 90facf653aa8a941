//! A connection, or an attempt to make one, as the program hears of it.
//!
//! Whatever ends it, be it that its task is dropped or panics: the handler is told of its end exactly once, and no frame that was handed
//! to it counts as waiting any more. If nobody makes another connection for the link, that takes no frames by then.

use std::sync::Arc;

use tyr_wire::connection::{Header, Peer};

use crate::link::{End, Handler, Link, Received};

/// A connection from the attempt to make it until its end.
pub(crate) struct Attempt {
    link: Link,
    handler: Arc<dyn Handler>,
    /// The link has no other one.
    is_only: bool,
    peer: Option<Peer>,
    end: Option<End>,
}

impl Attempt {
    /// Of a dialer.
    pub(crate) fn of_dialer(link: Link, handler: Arc<dyn Handler>) -> Self {
        Attempt { link, handler, is_only: false, peer: None, end: None }
    }

    /// Of a listener.
    pub(crate) fn of_listener(link: Link, handler: Arc<dyn Handler>) -> Self {
        Attempt { link, handler, is_only: true, peer: None, end: None }
    }

    /// Where the program hands in frames.
    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    /// Somebody else takes what comes.
    pub(crate) fn hand_to(&mut self, handler: Arc<dyn Handler>) {
        self.handler = handler;
    }

    /// Both ends have agreed.
    pub(crate) fn open(&mut self, peer: Peer) {
        self.link.set_limits(&peer);
        self.peer = Some(peer);
        self.handler.opened(&self.link, &peer);
    }

    /// A frame came.
    pub(crate) fn receive(&self, header: Header, body: &[u8]) {
        let peer = self.peer.expect("nothing is received before both have agreed");
        let receipt = self.link.receipt(header);
        self.handler.received(&self.link, Received { peer, header, body, receipt });
    }

    /// This is how it ended.
    pub(crate) fn end(mut self, end: End) {
        self.end = Some(end);
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let end = self.end.take();
        // Without an end, it was its task that was dropped, and with that whoever would make another one.
        if self.is_only || end.is_none() {
            self.link.finish();
        } else {
            self.link.forget();
        }
        self.handler.closed(&self.link, self.peer.as_ref(), &end.unwrap_or(End::Closed));
    }
}
