//! Threads: each takes its mail one by one, on a processor that it may have to wait for.

use std::collections::VecDeque;

/// Threads with their mail, and the processors that they share, if they do.
#[derive(Debug)]
pub struct Threads<M> {
    threads: Vec<Thread<M>>,
    /// Processors that nobody uses; without a number there is always one.
    free: Option<u32>,
    /// Threads that wait for one.
    ready: VecDeque<usize>,
}

#[derive(Debug)]
struct Thread<M> {
    mail: VecDeque<M>,
    doing: Doing,
    busy: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Nothing,
    WaitingForProcessor,
    Working,
    WaitingForDevice,
}

impl<M> Threads<M> {
    /// So many threads that do nothing.
    pub fn new(count: usize, processors: Option<u32>) -> Self {
        let threads = (0..count).map(|_| Thread { mail: VecDeque::new(), doing: Doing::Nothing, busy: 0 });
        Threads { threads: threads.collect(), free: processors, ready: VecDeque::new() }
    }

    /// Puts in mail, behind what is there.
    pub fn put(&mut self, thread: usize, mail: M) {
        self.threads[thread].mail.push_back(mail);
    }

    /// Puts in mail that is taken next.
    pub fn put_first(&mut self, thread: usize, mail: M) {
        self.threads[thread].mail.push_front(mail);
    }

    /// Has a thread that does nothing begin with its next mail, if there is any and a processor is free. Else it waits for one.
    pub fn begin(&mut self, number: usize) -> Option<M> {
        let thread = &mut self.threads[number];
        if thread.doing != Doing::Nothing || thread.mail.is_empty() {
            return None;
        }
        match &mut self.free {
            Some(0) => {
                thread.doing = Doing::WaitingForProcessor;
                self.ready.push_back(number);
                return None;
            }
            Some(free) => *free -= 1,
            None => {}
        }
        thread.doing = Doing::Working;
        thread.mail.pop_front()
    }

    /// A thread needs its processor no longer, after so much time. Returns who has waited for one.
    pub fn release(&mut self, number: usize, busy: u64) -> Option<usize> {
        let thread = &mut self.threads[number];
        debug_assert_eq!(thread.doing, Doing::Working, "it has a processor");
        (thread.doing, thread.busy) = (Doing::WaitingForDevice, thread.busy + busy);
        self.free = self.free.map(|free| free + 1);
        let next = self.ready.pop_front();
        if let Some(next) = next {
            self.threads[next].doing = Doing::Nothing;
        }
        next
    }

    /// A thread is done with its mail.
    pub fn end(&mut self, number: usize) {
        self.threads[number].doing = Doing::Nothing;
    }

    /// For how long each thread has had a processor.
    pub fn busy(&self) -> impl Iterator<Item = u64> {
        self.threads.iter().map(|thread| thread.busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_does_one_thing_at_a_time_in_order() {
        let mut threads = Threads::new(1, None);
        threads.put(0, "a");
        threads.put(0, "b");
        assert_eq!(threads.begin(0), Some("a"));
        assert_eq!(threads.begin(0), None);
        threads.put_first(0, "tick");
        assert_eq!(threads.release(0, 7), None);
        assert_eq!(threads.begin(0), None, "it waits for the device");
        threads.end(0);
        assert_eq!((threads.begin(0), threads.busy().next()), (Some("tick"), Some(7)));
    }

    #[test]
    fn who_finds_no_processor_gets_the_next_one() {
        let mut threads = Threads::new(3, Some(1));
        (0..3).for_each(|thread| threads.put(thread, thread));
        assert_eq!(threads.begin(0), Some(0));
        assert_eq!((threads.begin(1), threads.begin(2)), (None, None));
        assert_eq!(threads.release(0, 1), Some(1));
        assert_eq!(threads.begin(1), Some(1));
        assert_eq!(threads.release(1, 1), Some(2));
        assert_eq!(threads.begin(2), Some(2));
    }
}
