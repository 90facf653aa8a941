//! Calls that make a transaction of their own, which they do again if it meets a conflict.

use std::time::{Duration, Instant};

use crate::status::{Failure, TYR_CONFLICT, TYR_UNAVAILABLE};

/// Does something until it meets no conflict, or the deadline is over. It is told each time how long it may take.
pub async fn until_done<T>(
    deadline: Duration,
    mut once: impl AsyncFnMut(Duration) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let begun = Instant::now();
    loop {
        match once(deadline.saturating_sub(begun.elapsed())).await {
            Err(conflict) if conflict.status == TYR_CONFLICT => {
                if begun.elapsed() >= deadline {
                    return Err(late(&conflict));
                }
            }
            done => return done,
        }
    }
}

#[cold]
fn late(conflict: &Failure) -> Failure {
    let conflict = &conflict.message;
    let message = format!(
        "it met conflicts until its deadline: nothing of it happened, and nothing will; try again ({conflict})"
    );
    Failure { status: TYR_UNAVAILABLE, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No test takes so long.
    const LONG: Duration = Duration::from_secs(3600);

    fn conflict() -> Failure {
        Failure { status: TYR_CONFLICT, message: "somebody was faster".into() }
    }

    /// Does what meets so many conflicts; how it ended, and how long each time it was told that it may take.
    fn tried(deadline: Duration, conflicts: usize) -> (Result<u64, Failure>, Vec<Duration>) {
        let mut told = Vec::new();
        let done = pollster::block_on(until_done(deadline, async |left| {
            told.push(left);
            if told.len() > conflicts { Ok(7) } else { Err(conflict()) }
        }));
        (done, told)
    }

    #[test]
    fn after_conflicts_it_is_done_again_in_what_is_left_of_the_time() {
        let (done, told) = tried(LONG, 3);
        assert_eq!(done.map_err(|failure| failure.message), Ok(7));
        assert_eq!(told.len(), 4);
        assert!(told[0] <= LONG && told.is_sorted_by(|before, after| before > after), "{told:?}");
    }

    #[test]
    fn past_its_deadline_it_is_unavailable_and_nothing_has_happened() {
        let (done, told) = tried(Duration::ZERO, usize::MAX);
        let failure = done.expect_err("it always meets a conflict");
        assert_eq!((failure.status, told.len()), (TYR_UNAVAILABLE, 1));
        assert!(failure.message.contains("nothing of it happened, and nothing will"), "{}", failure.message);
        assert!(failure.message.contains("somebody was faster"), "{}", failure.message);
    }

    #[test]
    fn other_failures_are_told_as_they_are() {
        let failed = pollster::block_on(until_done(LONG, async |_| Err::<(), _>(Failure::cancelled())));
        assert_eq!(failed.map_err(|failure| failure.status), Err(Failure::cancelled().status));
    }
}
