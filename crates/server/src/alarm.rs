//! What tells of a thread or task that has panicked. Without it nobody would know: the others would go on, and the node would keep a lease
//! for what it does no more.

use tyr_types::Error;

use crate::event::Events;

/// Kept by a thread or task as long as it runs.
#[derive(Clone)]
pub(crate) struct Alarm {
    name: String,
    events: Events,
}

impl Alarm {
    /// For the one with this name.
    pub fn new(name: impl Into<String>, events: &Events) -> Self {
        Alarm { name: name.into(), events: events.clone() }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.events.fail(Error::internal(format!("'{}' has panicked; please report it", self.name)));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_thread_that_panics_fails_the_node_and_stops_its_lease_and_one_that_ends_does_not() {
        let (events, mut heard) = Events::new();
        let run = |name: &'static str, panics: bool| {
            let alarm = Alarm::new(name, &events);
            let body = move || {
                let _alarm = alarm;
                assert!(!panics, "as the test wants");
            };
            std::thread::spawn(body).join().is_err()
        };
        assert!(!run("calm", false));
        assert!(heard.failed.try_recv().is_err());
        assert!(heard.told.stopped.borrow().is_none());
        assert!(run("wild", true));
        let error = heard.failed.try_recv().unwrap();
        assert!(error.to_string().contains("'wild' has panicked"), "{error}");
        assert!(heard.told.stopped.borrow().is_some());
    }
}
